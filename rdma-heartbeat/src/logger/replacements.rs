//! The processes of this node that have taken the place of a rank, and how far each is in repeating what the processes
//! before it had done.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use propagation::Time;

use crate::history::Event;
use crate::report::status::Replacement;

/// The replacements of a node, by rank.
#[derive(Debug, Default)]
pub struct Replacements {
    known: BTreeMap<Rank, Known>,
    news: Vec<Event>,
}

#[derive(Debug)]
struct Known {
    report: Replacement,
    since: Time,
    is_over: bool,
}

impl Replacements {
    /// A process takes the place of a rank.
    pub fn take(&mut self, now: Time, rank: Rank, spare: u16, pid: i32) {
        let spare = u32::from(spare);
        let report = Replacement { rank, spare, pid, events: 0, left: 0 };
        self.known.insert(rank, Known { report, since: now, is_over: false });
        self.news.push(Event::Replaced { rank, spare, pid });
    }

    /// So many events are left for it to repeat. The first time these are all.
    pub fn repeat(&mut self, now: Time, rank: Rank, left: u64) {
        let Some(known) = self.known.get_mut(&rank) else { return };
        let events = known.report.events.max(left);
        (known.report.events, known.report.left) = (events, left);
        if left == 0 && !std::mem::replace(&mut known.is_over, true) {
            let us = u64::try_from(now.saturating_sub(known.since).as_micros()).unwrap_or(u64::MAX);
            self.news.push(Event::Repeated { rank, events, us });
        }
    }

    /// What has happened since the last time.
    pub fn take_news(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.news)
    }

    /// How far each is.
    pub fn reports(&self) -> impl Iterator<Item = Replacement> + '_ {
        self.known.values().map(|known| known.report.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_end_of_a_replay_is_news_once_with_its_length_and_time() {
        let mut replacements = Replacements::default();
        replacements.take(Duration::ZERO, 3, 1, 700);
        assert_eq!(replacements.take_news(), [Event::Replaced { rank: 3, spare: 1, pid: 700 }]);
        replacements.repeat(Duration::ZERO, 3, 120);
        replacements.repeat(Duration::from_micros(10), 3, 20);
        assert_eq!(replacements.take_news(), []);
        let report = Replacement { rank: 3, spare: 1, pid: 700, events: 120, left: 20 };
        assert_eq!(replacements.reports().collect::<Vec<_>>(), [report]);
        replacements.repeat(Duration::from_micros(15), 3, 0);
        replacements.repeat(Duration::from_micros(16), 3, 0);
        assert_eq!(replacements.take_news(), [Event::Repeated { rank: 3, events: 120, us: 15 }]);
    }

    #[test]
    fn a_rank_without_events_has_repeated_them_at_once() {
        let mut replacements = Replacements::default();
        replacements.take(Duration::ZERO, 0, 2, 7);
        (1..3).for_each(|us| replacements.repeat(Duration::from_micros(us), 0, 0));
        assert_eq!(replacements.take_news().len(), 2);
    }
}
