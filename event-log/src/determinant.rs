//! The record of one event whose outcome the program does not determine, as an event logger keeps it.

use serde::{Deserialize, Serialize};

/// A rank of the job's first communicator, from 0.
pub type Rank = u32;

/// The place of a determinant in its rank's sequence, from 1 without gaps.
pub type DeterminantId = u64;

/// The kind of call that had the outcome (thesis, table 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// A receive from any source, or with any tag, matched a message.
    Receive,
    /// A blocking probe found a message.
    Probe,
    /// A non-blocking probe found a message, after calls that did not.
    Iprobe,
    /// A test of one or several requests found them complete, after calls that did not.
    Test,
    /// A wait for one of several requests returned one.
    WaitAny,
    /// A receive was cancelled, or was not because it had its message.
    Cancel,
    /// A clock was read.
    Clock,
    /// Something left the rank, a message or a part of a collective operation, after calls that found nothing.
    Send,
}

/// The outcome of one event. Replaying a rank's determinants in order repeats its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Determinant {
    /// Its place in the rank's sequence.
    pub id: DeterminantId,
    /// The kind of call.
    pub event: Event,
    /// The communicator of the message, counted in the order in which the program made its communicators.
    pub communicator: u32,
    /// The sender of the message, a rank of the job's first communicator.
    pub source: Rank,
    /// The tag of the message. Of a cancelled receive 1, of one that was not cancelled 0.
    pub tag: i32,
    /// The receive that got the message, counted from 1 in the order in which the rank started its receives, blocking
    /// ones too; 0 for a probe, a send, and a test of several requests at once. Of a clock: what it has shown.
    pub request: u64,
    /// Calls since the last recorded outcome of a call, up to and with the one that had this outcome: at least 1. For a
    /// receive always 1.
    pub repetitions: u64,
}
