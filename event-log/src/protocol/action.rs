//! What goes into a rank's machine and what comes out.

use super::call::{Call, Outcome};
use super::message::Message;
use super::units::{Channel, Communicator, Envelope, Pattern, Payload, Request};
use crate::determinant::{Determinant, DeterminantId, Rank};

/// Something has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The program calls.
    Call(Call),
    /// MPI has completed a posted receive. It must have matched receives of one communicator in the order of
    /// [`Action::Post`].
    Completed {
        /// The receive.
        request: Request,
        /// From the status.
        envelope: Envelope,
    },
    /// MPI's answer to [`Action::Look`]; `None` only where that does not wait.
    Seen(Option<Envelope>),
    /// The answer to [`Action::Withdraw`]: whether the receive is withdrawn. Else it has its message, or is about to
    /// get it.
    Withdrawn(bool),
    /// MPI has completed the operation of [`Action::Enter`].
    CollectiveDone {
        /// This member's result; empty if it has none.
        result: Payload,
    },
    /// A message of another rank's machine, in the order of sending.
    Peer {
        /// The rank that sent it.
        from: Rank,
        /// The message.
        message: Message,
    },
    /// The event logger keeps all determinants of this rank up to this one.
    Stable {
        /// The last of them.
        up_to: DeterminantId,
    },
    /// The event logger's answer to [`Action::Fetch`]: all that it keeps, in order and without gaps. Nothing that was
    /// on its way to the logger from the dead rank and is not in the list may be stored after this answer was made.
    Fetched(Vec<Determinant>),
    /// The answer to [`Action::Capture`], before any other input: a message that counts in between would be in the
    /// checkpoint's counters and not in its state.
    Captured {
        /// The program's state, with the memory into which receives write.
        state: Payload,
    },
    /// A checkpoint will be there after any failure.
    Durable {
        /// Its number.
        checkpoint: u64,
    },
    /// A checkpoint could not be written: the one before stays the last.
    NotStored {
        /// Its number.
        checkpoint: u64,
    },
    /// A call has waited for room in the log for too long: from now on the limit ends protection. The caller has the
    /// clock. The peer that was asked for a checkpoint may itself wait for this rank.
    StopWaitingForRoom,
    /// Ranks have died and the communicators have been repaired, with replacements in the places of the dead. Comes to
    /// all ranks, the replacements among them. What was in flight before is lost, and receives, probes and
    /// collective operations that MPI had begun have ended without effect.
    Repaired,
}

/// One thing for the caller to do, in the order in which they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message in MPI, after those that were given before. Nobody waits for it to arrive.
    Transmit {
        /// The receiver.
        to: Rank,
        /// Communicator and tag.
        channel: Channel,
        /// Its number on its channel. It does not travel; it tells what is sent again.
        number: u64,
        /// The bytes.
        payload: Payload,
    },
    /// Send a message to another rank's machine.
    Tell {
        /// The rank.
        to: Rank,
        /// The message.
        message: Message,
    },
    /// Post a receive in MPI, answered by [`Input::Completed`]. After [`Input::Repaired`] those that are open come
    /// again.
    Post {
        /// Its number.
        request: Request,
        /// What to post it with. In a replay the recorded source and tag.
        pattern: Pattern,
    },
    /// Withdraw a receive that was posted, unless MPI has matched it with a message.
    Withdraw {
        /// The receive.
        request: Request,
    },
    /// Probe in MPI, answered by [`Input::Seen`].
    Look {
        /// What for.
        pattern: Pattern,
        /// Whether to wait until there is something.
        wait: bool,
    },
    /// Begin the collective operation that the program called, in MPI; answered by [`Input::CollectiveDone`].
    Enter {
        /// The communicator.
        communicator: Communicator,
        /// Its number on it, the same at all members.
        sequence: u64,
        /// What this rank puts in.
        contribution: Payload,
    },
    /// Give a determinant to the event logger, answered by [`Input::Stable`].
    Save(Determinant),
    /// The event logger may drop the determinants of this rank up to this one.
    Trim {
        /// The last of them.
        up_to: DeterminantId,
    },
    /// Ask the event logger for this rank's determinants, answered by [`Input::Fetched`].
    Fetch {
        /// Those after this one.
        since: DeterminantId,
    },
    /// Read the program's state now, answered by [`Input::Captured`].
    Capture,
    /// Write a checkpoint beside the last one, answered by [`Input::Durable`], only then may the last one go, or by
    /// [`Input::NotStored`].
    Store {
        /// Its number, higher than all before.
        checkpoint: u64,
        /// The file.
        bytes: Vec<u8>,
    },
    /// The program's call returns.
    Return(Outcome),
    /// More than half of a rank's log is taken, mostly by what this rank's checkpoint and garbage collection set free.
    CheckpointWanted {
        /// That rank; it may be this one.
        by: Rank,
    },
    /// The logs would exceed their limit and were dropped: from now on no death can be repaired. Comes at most once.
    ProtectionEnded {
        /// What the logs would take, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
}
