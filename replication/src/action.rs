//! What goes into the machine of a replica and what comes out.

use event_log::determinant::Rank;

use crate::call::{Call, Outcome};
use crate::finding::Finding;
use crate::message::Message;
use crate::replicas::Replica;

/// Something has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<P> {
    /// The program calls.
    Call(Call<P>),
    /// A message of another replica, or of this one to itself, in the order of sending.
    Peer {
        /// Who sent it.
        from: Replica,
        /// The message.
        message: Message<P>,
    },
    /// A replica is dead.
    Died(Replica),
}

/// One thing for the caller to do, in the order in which they are given.
#[derive(Clone, Debug, PartialEq)]
pub enum Action<P> {
    /// Send to a replica, which may be this one.
    Transmit {
        /// The receiver.
        to: Replica,
        /// The message.
        message: Message<P>,
    },
    /// The program's call returns.
    Return(Outcome<P>),
    /// Something was found wrong, and the job can go on.
    Report(Finding),
    /// Something was found wrong that no majority settles: the job ends. Nothing comes after that.
    End(Finding),
    /// The last replica of a rank is dead.
    Lost(Rank),
}
