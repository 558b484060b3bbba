//! Who may write: rounds of proposers, and the place of a checkpoint in a rank's sequence.

use serde::{Deserialize, Serialize};

use crate::determinant::DeterminantId;

/// A process that takes part, whatever its caller means by it. A process that replaces another has an address of its
/// own.
pub type Address = u32;

/// A round of Paxos. Of two, the higher one counts; no two proposers have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Round {
    /// Counts the rounds.
    pub number: u32,
    /// The process whose round it is.
    pub proposer: Address,
}

impl Round {
    /// Lower than every round.
    pub const NONE: Round = Round { number: 0, proposer: 0 };

    /// The lowest round of the process with which a rank, or a job, starts. Nobody else may have it: it needs no
    /// promise.
    #[must_use]
    pub const fn first(proposer: Address) -> Round {
        Round { number: 1, proposer }
    }

    /// The next round of a process that has heard of this one.
    #[must_use]
    pub const fn above(self, proposer: Address) -> Round {
        Round { number: self.number + 1, proposer }
    }
}

/// The last determinant that a checkpoint includes. The checkpoint keeps all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Its id.
    pub id: DeterminantId,
    /// The round of the process that saved it first: with it determinants of abandoned lives are recognised.
    pub origin: Round,
}

impl Position {
    /// Before the first determinant.
    pub const START: Position = Position { id: 0, origin: Round::NONE };
}
