//! What processes say to each other. Messages may get lost, come twice and overtake each other.

use std::sync::Arc;

use crate::event::Event;
use crate::units::{Counter, Rank, Time};
use crate::view::{Attempt, Report, View};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
        /// Its counters, if they differ from the tester's and it is a member.
        counters: Option<Arc<[Counter]>>,
    },
    /// To a member that knows other counters: all counters.
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
        let has_all = |counters: &[Counter]| counters.len() == count as usize;
        let is_view = |view: &View| has_all(&view.counters) && view.members.iter().all(|rank| rank < count);
        match self {
            Message::Test(_) | Message::Query(_) | Message::Accepted { .. } => true,
            Message::Reply { counters, .. } => counters.as_ref().is_none_or(|counters| has_all(counters)),
            Message::Syndrome(counters) => has_all(counters),
            Message::Event(event) => event.origin < count && event.news.iter().all(|(rank, _)| *rank < count),
            Message::Request { target, .. }
            | Message::Propose { target, .. }
            | Message::Vote { target, .. }
            | Message::Abort { target } => *target < count,
            Message::Welcome { counters, view } => has_all(counters) && is_view(view),
            Message::Report(report) => {
                is_view(&report.view) && report.accepted.as_ref().is_none_or(|(_, view)| is_view(view))
            }
            Message::Install { view, .. } | Message::Commit(view) => is_view(view),
        }
    }
}

/// What a test asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
