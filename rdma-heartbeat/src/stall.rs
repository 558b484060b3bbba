//! Whether a `ringwatchd` hangs, by the beats that its supervisor sees.
//!
//! Time in which the supervisor itself did not run proves nothing: both may have been suspended, or kept from a processor. It is
//! not counted; after a suspension the count begins anew. No more than that is forgiven, for from the last beat to the first one
//! of a new `ringwatchd` there is only a timeout.

use std::time::{Duration, Instant};

/// What is known of its beats.
#[derive(Clone, Debug)]
pub struct Stall {
    limit: Duration,
    beats: u32,
    /// When the last one was seen, later by what is not counted.
    beaten: Instant,
    looked: Instant,
}

impl Stall {
    /// It hangs after `limit` without a beat. So many have been seen `now`.
    #[must_use]
    pub fn new(limit: Duration, beats: u32, now: Instant) -> Self {
        Self { limit, beats, beaten: now, looked: now }
    }

    /// How long to wait at most before the next look.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.limit / 8
    }

    /// A look at `now`, after a wait that `began` then, which shows so many beats. Returns whether it hangs.
    pub fn look(&mut self, began: Instant, now: Instant, beats: u32) -> bool {
        let away = now.duration_since(began).saturating_sub(self.wait());
        // What the supervisor does itself between two looks counts unless it takes too long for that.
        let between = now.duration_since(std::mem::replace(&mut self.looked, now));
        if beats != self.beats || away > self.limit || between > self.limit * 2 {
            self.beats = beats;
            self.excuse(now);
        } else {
            self.beaten = (self.beaten + away).min(now);
        }
        self.silence(now) > self.limit
    }

    /// How long no beat has been seen.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Duration {
        now.duration_since(self.beaten)
    }

    /// The count begins anew.
    pub fn excuse(&mut self, now: Instant) {
        self.beaten = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(160);
    const WAIT: Duration = Duration::from_millis(20);

    /// Looks after waits that take so long, without a beat, and returns when it counts as hanging.
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
        // It has not looked for more than twice the limit.
        assert!(!stall.look(at(640), at(650), 8));
    }
}
