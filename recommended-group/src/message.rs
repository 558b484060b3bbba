//! What processes say to each other. Messages may get lost, come twice and overtake each other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::units::{Counter, Rank, Time};
use crate::view::{Attempt, Report, View};

/// No counter and no number of a view, a round or an attempt is as high: each can still grow.
const NEVER: u32 = 1 << 31;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Message {
    /// Answer this.
    Test(Asked),
    /// The answer.
    Reply {
        /// The test.
        asked: Asked,
        /// The answer.
        answer: u64,
        /// The digest of the counters of the tested process.
        digest: u64,
        /// Its counters, if they differ from the tester's.
        counters: Option<Arc<[Counter]>>,
    },
    /// To a process that knows other counters: all counters.
    Syndrome(Arc<[Counter]>),
    /// A broadcast, or a copy that is passed on.
    Event(Arc<Event>),
    /// To the leader: this process, with this odd counter, has passed enough tests.
    Request {
        /// The process.
        target: Rank,
        /// Its counter.
        counter: Counter,
    },
    /// The leader asks for a vote.
    Propose {
        /// The process that may come back.
        target: Rank,
        /// Its counter, which is odd.
        counter: Counter,
        /// The digest of the leader's counters.
        digest: u64,
    },
    /// A vote.
    Vote {
        /// The process that may come back.
        target: Rank,
        /// As proposed.
        digest: u64,
        /// Whether the voter agrees.
        agrees: bool,
    },
    /// The ballot has failed; it may be asked for again.
    Abort {
        /// The process that stays outside.
        target: Rank,
    },
    /// To a process that comes back: all it needs to know.
    Welcome {
        /// All counters.
        counters: Arc<[Counter]>,
        /// The last view.
        view: Arc<View>,
    },
    /// A new leader asks for a report.
    Query(Attempt),
    /// To the leader.
    Report(Arc<Report>),
    /// The leader proposes a view.
    Install {
        /// The leader's attempt.
        attempt: Attempt,
        /// The view.
        view: Arc<View>,
    },
    /// The view is accepted.
    Accepted {
        /// As proposed.
        attempt: Attempt,
        /// The number of the view.
        number: u64,
    },
    /// The view is agreed.
    Commit(Arc<View>),
}

impl Message {
    /// Whether all processes and counters in it are those of a job with so many processes. What is not is not handled.
    #[must_use]
    pub fn is_for(&self, count: u32) -> bool {
        let has_all =
            |counters: &[Counter]| counters.len() == count as usize && counters.iter().all(|one| *one < NEVER);
        match self {
            Message::Test(_) => true,
            Message::Query(attempt) | Message::Accepted { attempt, .. } => is_attempt(*attempt),
            Message::Reply { counters, .. } => counters.as_ref().is_none_or(|counters| has_all(counters)),
            Message::Syndrome(counters) => has_all(counters),
            Message::Event(event) => {
                let is_known = |(rank, counter): &(Rank, Counter)| *rank < count && *counter < NEVER;
                event.origin < count && event.group.is_of(count) && event.news.iter().all(is_known)
            }
            Message::Request { target, counter } | Message::Propose { target, counter, .. } => {
                *target < count && *counter < NEVER
            }
            Message::Vote { target, .. } | Message::Abort { target } => *target < count,
            Message::Welcome { counters, view } => has_all(counters) && is_view(view, count),
            Message::Report(report) => {
                let is_accepted = |(attempt, view): &(Attempt, Arc<View>)| is_attempt(*attempt) && is_view(view, count);
                let is_right = report.accepted.as_ref().is_none_or(is_accepted);
                is_right && is_attempt(report.promised) && is_view(&report.view, count)
            }
            Message::Install { attempt, view } => is_attempt(*attempt) && is_view(view, count),
            Message::Commit(view) => is_view(view, count),
        }
    }
}

fn is_attempt(attempt: Attempt) -> bool {
    attempt.0 < NEVER.into()
}

fn is_view(view: &View, count: u32) -> bool {
    let has_all = view.counters.len() == count as usize && view.counters.iter().all(|one| *one < NEVER);
    let numbers = [view.number, view.round, view.base];
    has_all && view.members.is_of(count) && is_attempt(view.attempt) && numbers.iter().all(|one| *one < NEVER.into())
}

/// What a test asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asked {
    /// The tester's interval: a late answer is not taken for that to a later test.
    pub interval: u64,
    /// When it was sent, on the tester's clock.
    pub sent: Time,
    /// The question.
    pub question: u64,
    /// The digest of the tester's counters.
    pub digest: u64,
}
