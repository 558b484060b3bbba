//! What the ends of the event loggers say to each other.

use serde::{Deserialize, Serialize};

use crate::determinant::Rank;
use crate::logger::acceptor::{Reply, Request};
use crate::logger::classic::between::Between;
use crate::logger::entry::Entry;
use crate::logger::ledger::{Command, Outcome};
use crate::logger::onesided::region::{Completion, Operation};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Message {
    /// A rank to a server: centralised, classic.
    Command(Command),
    /// A server's answer.
    Outcome(Outcome),
    /// Between the replicas of the classic logger.
    Between(Between),
    /// A rank's proposer to an acceptor of its sequence: parallel.
    Request {
        /// Whose sequence.
        rank: Rank,
        /// The request.
        request: Request<Entry>,
    },
    /// The acceptor's answer.
    Reply {
        /// Whose sequence.
        rank: Rank,
        /// The answer.
        reply: Reply<Entry>,
    },
    /// Of a rank, on a memory region that is registered for it: one-sided. Only the opening is a message to a process
    /// there.
    Operation {
        /// Whose region.
        rank: Rank,
        /// The operation.
        operation: Operation,
    },
    /// How it went.
    Completion {
        /// Whose region.
        rank: Rank,
        /// The outcome.
        completion: Completion,
    },
}
