//! Decides from samples of its state when a process counts as stopped. No I/O.

use std::time::Duration;

use propagation::Time;

/// Interval between samples of a running process for `limit`: an eighth of it, within 1 ms and 250 ms.
#[must_use]
pub fn sampling_interval(limit: Duration) -> Duration {
    (limit / 8).clamp(Duration::from_millis(1), Duration::from_millis(250))
}

/// The time of the next sample: from `from` on if the daemon is awake anyway, and no later than `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: Time,
    by: Time,
}

impl Window {
    /// No sample is wanted.
    pub const NEVER: Self = Self { from: Time::MAX, by: Time::MAX };

    /// A sample at this moment.
    #[must_use]
    pub fn at(moment: Time) -> Self {
        Self { from: moment, by: moment }
    }

    /// The next sample if no process is stopped.
    #[must_use]
    pub fn after(now: Time, limit: Duration) -> Self {
        let interval = sampling_interval(limit);
        Self { from: now + interval * 3 / 4, by: now + interval }
    }

    /// Whether it is time for the sample.
    #[must_use]
    pub fn is_open(self, now: Time) -> bool {
        now >= self.from
    }

    /// The latest time of the sample.
    #[must_use]
    pub fn end(self) -> Time {
        self.by
    }

    /// A sample that suits both windows.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), by: self.by.min(other.by) }
    }
}

/// Counts how long one process has been stopped continuously.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopCount {
    since: Option<Time>,
    last: Option<Time>,
    switches: u64,
}

impl StopCount {
    /// Takes a sample; of a stopped process it is the number of times that it has left the processor. True once the
    /// process has been stopped for `limit` in every sample, and has not run in between.
    ///
    /// After a gap of more than half of `limit` the count starts again: an observer that was itself stopped or had no
    /// processor knows nothing about that time.
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

    /// Time of the next sample after one at `now`: a stopped process is sampled twice as often as a running one, and
    /// when its `limit` is over.
    #[must_use]
    pub fn next(&self, now: Time, limit: Duration) -> Window {
        let Some(since) = self.since else { return Window::after(now, limit) };
        let soon = Window::at(now + sampling_interval(limit) / 2);
        if since + limit > now { soon.and(Window::at(since + limit)) } else { soon }
    }

    /// Since when the process has been stopped, according to the samples.
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
        assert_eq!(sampling_interval(ms(4000)), ms(250));
        assert_eq!(sampling_interval(ms(160)), ms(20));
        assert_eq!(sampling_interval(ms(2)), ms(1));
    }

    #[test]
    fn the_last_sample_is_taken_when_the_limit_is_over() {
        let limit = ms(160);
        let mut count = StopCount::default();
        assert_eq!(count.next(ms(0), limit), Window { from: ms(15), by: ms(20) });
        let mut now = ms(15);
        while !count.observe(now, STOPPED, limit) {
            let next = count.next(now, limit).end();
            assert!(next > now && next <= now + ms(10), "{next:?} after {now:?}");
            now = next;
        }
        assert_eq!(now, ms(175));
        assert_eq!(count.next(now, limit), Window::at(ms(185)), "who was excused is looked at again");
    }
}
