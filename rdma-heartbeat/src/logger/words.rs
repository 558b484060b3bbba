//! Defines messages between loggers of different nodes. Messages to one node that are sent at the same time share a
//! datagram.

use event_log::determinant::{DeterminantId, Rank};
use event_log::logger::acceptor::{Reply, Request};
use event_log::logger::entry::Entry;
use event_log::logger::round::Round;
use serde::{Deserialize, Serialize};

/// Maximum number of bytes of messages in a datagram, which has at most 1,400 bytes with its envelope.
pub const MOST_BYTES: usize = 1340;

/// Exclusive upper bound of ids, so that computations cannot overflow.
const HIGHEST_ID: u64 = 1 << 62;

/// Whether an id is valid.
#[must_use]
pub fn is_id(id: DeterminantId) -> bool {
    id < HIGHEST_ID
}

/// Maximum number of bytes of entries, or of votes, in a message. Its other fields fit into the rest of a datagram.
const MOST_LISTED: usize = 1240;

/// Number of list elements that fit into one message, at least one.
#[must_use]
pub fn fitting<T: Serialize>(list: &[T]) -> usize {
    let mut room = MOST_LISTED;
    let fits = |one: &&T| {
        let size = postcard::to_stdvec(one).map_or(usize::MAX, |bytes| bytes.len());
        room.checked_sub(size).inspect(|rest| room = *rest).is_some()
    };
    list.iter().take_while(fits).count().max(1)
}

/// One message. Beside the state machines' own message it carries the number of bytes of standard output that the rank
/// has written. This number only grows, and each logger keeps the maximum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// From the writer of a rank's sequence.
    Request {
        /// The rank of the sequence.
        rank: Rank,
        /// The writer's count of output.
        output: u64,
        /// The request.
        request: Request<Entry>,
    },
    /// From a node that stores it.
    Reply {
        /// The rank of the sequence.
        rank: Rank,
        /// The count of output that the node stores.
        output: u64,
        /// The answer.
        reply: Reply<Entry>,
    },
    /// The node has no space for this.
    Full {
        /// The rank of the sequence.
        rank: Rank,
        /// The round of the request.
        round: Round,
    },
}

/// Packs messages into as few datagrams as possible, in order. An oversized message has a datagram of its own.
#[must_use]
pub fn pack(words: &[Word]) -> Vec<Vec<u8>> {
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    for word in words {
        let Ok(bytes) = postcard::to_stdvec(word) else { continue };
        match datagrams.last_mut() {
            Some(last) if last.len() + bytes.len() <= MOST_BYTES => last.extend_from_slice(&bytes),
            _ => datagrams.push(bytes),
        }
    }
    datagrams
}

/// The messages of a datagram, without invalid ones; `None` if it holds anything else.
#[must_use]
pub fn read(mut bytes: &[u8]) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    while !bytes.is_empty() {
        let (word, rest) = postcard::take_from_bytes::<Word>(bytes).ok()?;
        bytes = rest;
        if makes_sense(&word) {
            words.push(word);
        }
    }
    Some(words)
}

fn makes_sense(word: &Word) -> bool {
    match word {
        Word::Request { request: Request::Prepare { after, .. }, .. } => is_id(*after),
        Word::Request { request: Request::Trim { up_to, .. }, .. } => is_id(*up_to),
        Word::Request { request: Request::Accept { first, values, .. }, .. } => {
            is_id(*first) && *first > 0 && (*first..).zip(values).all(|(id, entry)| entry.determinant.id == id)
        }
        Word::Reply { reply: Reply::Promise { after, trimmed, accepted, .. }, .. } => {
            let is_vote = |(instance, id): (u64, u64)| is_id(instance) && instance == id;
            is_id(*after)
                && is_id(*trimmed)
                && accepted.iter().all(|vote| is_vote((vote.instance, vote.value.determinant.id)))
                && accepted.windows(2).all(|pair| pair[0].instance < pair[1].instance)
                && accepted.first().is_none_or(|vote| vote.instance > *after)
        }
        Word::Reply { reply: Reply::Accepted { last, .. }, .. } => is_id(*last),
        Word::Reply { reply: Reply::Refused { .. }, .. } | Word::Full { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use event_log::determinant::{Determinant, Event};
    use event_log::logger::acceptor::Vote;
    use propagation::Message;
    use propagation::wire::Sealer;

    use super::*;

    /// The longest valid numbers in all fields.
    fn longest(id: u64) -> Entry {
        let most = u32::MAX;
        let (event, request) = (Event::WaitAny, u64::MAX);
        let determinant =
            Determinant { id, event, communicator: most, source: most, tag: i32::MIN, request, repetitions: u64::MAX };
        Entry { origin: Round { number: most, proposer: most }, is_first: true, determinant }
    }

    #[test]
    fn the_longest_words_fit_into_datagrams_that_no_network_divides() {
        let round = Round { number: u32::MAX, proposer: u32::MAX };
        let (rank, output, first) = (u32::MAX, u64::MAX, HIGHEST_ID - 1000);
        let mut values: Vec<_> = (first..).take(512).map(longest).collect();
        let mut accepted: Vec<_> =
            values.iter().map(|value| Vote { instance: value.determinant.id, round, value: *value }).collect();
        values.truncate(fitting(&values));
        accepted.truncate(fitting(&accepted));
        assert!(values.len() > 20 && accepted.len() > 15, "{} and {}", values.len(), accepted.len());
        let request = Request::Accept { round, first, values };
        let reply = Reply::Promise { round, after: first - 1, trimmed: first - 1, accepted, is_part: true };
        for word in [Word::Request { rank, output, request }, Word::Reply { rank, output, reply }] {
            let [bytes] = &pack(std::slice::from_ref(&word))[..] else { panic!("it is one") };
            assert_eq!(read(bytes), Some(vec![word]));
            let mut datagram = Vec::new();
            Sealer::new(1, [0; 32], 1, 0).seal(2, 0, &Message::Logger { word: bytes.clone() }, &mut datagram);
            assert!(datagram.len() <= 1400, "{}", datagram.len());
        }
    }

    #[test]
    fn words_for_one_node_share_datagrams_and_keep_their_order() {
        let word = |number| Word::Full { rank: number, round: Round::first(number) };
        let words: Vec<_> = (0..1000).map(word).collect();
        let datagrams = pack(&words);
        assert!(datagrams.len() < 8 && datagrams.iter().all(|datagram| datagram.len() <= MOST_BYTES));
        assert_eq!(datagrams.iter().flat_map(|bytes| read(bytes).unwrap()).collect::<Vec<_>>(), words);
        assert_eq!(read(&[datagrams[0].as_slice(), &[9]].concat()), None);
    }

    #[test]
    fn what_makes_no_sense_is_not_handed_on() {
        let (rank, output, round) = (1, 0, Round::first(1));
        let entry = |id| longest(id);
        for request in [
            Request::Prepare { round, after: HIGHEST_ID },
            Request::Trim { round, up_to: u64::MAX },
            Request::Accept { round, first: 0, values: vec![] },
            Request::Accept { round, first: u64::MAX, values: vec![] },
            Request::Accept { round, first: 5, values: vec![entry(5), entry(7)] },
        ] {
            let bytes = pack(&[Word::Request { rank, output, request }]).concat();
            assert_eq!(read(&bytes), Some(vec![]));
        }
    }
}
