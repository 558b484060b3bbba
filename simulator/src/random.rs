//! Chance: one stream of numbers per purpose, all from the run's seed.
//!
//! What is drawn for one purpose therefore does not depend on how much was drawn for another: a run without the idle
//! heartbeats draws the same delays for its broadcasts as one with them. The generator is PCG-64 MCG of O'Neill, whose
//! stream is documented and does not depend on the platform.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Heartbeats per node that have a number of their own in the stream of heartbeats.
const HEARTBEATS: u128 = 1 << 32;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// When each node starts, within the first period.
    Phases,
    /// Who dies, and when.
    Failures,
    /// Delays of all messages but heartbeats.
    Messages,
    /// Delays of heartbeats.
    Heartbeats,
    /// Which messages get lost or come twice.
    Faults,
    /// Whom a node probes at random.
    Probes,
}

impl Stream {
    /// The stream of one purpose in the run with this seed.
    pub fn new(seed: u64, purpose: Purpose) -> Stream {
        let mut seeds = Pcg64Mcg::seed_from_u64(seed);
        seeds.advance(purpose as u128);
        Stream(Pcg64Mcg::seed_from_u64(seeds.next_u64()))
    }

    /// The seed of run number `run` of a batch.
    pub fn seed_of_run(seed: u64, run: u64) -> u64 {
        let mut seeds = Pcg64Mcg::seed_from_u64(!seed);
        seeds.advance(u128::from(run));
        seeds.next_u64()
    }

    /// Uniform in `1..=bound`; `bound` is above zero.
    pub fn up_to(&mut self, bound: u64) -> u64 {
        1 + self.below(bound)
    }

    /// Uniform in `0..bound`, but for a bias of `bound` / 2^64; `bound` is above zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Number `index` of this stream, without drawing those before it: uniform in `0..bound`.
    pub fn nth_below(&self, index: u128, bound: u64) -> u64 {
        let mut there = self.clone();
        there.0.advance(index);
        there.below(bound)
    }

    /// The delay of heartbeat number `count` of `node`, in `1..=bound`, whichever others were drawn.
    pub fn heartbeat(&self, node: u32, count: u64, bound: u64) -> u64 {
        1 + self.nth_below(u128::from(node) * HEARTBEATS + u128::from(count), bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_same_on_every_machine() {
        let mut stream = Stream::new(1, Purpose::Messages);
        let drawn: Vec<_> = (0..4).map(|_| stream.up_to(1_000_000)).collect();
        assert_eq!(drawn, [616_292, 922_594, 379_248, 684_991]);
    }

    #[test]
    fn numbers_can_be_drawn_out_of_order() {
        let stream = Stream::new(7, Purpose::Heartbeats);
        let mut in_order = stream.clone();
        for index in 0..100 {
            assert_eq!(stream.nth_below(index, 1 << 40), in_order.below(1 << 40));
        }
    }

    #[test]
    fn the_exponential_law_has_its_mean_and_its_median() {
        let mut stream = Stream::new(3, Purpose::Failures);
        let mut drawn: Vec<_> = (0..100_000).map(|_| stream.exponential(5.0)).collect();
        drawn.sort_by(f64::total_cmp);
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        // Five standard errors of the mean: 5 x 5 / sqrt(100,000).
        assert!((mean - 5.0).abs() < 0.08, "mean {mean}");
        assert!((drawn[50_000] - 5.0 * 2_f64.ln()).abs() < 0.08, "median {}", drawn[50_000]);
    }

    #[test]
    fn a_delay_is_above_zero_and_at_most_its_bound() {
        let mut stream = Stream::new(5, Purpose::Messages);
        let drawn: Vec<_> = (0..10_000).map(|_| stream.up_to(10)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&10)));
    }
}
