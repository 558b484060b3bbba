//! Defines actions that a member requests of its caller.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::message::{EndReason, Message, Subject};
use crate::units::NodeId;

/// An action for the caller. Actions are carried out in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Send a message. It may get lost; the member handles that.
    Send {
        /// The node it is for.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// Notify this node's ranks. Occurs once per subject: once per dead node, once per dead rank, once for the end.
    Deliver(Fact),
    /// This node takes no further part. Its part of the job must be stopped, too. Occurs at most once.
    Stop(StopReason),
    /// It is uncertain whether this node is on the arbiter's side of the network. Its part of the job must not run
    /// until [`Action::Release`] or [`Action::Stop`]: otherwise it could finish without the other nodes, which finish
    /// without it. Never occurs at the arbiter or without one.
    Hold,
    /// The contact is certain again: follows a [`Action::Hold`] once, unless [`Action::Stop`] does.
    Release,
    /// At the arbiter: all ranks of this node have passed MPI_Init. Occurs once per node.
    NodeReady(NodeId),
}

/// A fact, valid from now on and for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// The subject of the fact.
    pub subject: Subject,
    /// The node that announced it.
    pub source: NodeId,
    /// The node whose observation led to it, if the subject is a silent node and the notice names the observer.
    pub suspector: Option<NodeId>,
}

/// The reason why a member stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StopReason {
    /// The other nodes have declared this node dead. It accepts that: the suspicion has become the truth.
    DeclaredDead,
    /// This node has left the job at its own request.
    Left,
    /// There is no contact with the arbiter: the network is partitioned, or the arbiter's node was lost.
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
