//! What the paper proves (theorem 1, lemmas 1 and 2).
//!
//! All for f <= [`tolerated`] overlapping failures on n nodes.

use std::time::Duration;

/// The largest number of overlapping failures that the paper's proof covers: floor(log2 n) - 1.
///
/// The text also writes log2(n / 4), which is one less; the theorem's condition is used here.
pub fn tolerated(nodes: u32) -> u32 {
    nodes.max(1).ilog2().saturating_sub(1)
}

/// B(n) = 8 tau log2 n: how long one broadcast takes at most. Needs `period` >= 3 tau.
pub fn broadcast(nodes: u32, tau: Duration) -> Duration {
    tau.mul_f64(8.0 * f64::from(nodes.max(1)).log2())
}

/// The times of a scenario that the bounds are made of.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Silence after which a node is suspected (delta).
    pub timeout: Duration,
    /// How long a message takes at most.
    pub tau: Duration,
}

/// R(f) <= f (f + 1) delta + f tau: how long it takes at most until the ring is closed.
pub fn reconnected(failures: u32, Times { timeout, tau }: Times) -> Duration {
    let timeouts = failures.saturating_mul(failures.saturating_add(1));
    timeout.saturating_mul(timeouts).saturating_add(tau.saturating_mul(failures))
}

/// f (f + 1) / 2: how many broadcasts there are at most.
pub fn broadcasts(failures: u32) -> u64 {
    u64::from(failures) * (u64::from(failures) + 1) / 2
}

/// T(f) <= R(f) + f (f + 1) / 2 B(n): how long it takes at most until the state is stable.
pub fn stable(failures: u32, nodes: u32, times: Times) -> Duration {
    let broadcasts = u32::try_from(broadcasts(failures)).unwrap_or(u32::MAX);
    reconnected(failures, times).saturating_add(broadcast(nodes, times.tau).saturating_mul(broadcasts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn bounds_are_those_of_the_paper_worked_out_by_hand() {
        // f = 3, delta = 1 s, tau = 1 ms, n = 64: R = 12 s + 3 ms, B = 48 ms, T = R + 6 B.
        let times = Scenario::low_lat(64).times();
        assert_eq!(tolerated(64), 5);
        assert_eq!(broadcast(64, times.tau), Duration::from_millis(48));
        assert_eq!(reconnected(3, times), Duration::from_millis(12_003));
        assert_eq!(broadcasts(3), 6);
        assert_eq!(stable(3, 64, times), Duration::from_millis(12_291));
        assert_eq!((tolerated(1), tolerated(3), tolerated(4), tolerated(1000)), (0, 0, 1, 8));
    }

    #[test]
    fn a_bound_for_very_many_failures_is_not_a_short_one() {
        let times = Scenario::low_lat(200_000).times();
        assert!(reconnected(100_000, times) >= Duration::from_secs(u64::from(u32::MAX)));
        assert!(stable(u32::MAX, u32::MAX, times) >= stable(100_000, 200_000, times));
    }
}
