//! One counter of events for each process: even is recommended, odd is not; the highest value counts.
//!
//! Values are absolute. News that comes twice, or from several testers at once, changes nothing the second time.

use std::sync::Arc;

use crate::group::Group;
use crate::units::{Counter, Rank};

/// The counters as one process knows them (`syndrome` in the papers).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counters {
    values: Vec<Counter>,
    group: Group,
    digest: u64,
}

/// Whether a process with this counter is recommended.
#[must_use]
pub fn is_recommended(counter: Counter) -> bool {
    counter % 2 == 0
}

/// The part of one counter in the digest: SplitMix64 of Steele, Lea and Flood.
fn part(rank: Rank, counter: Counter) -> u64 {
    let mut word = (u64::from(rank) << 32 | u64::from(counter)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl Counters {
    /// Everybody is recommended.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self::of(&vec![0; count as usize])
    }

    /// These values.
    #[must_use]
    pub fn of(values: &[Counter]) -> Self {
        let count = values.len() as u32;
        let recommended = (0..count).filter(|rank| is_recommended(values[*rank as usize]));
        let digest = (0..count).fold(0_u64, |sum, rank| sum.wrapping_add(part(rank, values[rank as usize])));
        Self { group: Group::of(count, recommended), values: values.to_vec(), digest }
    }

    /// Of one process.
    #[must_use]
    pub fn get(&self, rank: Rank) -> Counter {
        self.values[rank as usize]
    }

    /// Of all processes, by rank.
    #[must_use]
    pub fn values(&self) -> &[Counter] {
        &self.values
    }

    /// The same, to be sent.
    #[must_use]
    pub fn shared(&self) -> Arc<[Counter]> {
        Arc::from(self.values.as_slice())
    }

    /// The recommended processes.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The smallest rank of the group.
    #[must_use]
    pub fn leader(&self) -> Option<Rank> {
        self.group.first()
    }

    /// Equal for equal counters. Of different ones two in 2^64 are equal.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Raises a counter to a higher value; whether the value is higher.
    pub fn raise(&mut self, rank: Rank, to: Counter) -> bool {
        let from = self.values[rank as usize];
        if to <= from {
            return false;
        }
        self.values[rank as usize] = to;
        self.digest = self.digest.wrapping_sub(part(rank, from)).wrapping_add(part(rank, to));
        if is_recommended(to) {
            self.group.insert(rank);
        } else {
            self.group.remove(rank);
        }
        true
    }

    /// Keeps the higher value of each process; returns whose has changed.
    pub fn merge(&mut self, values: &[Counter]) -> Vec<Rank> {
        (0..self.values.len() as Rank).filter(|rank| self.raise(*rank, values[*rank as usize])).collect()
    }
}
