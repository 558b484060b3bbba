//! Where in a region an entry goes, and what was read from there.

use std::collections::BTreeMap;

use crate::determinant::DeterminantId;
use crate::logger::entry::Entry;
use crate::logger::onesided::region::{Bytes, Piece};
use crate::logger::onesided::slot::{decode, encode};
use crate::logger::round::Round;

/// In which plane of a region an entry must not be written: there is its last version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Planes {
    capacity: usize,
    /// Plane by id; the others are free in both.
    taken: BTreeMap<DeterminantId, usize>,
}

impl Planes {
    /// Takes what was read from a region of this writer: its entries with the rounds in which they were written, in
    /// order.
    #[must_use]
    pub fn read(slots: &[Bytes]) -> (Self, Vec<(Round, Entry)>) {
        let capacity = slots.len() / 2;
        let mut best: BTreeMap<DeterminantId, (Round, usize, Entry)> = BTreeMap::new();
        for (place, slot) in slots.iter().enumerate() {
            let Some((round, entry)) = decode(&(*slot).into()) else { continue };
            let id = entry.determinant.id;
            if best.get(&id).is_none_or(|last| round > last.0) {
                best.insert(id, (round, place / capacity, entry));
            }
        }
        let taken = best.iter().map(|(id, (_, plane, _))| (*id, *plane)).collect();
        (Self { capacity, taken }, best.into_values().map(|(round, _, entry)| (round, entry)).collect())
    }

    /// How many ids have slots of their own.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// The writes of consecutive entries.
    #[must_use]
    pub fn pieces(&self, round: Round, run: &[Entry]) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for entry in run {
            let id = entry.determinant.id;
            let plane = self.taken.get(&id).map_or(0, |taken| 1 - taken);
            let at = plane * self.capacity + (id % self.capacity as u64) as usize;
            let slot = Bytes::from(encode(round, entry));
            match pieces.last_mut() {
                Some(piece) if piece.at + piece.slots.len() == at && at != self.capacity => piece.slots.push(slot),
                _ => pieces.push(Piece { at, slots: vec![slot] }),
            }
        }
        pieces
    }
}
