//! One server. Two delays, two messages; while it is gone every rank that waits for it stands still, and what it kept
//! is lost.

use crate::logger::Holding;
use crate::logger::ledger::{Command, Ledger, Outcome};

/// The server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    ledger: Ledger,
}

impl Server {
    /// Carries out a command; the answer goes to its writer's address.
    pub fn handle(&mut self, command: &Command) -> Outcome {
        self.ledger.apply(command)
    }

    /// What is here of each rank.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.ledger.holdings()
    }
}
