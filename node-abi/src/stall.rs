//! Detects a hung `ringwatchd` from the time of its last heartbeat, which its supervisor reads from the segment.
//!
//! While heartbeats come, the supervisor looks about once in the limit. When one is overdue it looks more often, to see
//! whether it runs itself: time in which it did not is not counted, because both may have been suspended, or kept from
//! a processor. After a suspension the count begins anew. No other time is excluded, because only one timeout is
//! available from the last heartbeat to the first one of a new `ringwatchd`.

use std::time::Duration;

/// State of the detection. Times are those of a clock that stands still while the node sleeps.
#[derive(Clone, Debug)]
pub struct Stall {
    limit: Duration,
    /// Time of the last heartbeat.
    beat: Duration,
    /// The same, plus excluded time.
    beaten: Duration,
    looked: Duration,
}

impl Stall {
    /// Begins at `now`. `ringwatchd` counts as hung after `limit` without a heartbeat.
    #[must_use]
    pub fn new(limit: Duration, now: Duration) -> Self {
        Self { limit, beat: Duration::ZERO, beaten: now, looked: now }
    }

    /// Maximum time until the next check.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let overdue_at = self.beaten + self.limit / 4 * 3;
        overdue_at.saturating_sub(self.looked).max(self.limit / 8)
    }

    /// Checks at `now`, after a wait since `began`; the last heartbeat was at `beat`. Returns whether `ringwatchd`
    /// hangs.
    pub fn look(&mut self, began: Duration, now: Duration, beat: Duration) -> bool {
        let away = now.saturating_sub(began).saturating_sub(self.wait());
        // The supervisor's own work between two checks counts unless it takes too long.
        let between = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        if std::mem::replace(&mut self.beat, beat) != beat {
            self.beaten = self.beaten.max(beat);
        }
        self.beaten = (self.beaten + away).min(now);
        if away > self.limit || between > self.limit * 2 {
            self.excuse(now);
        }
        self.silence(now) > self.limit
    }

    /// Time since the last heartbeat.
    #[must_use]
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.beaten)
    }

    /// Begins the count anew.
    pub fn excuse(&mut self, now: Duration) {
        self.beaten = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(7);
    const LIMIT: Duration = Duration::from_millis(160);

    fn at(ms: u64) -> Duration {
        START + Duration::from_millis(ms)
    }

    /// Checks, each time so much later than asked for, without a heartbeat; returns the time until it counts as hung.
    fn hangs_after(late: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let (mut stall, mut now) = (Stall::new(LIMIT, START), START);
        late.into_iter().find_map(|late| {
            let began = now;
            now += stall.wait() + Duration::from_millis(late);
            stall.look(began, now, Duration::ZERO).then(|| now - START)
        })
    }

    #[test]
    fn it_hangs_after_the_limit_without_a_beat() {
        assert_eq!(hangs_after([0; 20]), Some(LIMIT + LIMIT / 8));
    }

    #[test]
    fn while_it_beats_it_is_looked_at_about_once_in_the_limit() {
        let (mut stall, mut now, mut looks) = (Stall::new(LIMIT, START), START, 0);
        while now < START + LIMIT * 100 {
            let began = now;
            now += stall.wait();
            looks += 1;
            // The last of its heartbeats, one in 20 ms.
            let beat = at((now - START).as_millis() as u64 / 20 * 20);
            assert!(!stall.look(began, now, beat));
        }
        assert!((100..=150).contains(&looks), "{looks}");
        // And found as soon as otherwise when it hangs.
        let beat = stall.beat;
        while !stall.look(now, now + stall.wait(), beat) {
            now = stall.looked;
        }
        assert!(stall.looked - beat <= LIMIT + LIMIT / 4, "{:?}", stall.looked - beat);
    }

    #[test]
    fn what_the_supervisor_was_late_is_not_counted_and_no_more() {
        let extra = Duration::from_millis(40);
        assert_eq!(hangs_after([0, 0, 40, 0, 0, 0, 0, 0, 0, 0]), Some(LIMIT + LIMIT / 8 + extra));
    }

    #[test]
    fn after_a_suspension_it_begins_anew() {
        let until_then = Duration::from_millis(160 + 60_000);
        assert_eq!(hangs_after([0, 0, 60_000].into_iter().chain([0; 20])), Some(until_then + LIMIT + LIMIT / 8));
    }

    #[test]
    fn a_beat_begins_anew_and_so_does_long_work_of_the_supervisor() {
        let mut stall = Stall::new(LIMIT, START);
        assert!(!stall.look(at(0), at(120), at(110)));
        assert_eq!(stall.wait(), Duration::from_millis(110));
        assert!(!stall.look(at(120), at(230), at(110)));
        assert!(!stall.look(at(250), at(270), at(110)));
        assert!(stall.look(at(270), at(290), at(110)));
        // It was not checked for more than twice the limit.
        assert!(!stall.look(at(640), at(650), at(110)));
    }
}
