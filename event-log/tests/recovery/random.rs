//! Numbers of one seed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// A stream of numbers.
pub struct Random(Pcg64Mcg);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// One of 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.0.next_u32()) * bound as u64) >> 32) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// In any order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

/// Mixes a number into another: what a program computes.
pub fn mix(state: u64, with: u64) -> u64 {
    let mixed = (state ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(17)
}
