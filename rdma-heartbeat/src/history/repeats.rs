//! Detects repeated records: a caller that reconnects gets all records again, and a restarted `ringwatchd` of node 0
//! gets records from other nodes that they had sent to the previous one.

use super::{Event, Record};

/// Maximum distance on the axis between two accounts of one event, in microseconds. They differ because the shortest
/// transit time is determined anew.
const SAME_US: u64 = 50_000;

/// Distinguishes new records from repeated ones.
#[derive(Debug, Default)]
pub struct Repeats {
    told: Vec<Record>,
    /// Records that may be repeated.
    expected: Vec<Record>,
}

impl Repeats {
    /// Expects all records again.
    pub fn begin_again(&mut self) {
        self.expected.clone_from(&self.told);
    }

    /// Whether a record is new; call it in the order of the records.
    pub fn is_news(&mut self, record: &Record) -> bool {
        if record.node == record.clock && matches!(record.event, Event::Started { incarnation: 1.., .. }) {
            let is_others =
                |told: &&Record| (told.user, &told.job) == (record.user, &record.job) && told.node != told.clock;
            self.expected.extend(self.told.iter().filter(is_others).cloned());
        }
        if let Some(place) = self.expected.iter().position(|told| is_same(told, record)) {
            self.expected.remove(place);
            return false;
        }
        self.told.push(record.clone());
        true
    }
}

fn is_same(one: &Record, other: &Record) -> bool {
    (one.user, &one.job, one.node, one.clock) == (other.user, &other.job, other.node, other.clock)
        && one.event == other.event
        && one.at_us.abs_diff(other.at_us) < SAME_US
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(node: u32, at_us: u64, event: Event) -> Record {
        Record { at_us, job: "job@1".into(), node, host: "h".into(), event, ..Record::default() }
    }

    fn started(node: u32, incarnation: u32) -> Record {
        record(node, 1000 * u64::from(incarnation), Event::Started { pid: 7, incarnation })
    }

    fn error(node: u32, at_us: u64) -> Record {
        record(node, at_us, Event::Error { rank: 3, class: "MPI_ERR_X".into(), function: "MPI_Send".into() })
    }

    #[test]
    fn what_happens_twice_is_told_twice_and_what_is_repeated_after_a_restart_once() {
        let mut repeats = Repeats::default();
        for news in [started(0, 0), started(1, 0), error(1, 20), error(1, 30), error(0, 40)] {
            assert!(repeats.is_news(&news), "{news:?}");
        }
        assert!(repeats.is_news(&started(0, 1)));
        for repeated in [started(1, 0), error(1, 25), error(1, 31)] {
            assert!(!repeats.is_news(&repeated), "{repeated:?}");
        }
        for news in [error(1, 32), error(0, 41), error(2, 20)] {
            assert!(repeats.is_news(&news), "{news:?}");
        }
    }

    #[test]
    fn who_calls_again_hears_nothing_twice() {
        let mut repeats = Repeats::default();
        let all = [started(0, 0), error(0, 20), error(1, 20)];
        assert!(all.iter().all(|record| repeats.is_news(record)));
        repeats.begin_again();
        assert!(!all.iter().any(|record| repeats.is_news(record)));
        assert!(repeats.is_news(&error(1, 21)));
    }
}
