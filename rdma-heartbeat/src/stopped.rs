//! When a process counts as stopped: from samples of its state, without I/O.

use std::time::Duration;

use propagation::Time;

/// Time between two samples that is fine enough for `limit`: a sixteenth of it within 1 ms and 100 ms.
#[must_use]
pub fn sampling_interval(limit: Duration) -> Duration {
    (limit / 16).clamp(Duration::from_millis(1), Duration::from_millis(100))
}

/// How long a sample may wait for the daemon to be awake anyway.
#[must_use]
pub fn sampling_patience(limit: Option<Duration>) -> Duration {
    limit.map_or(Duration::ZERO, |limit| sampling_interval(limit) / 8)
}

/// How long one process has been stopped without a break.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopCount {
    since: Option<Time>,
    last: Option<Time>,
    switches: u64,
}

impl StopCount {
    /// Takes a sample, of a stopped process how often it has left the processor so far; true once the process has been
    /// stopped for `limit` in every sample, and has not run in between.
    ///
    /// After a gap of more than half of `limit` the count starts again: whoever was not looking, because it was
    /// itself stopped or had no processor, knows nothing about the time between.
    pub fn observe(&mut self, now: Time, stopped: Option<u64>, limit: Duration) -> bool {
        let gap = self.last.is_some_and(|last| now.saturating_sub(last) > limit / 2);
        self.last = Some(now);
        let Some(switches) = stopped else {
            self.since = None;
            return false;
        };
        if gap || switches != self.switches {
            self.since = None;
        }
        self.switches = switches;
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) >= limit
    }

    /// Since when the process has been stopped, as far as the samples tell.
    #[must_use]
    pub fn since(&self) -> Option<Time> {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);
    const STOPPED: Option<u64> = Some(7);

    fn ms(n: u64) -> Time {
        Duration::from_millis(n)
    }

    #[test]
    fn only_a_stop_without_a_break_counts() {
        let mut count = StopCount::default();
        for t in (0..100).step_by(10) {
            assert!(!count.observe(ms(t), STOPPED, LIMIT));
        }
        assert!(!count.observe(ms(99), None, LIMIT));
        for t in (110..210).step_by(10) {
            assert!(!count.observe(ms(t), STOPPED, LIMIT), "{t}");
        }
        assert!(count.observe(ms(210), STOPPED, LIMIT));
    }

    #[test]
    fn whoever_has_left_the_processor_was_not_stopped_all_the_time() {
        let mut count = StopCount::default();
        for t in (0..100).step_by(10) {
            assert!(!count.observe(ms(t), STOPPED, LIMIT));
        }
        assert!(!count.observe(ms(100), Some(8), LIMIT));
        assert_eq!(count.since(), Some(ms(100)));
    }

    #[test]
    fn a_late_sample_starts_the_count_again() {
        let mut count = StopCount::default();
        assert!(!count.observe(ms(0), STOPPED, LIMIT));
        assert!(!count.observe(ms(500), STOPPED, LIMIT));
        assert!(!count.observe(ms(550), STOPPED, LIMIT));
        assert!(count.observe(ms(600), STOPPED, LIMIT));
    }

    #[test]
    fn the_interval_is_bounded() {
        assert_eq!(sampling_interval(ms(2000)), ms(100));
        assert_eq!(sampling_interval(ms(160)), ms(10));
        assert_eq!(sampling_interval(ms(2)), ms(1));
    }
}
