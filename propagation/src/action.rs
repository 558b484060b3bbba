//! What a member asks of its caller.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EndReason, Message, NodeId, Subject};

/// One thing for the caller to do, in the order in which they are given.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Send a message. It may get lost: the member sees to that.
    Send {
        /// The node it is for.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// Tell this node's ranks. Comes once per subject: once per dead node, once per dead rank, once for the end.
    Deliver(Fact),
    /// This node takes no further part; what of the job runs on it must be stopped too. Comes at most once.
    Stop(StopReason),
    /// Whether this node is on the arbiter's side of the network is in doubt: what of the job runs on it must not go
    /// on until [`Action::Release`] or [`Action::Stop`]. Otherwise it could finish without the others, who do so
    /// without it. Never comes at the arbiter or without one.
    Hold,
    /// The doubt is over: follows a [`Action::Hold`], once, unless [`Action::Stop`] does.
    Release,
    /// At the arbiter: all ranks of this node have passed MPI_Init. Comes once per node.
    NodeReady(NodeId),
}

/// News that is true from now on and forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// What happened.
    pub subject: Subject,
    /// Who announced it.
    pub source: NodeId,
    /// Whose observation led to it, if the subject is a node that fell silent and the notice said so.
    pub suspector: Option<NodeId>,
}

/// Why a member stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StopReason {
    /// The others hold this node dead. It does not argue: the suspicion has become the truth.
    DeclaredDead,
    /// This node has left the job, as it wished.
    Left,
    /// There is no contact with the arbiter: the network fell apart, or the arbiter's node was lost.
    CutOff,
    /// The arbiter ended the job.
    Ended(EndReason),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::DeclaredDead => f.write_str("this node has been declared dead"),
            StopReason::Left => f.write_str("this node has left the job"),
            StopReason::CutOff => f.write_str("this node has lost contact with the launcher's node"),
            StopReason::Ended(reason) => reason.fmt(f),
        }
    }
}
