//! What the caller does, and is told.

use std::sync::Arc;

use crate::message::{Asked, Message};
use crate::units::{Counter, Rank, Time};
use crate::view::View;

/// One thing for the caller to do or to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a message. It may get lost.
    Send {
        /// The receiver.
        to: Rank,
        /// The message.
        message: Message,
    },
    /// Work the answer out ([`Test::answer`](crate::test::Test::answer)) and hand it to
    /// [`Member::answered`](crate::member::Member::answered).
    Answer {
        /// The tester.
        to: Rank,
        /// The test.
        asked: Asked,
    },
    /// A process was tested.
    Tested {
        /// The process.
        target: Rank,
        /// The time of its reply; none: it was given up.
        reply: Option<Time>,
        /// The threshold of this test.
        threshold: Time,
        /// Whether it has passed.
        passed: bool,
    },
    /// This process is about to tell all others that a process leaves the group (odd) or comes back (even).
    /// [`Action::Changed`] follows.
    Decided {
        /// The process.
        rank: Rank,
        /// Its new counter.
        counter: Counter,
    },
    /// A process has left the group (odd) or come back (even). Comes again after [`Action::Round`] for members of the
    /// view that have left since it was made.
    Changed {
        /// The process.
        rank: Rank,
        /// Its new counter.
        counter: Counter,
    },
    /// This process has asked the leader to bring a process back.
    Requested {
        /// The process.
        rank: Rank,
    },
    /// This process has voted on a return.
    Voted {
        /// The process.
        rank: Rank,
        /// How.
        agrees: bool,
    },
    /// This process, the leader, has opened a ballot.
    Opened {
        /// The process.
        rank: Rank,
    },
    /// The barrier is passed: the next round begins with this view, of which this process is a member.
    Round(Arc<View>),
}
