//! Detects a hung `ringwatchd` from the heartbeats that its supervisor sees.
//!
//! Time in which the supervisor itself did not run is not counted: both may have been suspended, or kept from a
//! processor. After a suspension the count begins anew. No other time is excluded, because only one timeout is
//! available from the last heartbeat to the first one of a new `ringwatchd`.

use std::time::{Duration, Instant};

/// State of the detection.
#[derive(Clone, Debug)]
pub struct Stall {
    limit: Duration,
    beats: u32,
    /// Time of the last heartbeat, plus excluded time.
    beaten: Instant,
    looked: Instant,
}

impl Stall {
    /// Begins at `now`, after this number of heartbeats. `ringwatchd` counts as hung after `limit` without a heartbeat.
    #[must_use]
    pub fn new(limit: Duration, beats: u32, now: Instant) -> Self {
        Self { limit, beats, beaten: now, looked: now }
    }

    /// Maximum time until the next check.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.limit / 8
    }

    /// Checks at `now`, after a wait since `began`, with this number of heartbeats. Returns whether `ringwatchd` hangs.
    pub fn look(&mut self, began: Instant, now: Instant, beats: u32) -> bool {
        let away = now.duration_since(began).saturating_sub(self.wait());
        // The supervisor's own work between two checks counts unless it takes too long.
        let between = now.duration_since(std::mem::replace(&mut self.looked, now));
        if beats != self.beats || away > self.limit || between > self.limit * 2 {
            self.beats = beats;
            self.excuse(now);
        } else {
            self.beaten = (self.beaten + away).min(now);
        }
        self.silence(now) > self.limit
    }

    /// Time since the last heartbeat.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Duration {
        now.duration_since(self.beaten)
    }

    /// Begins the count anew.
    pub fn excuse(&mut self, now: Instant) {
        self.beaten = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(160);
    const WAIT: Duration = Duration::from_millis(20);

    /// Checks after waits of these lengths, without a heartbeat; returns the time until it counts as hung.
    fn hangs_after(waits: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let start = Instant::now();
        let (mut stall, mut now) = (Stall::new(LIMIT, 7, start), start);
        assert_eq!(stall.wait(), WAIT);
        waits.into_iter().find_map(|wait| {
            let began = now;
            now += Duration::from_millis(wait);
            stall.look(began, now, 7).then(|| now - start)
        })
    }

    #[test]
    fn it_hangs_after_the_limit_without_a_beat() {
        assert_eq!(hangs_after([20; 20]), Some(LIMIT + WAIT));
    }

    #[test]
    fn what_the_supervisor_was_late_is_not_counted_and_no_more() {
        assert_eq!(hangs_after([20, 20, 60, 20, 20, 20, 20, 20, 20, 20]), Some(LIMIT + WAIT + WAIT * 2));
    }

    #[test]
    fn after_a_suspension_it_begins_anew() {
        let waits = [20, 20, 20, 20, 20, 20, 60_000].into_iter().chain([20; 20]);
        assert_eq!(hangs_after(waits), Some(Duration::from_millis(60_120) + LIMIT + WAIT));
    }

    #[test]
    fn a_beat_begins_anew_and_so_does_long_work_of_the_supervisor() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut stall = Stall::new(LIMIT, 7, start);
        assert!(!stall.look(at(130), at(150), 8));
        assert!(!stall.look(at(290), at(310), 8));
        assert!(stall.look(at(300), at(320), 8));
        // It was not checked for more than twice the limit.
        assert!(!stall.look(at(640), at(650), 8));
    }
}
