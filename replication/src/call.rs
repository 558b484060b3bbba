//! What a program calls, and what its calls return.

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Envelope, Pattern, Request};

/// A call of the program. One at a time: the next may come when the last has returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Call<P> {
    /// A send, of any mode. It returns when the data is copied, or later if too much is kept for receivers.
    Send {
        /// The receiver.
        to: Rank,
        /// Communicator and tag.
        channel: Channel,
        /// The data.
        payload: P,
    },
    /// A receive starts.
    Receive {
        /// What it asks for.
        pattern: Pattern,
    },
    /// A wait for one receive.
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
    /// `MPI_Wtime` and its kin.
    Clock {
        /// What this process would return.
        own: u64,
    },
    /// The end: returns when all messages are verified, those that this replica has received and those that it has
    /// sent.
    Finalize,
}

/// A message that a receive has got.
#[derive(Clone, Debug, PartialEq)]
pub struct Received<P> {
    /// The receive.
    pub request: Request,
    /// Where the message comes from.
    pub envelope: Envelope,
    /// The data.
    pub payload: P,
}

/// What a call returns. Equal at all replicas of a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<P> {
    /// A call without a result has returned.
    Done,
    /// A receive has started and has this number.
    Posted(Request),
    /// Receives have their messages, in the order of the call.
    Received(Vec<Received<P>>),
    /// A probe or a test found nothing.
    Nothing,
    /// A probe found a message.
    Found {
        /// Where it comes from.
        envelope: Envelope,
        /// Its length in bytes.
        length: u64,
    },
    /// Whether a receive is cancelled: there is no such receive any more. Else it gets its message.
    Cancelled(bool),
    /// The clock of the replica that decides.
    Clock(u64),
    /// The end of `MPI_Finalize`.
    Finalized {
        /// Messages of which this replica has compared at least two copies.
        compared: u64,
        /// Messages of which it had one copy, because the other replicas of the sender were dead or there are none.
        uncompared: u64,
    },
}
