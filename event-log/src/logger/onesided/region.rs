//! The memory that an acceptor has registered for one rank, and what can be done with it from afar.
//!
//! The region has two planes of slots; a slot's place in a plane is the id modulo the capacity. An entry that is given
//! a new round goes to the other plane: written in part it would destroy what a quorum relies on.
//!
//! [`Region`] is what the hardware and the acceptor's process do together: the process gives one writer access, and
//! takes it from the one before; the network card refuses writes of all others. The simulator and the tests run it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::determinant::{DeterminantId, Rank};
use crate::logger::Holding;
use crate::logger::onesided::slot::{EMPTY, Slot, decode};
use crate::logger::round::Round;

/// What a rank does with a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// A message to the acceptor's process: take access from writers of lower rounds, and give it to this one.
    Open {
        /// The round of the writer.
        round: Round,
    },
    /// Read the whole region.
    Read {
        /// The round of the writer, whose connection it is.
        round: Round,
    },
    /// Write all of these, in order. The connection is broken at the first that fails.
    Write {
        /// The round of the writer, whose connection it is.
        round: Round,
        /// All up to this id are in the region then that were not stable when it was sent; returned with the
        /// completion.
        up_to: DeterminantId,
        /// Slots for consecutive places.
        pieces: Vec<Piece>,
    },
}

/// Slots for consecutive places.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece {
    /// The first place.
    pub at: usize,
    /// The slots.
    pub slots: Vec<Bytes>,
}

/// A slot in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bytes(pub [[u8; 32]; 2]);

impl From<Slot> for Bytes {
    fn from(slot: Slot) -> Self {
        let mut halves = [[0; 32]; 2];
        halves[0].copy_from_slice(&slot[..32]);
        halves[1].copy_from_slice(&slot[32..]);
        Self(halves)
    }
}

impl From<Bytes> for Slot {
    fn from(bytes: Bytes) -> Self {
        let mut slot = EMPTY;
        slot.copy_from_slice(bytes.0.as_flattened());
        slot
    }
}

/// How an operation went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Completion {
    /// This writer has access now, and no earlier one.
    Opened {
        /// Its round.
        round: Round,
    },
    /// The slots of both planes, the first plane first.
    Read {
        /// The round of the writer.
        round: Round,
        /// The slots.
        slots: Vec<Bytes>,
    },
    /// It is written.
    Written {
        /// The round of the writer.
        round: Round,
        /// As in the operation.
        up_to: DeterminantId,
    },
    /// Another writer has access.
    Denied {
        /// The round of the writer who has not.
        round: Round,
        /// The round of the one who has.
        writer: Round,
    },
}

/// A registered region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    writer: Round,
    slots: Vec<Bytes>,
}

impl Region {
    /// Room for so many determinants that no checkpoint includes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { writer: Round::NONE, slots: vec![EMPTY.into(); 2 * capacity] }
    }

    /// Carries out an operation.
    pub fn handle(&mut self, operation: Operation) -> Completion {
        let (Operation::Open { round } | Operation::Read { round } | Operation::Write { round, .. }) = operation;
        let may = match operation {
            Operation::Open { .. } => round >= self.writer,
            Operation::Read { .. } | Operation::Write { .. } => round == self.writer,
        };
        if !may {
            return Completion::Denied { round, writer: self.writer };
        }
        match operation {
            Operation::Open { .. } => {
                self.writer = round;
                Completion::Opened { round }
            }
            Operation::Read { .. } => Completion::Read { round, slots: self.slots.clone() },
            Operation::Write { up_to, pieces, .. } => {
                for Piece { at, slots } in pieces {
                    self.slots[at..at + slots.len()].copy_from_slice(&slots);
                }
                Completion::Written { round, up_to }
            }
        }
    }

    /// The writer that has access.
    #[must_use]
    pub fn writer(&self) -> Round {
        self.writer
    }

    /// What is here. Only the writer knows what a checkpoint includes: all below the lowest id here are removed.
    #[must_use]
    pub fn holding(&self, rank: Rank) -> Holding {
        let entries = self.slots.iter().filter_map(|slot| decode(&(*slot).into()));
        let ids: BTreeSet<DeterminantId> = entries.map(|(_, entry)| entry.determinant.id).collect();
        let trimmed = ids.first().map_or(0, |first| first - 1);
        Holding { rank, writer: self.writer, trimmed, last: ids.last().copied().unwrap_or(0), count: ids.len() }
    }

    /// The slots of both planes.
    #[must_use]
    pub fn slots(&self) -> &[Bytes] {
        &self.slots
    }
}
