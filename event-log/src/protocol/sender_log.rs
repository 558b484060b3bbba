//! The messages that a rank has sent and that a peer may still ask for again (`msg_sent` in section 5.1 of the thesis).
//!
//! They lie in the sender's memory, per destination, in the order of sending: sent again in that order they keep the
//! order that MPI promises between tags, too. A receiver's checkpoint makes its messages garbage. The log counts its
//! bytes; [`Limit`] says what happens when they would be too many.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::counters::Counts;
use super::units::{Channel, Payload};
use crate::determinant::Rank;

/// One sent message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Its communicator and tag.
    pub channel: Channel,
    /// Its number on its channel to this destination, from 1.
    pub number: u64,
    /// Its bytes.
    pub payload: Payload,
}

impl Sent {
    /// What a message costs beside its payload: itself and the two counts of its shared payload.
    const OVERHEAD: u64 = (size_of::<Sent>() + 2 * size_of::<usize>()) as u64;

    /// The memory of a message with a payload of so many bytes.
    pub fn cost(payload: usize) -> u64 {
        payload as u64 + Self::OVERHEAD
    }
}

/// The log of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderLog {
    by_destination: Vec<VecDeque<Sent>>,
    /// What was dropped: the first so many of each channel.
    collected: Vec<Counts>,
    bytes: u64,
}

impl SenderLog {
    /// An empty log of a rank among `ranks`.
    pub fn new(ranks: u32) -> Self {
        let ranks = ranks as usize;
        Self { by_destination: vec![VecDeque::new(); ranks], collected: vec![Counts::default(); ranks], bytes: 0 }
    }

    /// Bytes of memory that the log takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages in the log.
    pub fn messages(&self) -> usize {
        self.by_destination.iter().map(VecDeque::len).sum()
    }

    /// The destination whose messages take the most memory: its checkpoint makes the most room. `None` if the log is
    /// empty.
    pub fn heaviest(&self) -> Option<Rank> {
        let weight = |sent: &VecDeque<Sent>| sent.iter().map(|sent| Sent::cost(sent.payload.len())).sum::<u64>();
        let weights = (0..).zip(self.by_destination.iter().map(weight));
        weights.filter(|&(_, bytes)| bytes > 0).max_by_key(|&(_, bytes)| bytes).map(|(rank, _)| rank)
    }

    /// Adds a message that is sent now.
    pub fn add(&mut self, to: Rank, sent: Sent) {
        self.bytes += Sent::cost(sent.payload.len());
        self.by_destination[to as usize].push_back(sent);
    }

    /// The messages to `to` that are not among the first so many of their channels, in the order of sending.
    pub fn after<'a>(&'a self, to: Rank, counts: &'a Counts) -> impl Iterator<Item = &'a Sent> {
        self.by_destination[to as usize].iter().filter(|sent| sent.number > counts.get(sent.channel))
    }

    /// Drops the messages to `to` that its checkpoint makes garbage: the first so many of each channel.
    pub fn collect(&mut self, to: Rank, stable: &Counts) {
        let mut freed = 0;
        self.by_destination[to as usize].retain(|sent| {
            let keep = sent.number > stable.get(sent.channel);
            freed += if keep { 0 } else { Sent::cost(sent.payload.len()) };
            keep
        });
        self.bytes -= freed;
        self.collected[to as usize].raise(stable);
    }

    /// Whether a rank that has received so much lacks messages that were dropped: its checkpoint has had them.
    pub fn has_dropped_of(&self, to: Rank, received: &Counts) -> bool {
        !received.covers(&self.collected[to as usize])
    }

    /// Drops everything: nothing will be sent again.
    pub fn clear(&mut self) {
        self.by_destination.iter_mut().for_each(VecDeque::clear);
        self.bytes = 0;
    }
}

/// How much memory a rank's logs may take. From half of it on, ranks whose checkpoints make room are asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of both logs together.
    pub bytes: u64,
    /// What a send does that would exceed them.
    pub policy: Policy,
}

