//! Records of one axis in its order, though those of other nodes come later than node 0's own: no I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rdma_heartbeat::history::Record;

/// How long a record waits for earlier ones of other nodes. Those come within a few repetitions of a message, which are
/// a period or 20 ms apart.
pub const HOLD: Duration = Duration::from_millis(300);

/// Place on the axis, and place among those that came.
type Place = (u64, u64);

/// The records that wait.
#[derive(Debug, Default)]
pub struct Axis {
    waiting: BTreeMap<Place, Record>,
    due: VecDeque<(Instant, Place)>,
    came: u64,
}

impl Axis {
    /// Adds a record that has come now.
    pub fn add(&mut self, now: Instant, record: Record) {
        let place = (record.at_us, self.came);
        self.came += 1;
        self.waiting.insert(place, record);
        self.due.push_back((now + HOLD, place));
    }

    /// When [`Axis::take`] has the next record.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.due.front().map(|(due, _)| *due)
    }

    /// The records that have waited long enough, and those before them on the axis, in its order.
    pub fn take(&mut self, now: Instant) -> Vec<Record> {
        let mut taken = Vec::new();
        while self.due.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, place)) = self.due.pop_front() else { break };
            let later = self.waiting.split_off(&(place.0, place.1 + 1));
            taken.extend(std::mem::replace(&mut self.waiting, later).into_values());
        }
        let waiting = &self.waiting;
        while self.due.front().is_some_and(|(_, place)| !waiting.contains_key(place)) {
            self.due.pop_front();
        }
        taken
    }

    /// All that still wait, in the order of the axis.
    pub fn rest(&mut self) -> Vec<Record> {
        self.due.clear();
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_us: u64) -> Record {
        Record { at_us, ..Record::default() }
    }

    fn places(records: &[Record]) -> Vec<u64> {
        records.iter().map(|record| record.at_us).collect()
    }

    #[test]
    fn what_comes_late_stands_in_its_place() {
        let (mut axis, begin) = (Axis::default(), Instant::now());
        axis.add(begin, record(30));
        axis.add(begin + HOLD / 2, record(10));
        axis.add(begin + HOLD / 2, record(40));
        axis.add(begin + HOLD / 2, record(30));
        assert!(axis.take(begin + HOLD / 2).is_empty());
        assert_eq!(axis.next(), Some(begin + HOLD));
        // The second one of the same moment is after the first.
        assert_eq!(places(&axis.take(begin + HOLD)), [10, 30]);
        assert_eq!(axis.next(), Some(begin + HOLD * 3 / 2));
        axis.add(begin + HOLD, record(5));
        assert_eq!(places(&axis.take(begin + HOLD * 2)), [5, 30, 40]);
        assert_eq!(axis.next(), None);
    }

    #[test]
    fn nothing_waits_when_the_job_is_over() {
        let (mut axis, begin) = (Axis::default(), Instant::now());
        axis.add(begin, record(2));
        axis.add(begin, record(1));
        assert_eq!(places(&axis.rest()), [1, 2]);
        assert!(axis.next().is_none() && axis.take(begin + HOLD).is_empty());
    }
}
