//! The recorded outcomes that a replacement repeats.
//!
//! They are of two kinds. *Which message a receive got* is looked up by the number of the receive, when it is posted.
//! *What a call saw* (a probe, a test, a wait for one of several requests, and how many calls saw nothing before) is
//! taken in order, because a rank's calls come in the same order again.
//!
//! The replay is over when both kinds are used up; from then on outcomes are new and are recorded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::error::Error;
use super::units::Request;
use crate::determinant::{Determinant, DeterminantId, Event, Rank};

/// The tag in the determinant of a receive that was cancelled.
pub(crate) const CANCELLED: i32 = 1;

/// What a call that does not block does in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// It sees nothing, as it did.
    Nothing,
    /// It sees this, as it did: where the message is not there yet, it is waited for.
    Saw(Determinant),
    /// Nothing is recorded: it looks.
    New,
}

/// What is left to repeat. By default nothing, of a rank without a life before.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Receives that were cancelled.
    cancelled: BTreeSet<Request>,
    received: BTreeMap<Request, (Rank, i32)>,
    seen: VecDeque<Determinant>,
    last: DeterminantId,
}

impl Replay {
    /// The replay of the determinants that the logger has after `since`.
    ///
    /// # Errors
    /// [`Error::Gap`] if one is missing or out of order.
    pub fn new(since: DeterminantId, determinants: Vec<Determinant>) -> Result<Self, Error> {
        let mut replay = Self { last: since, ..Self::default() };
        for determinant in determinants {
            let expected = replay.last + 1;
            if determinant.id != expected {
                return Err(Error::Gap { expected, found: determinant.id });
            }
            replay.last = expected;
            if determinant.event == Event::Cancel && determinant.tag == CANCELLED {
                replay.cancelled.insert(determinant.request);
            }
            if determinant.event == Event::Receive {
                replay.received.insert(determinant.request, (determinant.source, determinant.tag));
            } else {
                replay.seen.push_back(determinant);
            }
        }
        Ok(replay)
    }

    /// The id of the last determinant that the logger had: new ones follow it.
    pub fn last(&self) -> DeterminantId {
        self.last
    }

    /// Whether everything has been repeated.
    pub fn is_over(&self) -> bool {
        self.received.is_empty() && self.seen.is_empty()
    }

    /// How many outcomes are left.
    pub fn left(&self) -> usize {
        self.received.len() + self.seen.len()
    }

    /// The source and the tag that a receive got, if that is recorded.
    pub fn receive(&mut self, request: Request) -> Option<(Rank, i32)> {
        self.received.remove(&request)
    }

    /// Whether a receive was cancelled: no message is to go to it.
    pub fn is_cancelled(&self, request: Request) -> bool {
        self.cancelled.contains(&request)
    }

    /// The number of calls up to the next recorded outcome of one; 0 if none is left.
    pub fn calls_of_next(&self) -> u64 {
        self.seen.front().map_or(0, |next| next.repetitions)
    }

    /// What call number `calls` (from 1, since the last recorded one) does, if it is one of `event` that does not
    /// block.
    ///
    /// While outcomes of receives are left but none of calls, every call sees nothing: had it seen something, that
    /// would stand before the receives that were posted after it.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the program makes another call than the recorded one.
    pub fn poll(&mut self, event: Event, calls: u64) -> Result<Poll, Error> {
        match self.seen.front().copied() {
            None if self.received.is_empty() => Ok(Poll::New),
            None => Ok(Poll::Nothing),
            Some(next) if calls < next.repetitions => Ok(Poll::Nothing),
            Some(next) if calls == next.repetitions && next.event == event => {
                self.seen.pop_front();
                Ok(Poll::Saw(next))
            }
            Some(next) => Err(Error::Diverged { recorded: Some(next), call: event }),
        }
    }

    /// What call number `calls` saw, if it is one that always sees something or leaves something to be seen: a blocking
    /// one or a send. `None` if nothing is recorded: it is new.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the program makes another call than the recorded one.
    pub fn block(&mut self, event: Event, calls: u64) -> Result<Option<Determinant>, Error> {
        match self.seen.front().copied() {
            None if self.received.is_empty() => Ok(None),
            Some(next) if calls == next.repetitions && next.event == event => {
                self.seen.pop_front();
                Ok(Some(next))
            }
            recorded => Err(Error::Diverged { recorded, call: event }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn determinant(id: DeterminantId, event: Event, request: u64, repetitions: u64) -> Determinant {
        Determinant { id, event, communicator: 0, source: 2, tag: 5, request, repetitions }
    }

    #[test]
    fn a_poll_sees_nothing_as_often_as_it_did() {
        let recorded = determinant(8, Event::Iprobe, 0, 3);
        let mut replay = Replay::new(7, vec![recorded]).unwrap();
        assert_eq!(replay.poll(Event::Iprobe, 1).unwrap(), Poll::Nothing);
        assert_eq!(replay.poll(Event::Test, 2).unwrap(), Poll::Nothing);
        assert!(!replay.is_over());
        assert_eq!(replay.poll(Event::Iprobe, 3).unwrap(), Poll::Saw(recorded));
        assert!(replay.is_over());
        assert_eq!(replay.poll(Event::Iprobe, 1).unwrap(), Poll::New);
        assert_eq!(replay.last(), 8);
    }

    #[test]
    fn receives_are_forced_by_their_number_in_any_order_and_polls_before_them_saw_nothing() {
        let mut replay =
            Replay::new(0, vec![determinant(1, Event::Receive, 4, 1), determinant(2, Event::Receive, 3, 1)]).unwrap();
        assert_eq!(replay.poll(Event::Iprobe, 1).unwrap(), Poll::Nothing);
        assert_eq!(replay.receive(3), Some((2, 5)));
        assert_eq!(replay.receive(5), None);
        assert_eq!(replay.left(), 1);
        assert_eq!(replay.receive(4), Some((2, 5)));
        assert_eq!(replay.poll(Event::Iprobe, 2).unwrap(), Poll::New);
    }

    #[test]
    fn another_call_than_the_recorded_one_is_an_error() {
        let recorded = determinant(1, Event::Send, 0, 3);
        let mut replay = Replay::new(0, vec![recorded]).unwrap();
        assert!(matches!(replay.block(Event::Send, 2), Err(Error::Diverged { .. })));
        assert!(matches!(replay.poll(Event::Iprobe, 3), Err(Error::Diverged { .. })));
        assert_eq!(replay.block(Event::Send, 3).unwrap(), Some(recorded));
        assert_eq!(replay.block(Event::Send, 1).unwrap(), None);
    }

    #[test]
    fn a_missing_determinant_is_an_error() {
        let gap = Replay::new(7, vec![determinant(8, Event::Probe, 0, 1), determinant(10, Event::Probe, 0, 1)]);
        assert!(matches!(gap, Err(Error::Gap { expected: 9, found: 10 })));
        assert!(Replay::new(7, vec![determinant(7, Event::Probe, 0, 1)]).is_err());
        assert!(Replay::new(7, vec![]).unwrap().is_over());
    }
}
