//! What the replicas of the classic logger say to each other.

use serde::{Deserialize, Serialize};

use crate::logger::acceptor::{Instance, Reply, Request};
use crate::logger::ledger::{Command, Ledger, Outcome};

/// What is decided in an instance: a command, or nothing where a coordinator found a gap.
pub type Proposal = Option<Command>;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Between {
    /// A coordinator to an acceptor.
    Request {
        /// All up to this instance are decided.
        decided: Instance,
        /// The request.
        request: Request<Proposal>,
    },
    /// An acceptor's answer.
    Reply {
        /// The answer.
        reply: Reply<Proposal>,
        /// With a promise: the outcome of the instances that the acceptor no longer has and the coordinator lacks.
        state: Option<State>,
    },
    /// To the coordinator: the sender lacks decided instances after this one.
    Behind(Instance),
    /// What they came to.
    State(State),
}

/// The outcome of all instances up to one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct State {
    /// The last instance that was carried out.
    pub applied: Instance,
    /// What it came to.
    pub ledger: Ledger,
}

impl State {
    /// Carries out the next instance.
    pub fn apply(&mut self, proposal: Option<&Command>) -> Option<Outcome> {
        self.applied += 1;
        proposal.map(|command| self.ledger.apply(command))
    }
}
