//! Stores this node's part of ranks' sequences: the acceptors, with the counts of output.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use event_log::determinant::Rank;
use event_log::logger::Holding;
use event_log::logger::acceptor::{Acceptor, Reply, Request};
use event_log::logger::entry::Entry;
use event_log::logger::parallel::Acceptors;
use event_log::logger::round::Round;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::logger::journal::Journal;
use crate::logger::words::{Word, fitting};

/// Maximum number of determinants on a node: some 150 MB.
pub const MOST_KEPT: usize = 1 << 20;
/// Length below which a journal is not rewritten.
const SHORT: u64 = 1 << 20;
/// Approximate size of one determinant in a journal, in bytes.
const RECORD: u64 = 40;

/// The acceptors of this node.
#[derive(Default)]
pub struct Store {
    state: State,
    /// Number of determinants of all sequences.
    kept: usize,
    journal: Option<Journal>,
    /// Whether earlier promises are lost: then it answers no node, which could assume that it has promised nothing.
    is_lost: bool,
    told_full: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct State {
    acceptors: Acceptors,
    outputs: BTreeMap<Rank, u64>,
}

#[derive(Serialize, Deserialize)]
enum Record {
    /// The whole state.
    Whole(State),
    /// A request that was carried out.
    Request(Rank, u64, Request<Entry>),
}

impl Store {
    /// Reads the file, which has existed since the node's first `ringwatchd`; without one nothing survives this
    /// process. `is_first` says whether this process is the first.
    #[must_use]
    pub fn open(file: Option<OwnedFd>, is_first: bool) -> Self {
        let mut store = Self::default();
        let journal = file.map(|file| {
            Journal::open(file, |bytes| match postcard::from_bytes(bytes) {
                Ok(Record::Whole(state)) => store.state = state,
                Ok(Record::Request(rank, output, request)) => drop(store.state.carry_out(rank, output, request)),
                Err(_) => store.is_lost = true,
            })
        });
        match journal {
            Some(Ok(journal)) => store.journal = Some(journal),
            Some(Err(error)) => warn!(%error, "the event logger's file cannot be used"),
            None => {}
        }
        store.is_lost |= store.journal.is_none() && !is_first;
        if store.is_lost {
            warn!("what the event logger of this node kept is lost: it takes no part any more");
        }
        store.kept = store.state.acceptors.holdings().map(|holding| holding.count).sum();
        store
    }

    /// Handles a [valid](crate::logger::words::read) request, and returns the answer. Answered requests are stored
    /// durably.
    pub fn handle(&mut self, rank: Rank, output: u64, request: Request<Entry>) -> Option<Word> {
        if self.is_lost {
            return None;
        }
        let (Request::Prepare { round, .. } | Request::Accept { round, .. } | Request::Trim { round, .. }) = request;
        // A process that becomes the rank gives existing data its own round.
        let last = self.state.acceptors.get(rank).map_or(0, Acceptor::last);
        let grows = matches!(&request, Request::Accept { first, values, .. } if first + values.len() as u64 > last + 1);
        if grows && self.kept >= MOST_KEPT {
            if !std::mem::replace(&mut self.told_full, true) {
                warn!(
                    MOST_KEPT,
                    "the event logger of this node is full: ranks wait until they have written checkpoints"
                );
            }
            return Some(Word::Full { rank, round });
        }
        let before = self.count(rank);
        let record = self.journal.is_some().then(|| Record::Request(rank, output, request.clone()));
        let reply = self.state.carry_out(rank, output, request);
        self.kept = self.kept + self.count(rank) - before;
        if matches!(reply, Some(Reply::Refused { .. })) {
            // Nothing has changed.
            return reply.map(|reply| Word::Reply { rank, output: 0, reply });
        }
        if let (Some(record), Some(journal)) = (record, &mut self.journal) {
            let written = postcard::to_stdvec(&record).map(|bytes| journal.append(&bytes));
            if !matches!(written, Ok(Ok(()))) {
                warn!("the event logger of this node has no memory for its file: it takes no part any more");
                self.is_lost = true;
                return None;
            }
        }
        self.shorten();
        let output = self.state.outputs.get(&rank).copied().unwrap_or(0);
        reply.map(|reply| Word::Reply { rank, output, reply })
    }

    fn count(&self, rank: Rank) -> usize {
        self.state.acceptors.get(rank).map_or(0, Acceptor::len)
    }

    /// Rewrites the journal when most of it is trimmed data.
    fn shorten(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        if journal.size() < SHORT || journal.size() / 4 < self.kept as u64 * RECORD {
            return;
        }
        // On failure it only stays longer than necessary.
        let state = std::mem::take(&mut self.state);
        let whole = Record::Whole(state);
        if let Ok(bytes) = postcard::to_stdvec(&whole) {
            if let Err(error) = journal.replace(&bytes) {
                warn!(%error, "the event logger's file is not shortened");
            }
        }
        if let Record::Whole(state) = whole {
            self.state = state;
        }
    }

