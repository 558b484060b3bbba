//! Receives that have started, and the order in which their messages count.
//!
//! A message is *counted* when the program can learn that it is there. Two things depend on that order: the count per
//! channel, which has to mean "the first n", and the determinants. MPI matches receives in the order in which they were
//! posted, but large messages may be there after small ones that matched later. So a message counts only when no
//! earlier receive is open that would have taken it, too. Such a receive has its own message already (else MPI would
//! have given it this one), so nothing waits for ever, and a request that MPI has completed is shown to the program a
//! little later at most.
//!
//! From this order follows:
//! - What is counted on a channel is always a prefix of what was sent on it, without a number on the wire.
//! - In a replay a receive with `MPI_ANY_SOURCE` and no recorded outcome can be posted at once: no later receive or
//!   probe that it could rob has a recorded outcome either.
//! - After a failure every receive that is not counted is posted again, with its old buffer: nobody has seen its
//!   message, and its sender sends it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::{Envelope, Pattern, Request};
use crate::determinant::Rank;

/// A receive whose message does not count yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Open {
    /// Its number.
    pub request: Request,
    /// What it is posted with.
    pub pattern: Pattern,
    /// Whether the source and the tag of `pattern` come from a determinant.
    pub recorded: bool,
    /// Whether it is posted: one that is going to be cancelled in a replay is not.
    pub is_posted: bool,
    /// What MPI has given it.
    arrived: Option<Envelope>,
}

/// What a probe has found, until the next receive starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probed {
    /// What it asked for.
    pub asked: Pattern,
    /// What it found.
    pub envelope: Envelope,
}

impl Probed {
    /// The source and the tag of the message that a receive gets because a probe has shown it: the arguments are the
    /// same. With other arguments an older message of that source may come before.
    pub fn of_receive(self, pattern: Pattern) -> Option<(Rank, i32)> {
        let Envelope { source, channel } = self.envelope;
        (self.asked == pattern).then_some((source, channel.tag))
    }
}

/// The receives of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requests {
    last: Request,
    /// In the order of posting.
    open: Vec<Open>,
    /// Counted, but not yet shown to the program by a wait or a test.
    counted: BTreeMap<Request, Envelope>,
}

impl Requests {
    /// The number of a new receive.
    pub fn start(&mut self) -> Request {
        self.last += 1;
        self.last
    }

    /// A receive is posted.
    pub fn post(&mut self, request: Request, pattern: Pattern, recorded: bool) {
        self.open.push(Open { request, pattern, recorded, is_posted: true, arrived: None });
    }

    /// A receive has started that is going to be cancelled.
    pub fn withhold(&mut self, request: Request, pattern: Pattern) {
        self.open.push(Open { request, pattern, recorded: false, is_posted: false, arrived: None });
    }

    /// Whether a receive waits for its message.
    pub fn is_waiting(&self, request: Request) -> bool {
        self.open.iter().any(|open| open.request == request && open.arrived.is_none())
    }

    /// A receive is cancelled.
    pub fn cancel(&mut self, request: Request) {
        self.open.retain(|open| open.request != request);
    }

    /// MPI has completed a receive; false if none of this number is open.
    pub fn arrive(&mut self, request: Request, envelope: Envelope) -> bool {
        let found = self.open.iter_mut().find(|open| open.request == request && open.pattern.covers(envelope));
        found.map(|open| open.arrived = Some(envelope)).is_some()
    }

    /// Counts the next receive whose turn it is. `in_order` is false only where a test breaks this rule.
    pub fn count_next(&mut self, in_order: bool) -> Option<(Open, Envelope)> {
        let is_next = |place: usize, open: &Open| {
            let first = |envelope| !in_order || !self.open[..place].iter().any(|other| other.pattern.covers(envelope));
            open.arrived.is_some_and(first)
        };
        let place = self.open.iter().enumerate().position(|(place, open)| is_next(place, open))?;
        let open = self.open.remove(place);
        let envelope = open.arrived?;
        self.counted.insert(open.request, envelope);
        Some((open, envelope))
    }

    /// Whether a message that is seen by a probe would have gone to an open receive, had that not its own already.
    pub fn is_before(&self, envelope: Envelope) -> bool {
        self.open.iter().any(|open| open.pattern.covers(envelope))
    }

    /// Whether a receive is open, or counted and not shown.
    pub fn knows(&self, request: Request) -> bool {
        self.is_counted(request) || self.open.iter().any(|open| open.request == request)
    }

    /// Whether a wait for it would return.
    pub fn is_counted(&self, request: Request) -> bool {
        self.counted.contains_key(&request)
    }

    /// Shows a counted receive to the program, once.
    pub fn show(&mut self, request: Request) -> Option<Envelope> {
        self.counted.remove(&request)
    }

    /// All open receives have lost what they matched. Returns them in the order in which they are posted again.
    pub fn lose(&mut self) -> &mut [Open] {
        self.open.iter_mut().for_each(|open| open.arrived = None);
        &mut self.open
    }
}

#[cfg(test)]
mod tests {
    use super::super::units::Channel;
    use super::*;

    fn pattern(source: Option<u32>) -> Pattern {
        Pattern { communicator: 0, source, tag: Some(5) }
    }

    fn envelope(source: u32) -> Envelope {
        Envelope { source, channel: Channel { communicator: 0, tag: 5 } }
    }

    fn counted(requests: &mut Requests) -> Vec<(Request, u32)> {
        let next = || requests.count_next(true).map(|(open, envelope)| (open.request, envelope.source));
        std::iter::from_fn(next).collect()
    }

    fn started(patterns: &[Option<u32>]) -> Requests {
        let mut requests = Requests::default();
        for &source in patterns {
            let request = requests.start();
            requests.post(request, pattern(source), false);
        }
        requests
    }

    #[test]
    fn a_small_message_waits_for_the_large_one_of_an_earlier_receive_that_could_have_had_it() {
        let mut requests = started(&[None, Some(1)]);
        assert!(requests.arrive(2, envelope(1)));
        assert_eq!(counted(&mut requests), []);
        assert!(requests.is_before(envelope(3)));
        assert!(requests.arrive(1, envelope(2)));
        assert_eq!(counted(&mut requests), [(1, 2), (2, 1)]);
        assert!(!requests.is_before(envelope(3)));
    }

    #[test]
    fn receives_of_different_sources_do_not_wait_for_each_other() {
        let mut requests = started(&[Some(1), Some(2)]);
        assert!(requests.arrive(2, envelope(2)));
        assert_eq!(counted(&mut requests), [(2, 2)]);
    }

    #[test]
    fn what_is_not_counted_is_lost_with_a_failure_and_what_is_counted_stays() {
        let mut requests = started(&[None, None, None]);
        assert!(requests.arrive(1, envelope(4)) && requests.arrive(3, envelope(4)));
        assert_eq!(counted(&mut requests), [(1, 4)]);
        assert_eq!(requests.lose().iter().map(|open| open.request).collect::<Vec<_>>(), [2, 3]);
        assert!(requests.arrive(2, envelope(4)));
        assert_eq!(counted(&mut requests), [(2, 4)]);
        assert_eq!((requests.show(1), requests.show(1), requests.show(3)), (Some(envelope(4)), None, None));
    }

    #[test]
    fn what_was_not_asked_for_is_not_taken() {
        let mut requests = started(&[Some(1)]);
        assert!(!requests.arrive(1, envelope(2)) && !requests.arrive(2, envelope(1)));
    }
}
