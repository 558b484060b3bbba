//! Records that came before: who calls again hears everything again, and when `ringwatchd` of node 0 is started again the
//! others tell it what they had told the one before.

use super::{Event, Record};

/// So far apart on the axis may be two accounts of one event, because the shortest way of a message is found anew, in
/// microseconds.
const SAME_US: u64 = 50_000;

/// Tells news from what was told before.
#[derive(Debug, Default)]
pub struct Repeats {
    told: Vec<Record>,
    /// What was told and may come once more.
    expected: Vec<Record>,
}

impl Repeats {
    /// Everything may come again.
    pub fn begin_again(&mut self) {
        self.expected.clone_from(&self.told);
    }

    /// Whether a record is told for the first time; in the order in which they were written.
    pub fn is_news(&mut self, record: &Record) -> bool {
        if record.node == record.clock && matches!(record.event, Event::Started { incarnation: 1.., .. }) {
            let is_others = |told: &&Record| told.job == record.job && told.node != told.clock;
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
    (&one.job, one.node, one.clock) == (&other.job, other.node, other.clock)
        && one.event == other.event
        && one.at_us.abs_diff(other.at_us) < SAME_US
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(node: u32, at_us: u64, event: Event) -> Record {
        Record { time: String::new(), at_us, clock: 0, job: "job@1".into(), node, host: "h".into(), event }
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
