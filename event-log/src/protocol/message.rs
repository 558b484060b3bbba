//! What ranks say to each other beside the program's own messages.

use serde::{Deserialize, Serialize};

use super::collective_log::{Completed, Share};
use super::counters::Counts;
use super::units::Communicator;

/// A message from rank to rank.
///
/// It travels over the communicator that the last repair has made, in the order of sending, and may be lost only with
/// the next failure. So one of before a repair never arrives after it, and none arrives before its receiver has heard
/// of the repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// After each repair, from everybody to everybody (F3, F4, X5).
    Counters {
        /// What the sender has received from the receiver.
        received: Counts,
        /// The collective operations that the sender has completed.
        completed: Completed,
    },
    /// What the sender's last durable checkpoint holds (G1).
    Garbage {
        /// What it has received from the receiver.
        received: Counts,
        /// The collective operations that it has completed.
        completed: Completed,
    },
    /// More than half of the sender's log is taken: a checkpoint of the receiver makes room.
    PleaseCheckpoint,
    /// The sender wants what the receiver has of a collective operation, now or once it has begun it.
    Want {
        /// The communicator.
        communicator: Communicator,
        /// The number of the operation on it.
        sequence: u64,
    },
    /// The answer.
    Give {
        /// The communicator.
        communicator: Communicator,
        /// The number of the operation on it.
        sequence: u64,
        /// What the sender has.
        share: Share,
    },
}