/// What happens at the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The send waits for garbage collection.
    Wait,
    /// The logs are dropped and the rank goes on without: a later death cannot be repaired.
    EndProtection,
}

/// What becomes of a send, by the limit: the later ones are the tighter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// There is room.
    Enough,
    /// There is room, but more than half of it will be taken: it is time for checkpoints.
    Low,
    /// There will be, after a checkpoint of a peer.
    Wait,
    /// There is not, and waiting does not help or is not wanted.
    Never,
}

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit { bytes: u64::MAX, policy: Policy::Wait };

    /// Whether `new` bytes fit beside the `kept` ones.
    pub fn room(&self, kept: u64, new: u64) -> Room {
        let bytes = kept.saturating_add(new);
        if bytes <= self.bytes / 2 {
            Room::Enough
        } else if bytes <= self.bytes {
            Room::Low
        } else if self.policy == Policy::Wait && new <= self.bytes {
            Room::Wait
        } else {
            Room::Never
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(tag: i32, number: u64) -> Sent {
        Sent { channel: Channel { communicator: 0, tag }, number, payload: vec![0; 100].into() }
    }

    fn log() -> SenderLog {
        let mut log = SenderLog::new(3);
        for message in [sent(5, 1), sent(7, 1), sent(5, 2)] {
            log.add(1, message);
        }
        log.add(2, sent(5, 1));
        log
    }

    #[test]
    fn messages_come_again_in_the_order_of_sending_over_all_tags() {
        let mut received = Counts::default();
        assert_eq!(log().after(1, &received).cloned().collect::<Vec<_>>(), [sent(5, 1), sent(7, 1), sent(5, 2)]);
        received.add(sent(5, 1).channel);
        assert_eq!(log().after(1, &received).cloned().collect::<Vec<_>>(), [sent(7, 1), sent(5, 2)]);
    }

    #[test]
    fn garbage_collection_drops_what_the_checkpoint_holds_and_gives_back_its_bytes() {
        let mut log = log();
        assert_eq!((log.messages(), log.bytes()), (4, 4 * Sent::cost(100)));
        let mut stable = Counts::default();
        stable.add(sent(5, 1).channel);
        log.collect(1, &stable);
        assert_eq!((log.messages(), log.bytes()), (3, 3 * Sent::cost(100)));
        assert_eq!(log.after(1, &Counts::default()).cloned().collect::<Vec<_>>(), [sent(7, 1), sent(5, 2)]);
        log.collect(1, &stable);
        assert_eq!(log.messages(), 3);
    }

    #[test]
    fn a_rank_that_lacks_what_was_dropped_is_told_from_one_that_has_it() {
        let mut log = log();
        let mut stable = Counts::default();
        stable.add(sent(5, 1).channel);
        assert!(!log.has_dropped_of(1, &Counts::default()));
        log.collect(1, &stable);
        assert!(log.has_dropped_of(1, &Counts::default()) && !log.has_dropped_of(2, &Counts::default()));
        assert!(!log.has_dropped_of(1, &stable));
        stable.add(sent(7, 1).channel);
        assert!(!log.has_dropped_of(1, &stable));
    }

    #[test]
    fn the_heaviest_destination_is_the_one_to_ask() {
        assert_eq!(log().heaviest(), Some(1));
        assert_eq!(SenderLog::new(3).heaviest(), None);
    }

    #[test]
    fn a_message_larger_than_the_limit_never_fits() {
        let limit = Limit { bytes: 1000, policy: Policy::Wait };
        assert_eq!(limit.room(400, 100), Room::Enough);
        assert_eq!(limit.room(401, 100), Room::Low);
        assert_eq!(limit.room(900, 100), Room::Low);
        assert_eq!(limit.room(901, 100), Room::Wait);
        assert_eq!(limit.room(0, 1001), Room::Never);
        assert_eq!(Limit { policy: Policy::EndProtection, ..limit }.room(901, 100), Room::Never);
        assert_eq!(Limit::NONE.room(1 << 62, 100), Room::Enough);
    }
}
