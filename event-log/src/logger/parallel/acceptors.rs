//! The acceptors of a node: one for each rank whose sequence it helps to keep.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::determinant::Rank;
use crate::logger::Holding;
use crate::logger::acceptor::{Acceptor, Reply, Request};
use crate::logger::entry::Entry;

/// Acceptors by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acceptors {
    sequences: BTreeMap<Rank, Acceptor<Entry>>,
}

impl Acceptors {
    /// Takes a request for a rank's sequence; the answer goes to where it came from.
    pub fn handle(&mut self, rank: Rank, request: Request<Entry>) -> Option<Reply<Entry>> {
        self.sequences.entry(rank).or_default().handle(request)
    }

    /// The acceptor of a rank's sequence, if it was ever asked for anything.
    #[must_use]
    pub fn get(&self, rank: Rank) -> Option<&Acceptor<Entry>> {
        self.sequences.get(&rank)
    }

    /// What is here of each rank.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.sequences.iter().map(|(&rank, acceptor)| Holding {
            rank,
            writer: acceptor.promised(),
            trimmed: acceptor.trimmed(),
            last: acceptor.last(),
            count: acceptor.len(),
        })
    }
}