    /// The stored data of each rank.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.state.acceptors.holdings()
    }

    /// Whether a process of this rank with that round, or a later one, has called.
    #[must_use]
    pub fn has_seen(&self, rank: Rank, round: Round) -> bool {
        self.state.acceptors.get(rank).is_some_and(|acceptor| acceptor.promised() >= round)
    }

    /// Whether it is certain that no process of this rank has ever called.
    #[must_use]
    pub fn is_new(&self, rank: Rank) -> bool {
        !self.is_lost && self.state.acceptors.get(rank).is_none()
    }
}

impl State {
    fn carry_out(&mut self, rank: Rank, output: u64, request: Request<Entry>) -> Option<Reply<Entry>> {
        let mut reply = self.acceptors.handle(rank, request);
        if let Some(Reply::Promise { accepted, is_part, .. }) = &mut reply {
            // The writer asks for the rest.
            let most = fitting(accepted);
            *is_part |= accepted.len() > most;
            accepted.truncate(most);
        }
        if !matches!(reply, Some(Reply::Refused { .. })) {
            let kept = self.outputs.entry(rank).or_default();
            *kept = output.max(*kept);
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use event_log::determinant::{Determinant, Event};
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    const ROUND: Round = Round::first(1);

    fn entries(ids: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        let one = |id| Entry {
            origin: ROUND,
            is_first: id == 1,
            determinant: Determinant {
                id,
                event: Event::Receive,
                communicator: 0,
                source: 0,
                tag: 0,
                request: 0,
                repetitions: 1,
            },
        };
        ids.map(one).collect()
    }

    fn accept(store: &mut Store, output: u64, ids: std::ops::RangeInclusive<u64>) -> Option<Word> {
        store.handle(3, output, Request::Accept { round: ROUND, first: *ids.start(), values: entries(ids) })
    }

    fn promise(store: &mut Store, after: u64) -> Option<Word> {
        store.handle(3, 0, Request::Prepare { round: ROUND.above(2), after })
    }

    #[test]
    fn all_that_was_answered_survives_the_process_and_what_was_trimmed_takes_no_memory() {
        let file = memfd_create(c"store-test", MFdFlags::MFD_CLOEXEC).unwrap();
        let open = |is_first| Store::open(Some(file.try_clone().unwrap()), is_first);
        let mut store = open(true);
        assert!(store.is_new(3));
        for first in (1..60_000).step_by(20) {
            assert!(accept(&mut store, first, first..=first + 19).is_some());
            store.handle(3, 0, Request::Trim { round: ROUND, up_to: first });
        }
        let size = store.journal.as_ref().unwrap().size();
        assert!(size < 2 * SHORT, "{size}");
        let answer = promise(&mut store, 59_990);
        assert!(matches!(&answer, Some(Word::Reply { output: 59_981, reply: Reply::Promise { accepted, .. }, .. })
            if accepted.len() == 10));
        let mut again = open(false);
        assert!(!again.is_new(3));
        assert_eq!((again.kept, promise(&mut again, 59_990)), (19, answer));
        // The promise is stored, too.
        let refused = accept(&mut again, 0, 60_001..=60_001);
        assert!(matches!(refused, Some(Word::Reply { reply: Reply::Refused { .. }, .. })));
    }

    #[test]
    fn who_has_lost_what_it_promised_answers_nobody() {
        let mut store = Store::open(None, false);
        assert!(accept(&mut store, 0, 1..=1).is_none() && promise(&mut store, 0).is_none() && !store.is_new(3));
        let mut first = Store::open(None, true);
        assert!(accept(&mut first, 0, 1..=1).is_some());
    }

    #[test]
    fn a_full_store_takes_nothing_new_but_lets_a_replacement_have_what_is_there() {
        let mut store = Store::open(None, true);
        accept(&mut store, 0, 1..=10);
        store.kept = MOST_KEPT;
        assert!(matches!(accept(&mut store, 0, 10..=11), Some(Word::Full { rank: 3, round: ROUND })));
        assert!(matches!(accept(&mut store, 0, 1..=10), Some(Word::Reply { reply: Reply::Accepted { .. }, .. })));
        // A count of output needs no space.
        let nothing = Request::Accept { round: ROUND, first: 11, values: Vec::new() };
        assert!(matches!(store.handle(3, 7, nothing), Some(Word::Reply { output: 7, .. })));
        store.handle(3, 0, Request::Trim { round: ROUND, up_to: 5 });
        assert!(matches!(accept(&mut store, 0, 10..=11), Some(Word::Reply { .. })));
    }
}
