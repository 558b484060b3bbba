//! What a program calls, and what its calls return.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::{Channel, Communicator, Envelope, Pattern, Payload, Request};
use crate::determinant::Rank;

/// A call of the program. One at a time: the next may come when the last has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A communicator was made. A replacement's program makes it again unless its checkpoint is later.
    AddCommunicator {
        /// Its number.
        communicator: Communicator,
        /// Its members, as ranks of the job's first communicator.
        members: Vec<Rank>,
    },
    /// A send, of any mode. It returns when the message is in the log; the log, not the program's buffer, is sent.
    Send {
        /// The receiver, a rank of the job's first communicator.
        to: Rank,
        /// Communicator and tag.
        channel: Channel,
        /// The bytes.
        payload: Payload,
    },
    /// A receive starts. A blocking one is this and a wait.
    Receive {
        /// What it asks for.
        pattern: Pattern,
    },
    /// A wait for one receive. A wait for all of several is one after the other.
    Wait {
        /// The receive.
        request: Request,
    },
    /// A wait for one of several receives (`MPI_Waitany`; `MPI_Waitsome` may return one, too).
    WaitAny {
        /// The receives.
        requests: Vec<Request>,
    },
    /// A test of one receive or of several, of which it returns one (`MPI_Test`, `MPI_Testany`, `MPI_Testsome`).
    Test {
        /// The receives.
        requests: Vec<Request>,
    },
    /// A test of several receives, which it returns all or none (`MPI_Testall`).
    TestAll {
        /// The receives.
        requests: Vec<Request>,
    },
    /// A blocking probe.
    Probe {
        /// What it asks for.
        pattern: Pattern,
    },
    /// A probe that does not block.
    Iprobe {
        /// What it asks for.
        pattern: Pattern,
    },
    /// A receive is cancelled, if it has no message (`MPI_Cancel`).
    Cancel {
        /// The receive.
        request: Request,
    },
    /// What a clock shows, or anything else that the process reads and nobody else determines (`MPI_Wtime`).
    Clock {
        /// The reading.
        now: u64,
    },
    /// A collective operation.
    Collective {
        /// The communicator.
        communicator: Communicator,
        /// What this rank puts in, for all members together.
        contribution: Payload,
        /// The members whose contributions make this rank's result, as ranks of the job's first communicator: for
        /// `MPI_Bcast` the root, for `MPI_Allreduce` all.
        needs: Vec<Rank>,
        /// Whether all members get the same result, bit by bit.
        alike: bool,
    },
    /// A checkpoint. The program's state is asked for by [`Action::Capture`](super::action::Action::Capture).
    Checkpoint,
    /// Tell the peers what they need not keep any longer.
    CollectGarbage,
}

/// What a call returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A call without a result has returned.
    Done,
    /// A receive has started and has this number.
    Posted(Request),
    /// A receive has its message.
    Received {
        /// The receive.
        request: Request,
        /// Where the message came from.
        envelope: Envelope,
    },
    /// All receives that were asked for have their messages, in the order of the call.
    ReceivedAll(Vec<(Request, Envelope)>),
    /// A probe or a test found nothing.
    Nothing,
    /// A probe found a message.
    Found(Envelope),
    /// Whether a receive is cancelled: there is no such receive any more. Else it gets its message.
    Cancelled(bool),
    /// What the clock has shown: in a replay, the reading of the process before.
    Clock(u64),
    /// A collective operation is complete.
    Collective(Gathered),
    /// The checkpoint of this number is being written.
    CheckpointTaken(u64),
    /// There is no checkpoint now.
    CheckpointRefused(Refusal),
    /// A replacement's program may start.
    Restored {
        /// The program's state in the last checkpoint; `None` to start from the beginning.
        state: Option<Payload>,
    },
}

/// What came out of a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gathered {
    /// The result: MPI's, or the same one from a member's log.
    Result(Payload),
    /// The contributions that make the result, by rank. The caller combines them as MPI does; a reduction of floating
    /// point numbers has to be in the same order to be the same bit by bit.
    Contributions(BTreeMap<Rank, Payload>),
}

/// Why there is no checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The rank is still repeating what it did before its failure.
    Replaying,
    /// The checkpoint before it is not durable yet.
    Writing,
    /// The log was dropped.
    Unprotected,
}
