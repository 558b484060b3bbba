//! A determinant and the life of the rank in which it came about.
//!
//! A process that takes a rank over finds some of the determinants that were not stable, and not others. What it did
//! not find it makes anew, with the same ids. The old ones may still be on an acceptor that it did not ask. An example:
//! the first process wrote 7 and 8 to acceptor A only; the second one asked B and C, and saved another 7 there; the
//! third one asks A and B. It takes 7 of the second process, which has the higher round, and must not take 8 of the
//! first, which belongs to the other 7.
//!
//! So an entry names its author, and the first entry of an author is marked. The next entry of a history is by the same
//! author, or it is the first one of a later author. The round in which an entry was accepted cannot tell: a proposer
//! that takes over gives old entries its own round, and may crash on the way.

use serde::{Deserialize, Serialize};

use crate::determinant::Determinant;
use crate::logger::round::{Position, Round};

/// A determinant with its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// The round of the process that saved it first.
    pub origin: Round,
    /// Whether it is the first one of that process.
    pub is_first: bool,
    /// The determinant.
    pub determinant: Determinant,
}

impl Entry {
    /// Whether this is the next entry of the history that leads to `before`.
    #[must_use]
    pub fn follows(&self, before: Position) -> bool {
        let is_same_life = self.origin == before.origin || (self.is_first && self.origin > before.origin);
        self.determinant.id == before.id + 1 && is_same_life
    }

    /// Its place in the history.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { id: self.determinant.id, origin: self.origin }
    }
}
