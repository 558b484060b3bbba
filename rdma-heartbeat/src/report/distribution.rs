//! Stores distributions of measured times, in little memory and without allocation, so that the daemon can update them
//! at every heartbeat.
//!
//! Times are counted in buckets of whole microseconds, 16 to each power of two: the relative resolution is a sixteenth.

use std::time::Duration;

/// Number of buckets per power of two, as a power of two.
const BITS: u32 = 4;
const STEPS: u64 = 1 << BITS;
/// Longest time with its own bucket, in microseconds as a power of two: 71 minutes.
const OCTAVES: u32 = 32;
const BUCKETS: usize = ((OCTAVES - BITS + 1) << BITS) as usize;

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution(Box<[u64; BUCKETS]>);

impl Default for Distribution {
    fn default() -> Self {
        Self(Box::new([0; BUCKETS]))
    }
}

impl Distribution {
    /// Counts one time.
    pub fn add(&mut self, time: Duration) {
        self.add_many(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), 1);
    }

    /// Counts a time in microseconds a number of times: for the results of another distribution's
    /// [`Distribution::pairs`].
    pub fn add_many(&mut self, micros: u64, times: u64) {
        let count = &mut self.0[bucket(micros)];
        *count = count.saturating_add(times);
    }

    /// Times with their frequencies, shortest first. Each is the longest time of its bucket, in microseconds.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, count)| (last_of(index), *count))
    }

    /// Number of counted times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.pairs().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The quantile for a share from 0 to 1, in microseconds; `None` without times.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let needed = (share * self.count() as f64).ceil();
        let mut so_far = 0_u64;
        self.pairs().find_map(|(micros, count)| {
            so_far = so_far.saturating_add(count);
            (so_far as f64 >= needed).then_some(micros)
        })
    }

    /// The longest time, in microseconds.
    #[must_use]
    pub fn longest(&self) -> Option<u64> {
        self.pairs().last().map(|(micros, _)| micros)
    }
}

fn bucket(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    let shift = micros.ilog2() - BITS;
    ((u64::from(shift) * STEPS + (micros >> shift)) as usize).min(BUCKETS - 1)
}

/// The longest time in a bucket, in microseconds.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_that_is_a_sixteenth_wide() {
        let mut before = None;
        for micros in (0..5000).chain((13..32).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let index = bucket(micros);
            assert!(Some(index) >= before, "{micros}");
            before = Some(index);
            let last = last_of(index);
            assert!(last >= micros && last - micros <= micros / 16, "{micros} is in the bucket up to {last}");
            assert_eq!(bucket(last), index);
        }
        assert_eq!((bucket(u64::MAX), last_of(BUCKETS - 1)), (BUCKETS - 1, (1 << OCTAVES) - 1));
    }

    #[test]
    fn pairs_make_the_same_distribution_again() {
        let mut first = Distribution::default();
        for micros in [3, 3, 90, 91, 4_000, 3_600_000_000_000] {
            first.add(Duration::from_micros(micros));
        }
        let mut second = Distribution::default();
        first.pairs().for_each(|(micros, count)| second.add_many(micros, count));
        assert_eq!(first, second);
        assert_eq!(first.count(), 6);
        assert_eq!((first.quantile(0.3), first.quantile(0.5)), (Some(3), Some(91)));
        assert_eq!((first.quantile(1.0), first.longest()), (Some((1 << OCTAVES) - 1), Some((1 << OCTAVES) - 1)));
        assert_eq!(Distribution::default().quantile(0.5), None);
    }
}
