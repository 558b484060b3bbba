//! Measures the regularity of the emitter's heartbeats and of this daemon's turns: a timeout must allow for it. No I/O.

use propagation::{NodeId, Time};

use crate::report::distribution::Distribution;

/// Maximum reordering of heartbeats; a larger step back means that the sender was restarted.
const REORDERED: u64 = 64;

/// Measurements since this daemon started.
#[derive(Debug, Default)]
pub struct Regularity {
    emitter: Option<NodeId>,
    last: Option<Time>,
    /// Number of the last heartbeat that arrived as a datagram.
    number: Option<u64>,
    silences: Distribution,
    lateness: Distribution,
    lost: u64,
}

impl Regularity {
    /// Updates the emitter's last heartbeat, as the member knows it. Of several that are read together each counts at
    /// its time of arrival.
    pub fn look(&mut self, emitter: Option<NodeId>, last: Option<Time>) {
        if emitter != self.emitter {
            (self.emitter, self.last, self.number) = (emitter, None, None);
        }
        if let (Some(before), Some(last)) = (self.last, last) {
            if last > before {
                self.silences.add(last - before);
            }
        }
        self.last = last;
    }

    /// Handles a heartbeat `number` that arrived as a datagram.
    pub fn heard(&mut self, from: NodeId, number: u64) {
        if self.emitter != Some(from) {
            return;
        }
        match self.number {
            Some(last) if number > last => self.lost += number - last - 1,
            // It was counted as lost.
            Some(last) if last - number < REORDERED => {
                self.lost = self.lost.saturating_sub(u64::from(number < last));
                return;
            }
            _ => {}
        }
        self.number = Some(number);
    }

    /// Handles a turn at `now` that was planned for `planned`.
    pub fn turned(&mut self, planned: Time, now: Time) {
        if now >= planned {
            self.lateness.add(now - planned);
        }
    }

    /// Times between two heartbeats of the emitter.
    #[must_use]
    pub fn silences(&self) -> &Distribution {
        &self.silences
    }

    /// Delay of this daemon after its timer's deadline.
    #[must_use]
    pub fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    /// Heartbeats that were sent as datagrams and got lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_silence_is_between_two_heartbeats_of_the_same_emitter() {
        let mut seen = Regularity::default();
        for (emitter, at) in [(1, None), (1, Some(5)), (1, Some(5)), (1, Some(15)), (0, None), (0, Some(90))] {
            seen.look(Some(emitter), at.map(ms));
        }
        seen.look(Some(0), Some(ms(100)));
        assert_eq!(seen.silences().count(), 2);
        assert!(seen.silences().longest().unwrap().abs_diff(10_000) < 700);
    }

    #[test]
    fn lost_heartbeats_are_counted_and_late_ones_are_not() {
        let mut seen = Regularity::default();
        seen.look(Some(1), None);
        for (from, number) in [(1, 10), (1, 11), (2, 99), (1, 14), (1, 13), (1, 15), (1, 15)] {
            seen.heard(from, number);
        }
        assert_eq!(seen.lost(), 1);
        // Its daemon was restarted.
        seen.heard(1, 1000);
        let before = seen.lost();
        seen.heard(1, 1);
        seen.heard(1, 2);
        assert_eq!(seen.lost(), before);
    }

    #[test]
    fn only_a_turn_for_which_time_had_come_was_late() {
        let mut seen = Regularity::default();
        seen.turned(ms(10), ms(9));
        seen.turned(Time::MAX, ms(9));
        seen.turned(ms(10), ms(10));
        seen.turned(ms(10), ms(13));
        assert_eq!(seen.lateness().count(), 2);
        assert!(seen.lateness().longest().unwrap().abs_diff(3000) < 200);
    }
}
