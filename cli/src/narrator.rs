//! What somebody reads who follows jobs: each record in its place, and a summary of each job at its end. No I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdma_heartbeat::history::{Event, Record};

use crate::axis::Axis;
use crate::timeline;

/// How long after the end of a job further records of it may come: measurements of a history that is kept.
pub const LAST_RECORDS: Duration = Duration::from_secs(2);

/// User, job and clock: records that differ in one are on different axes.
type Key = (Option<u32>, String, u32);

/// A text for each record, or a line of JSON.
#[derive(Debug)]
pub struct Narrator {
    json: bool,
    axes: BTreeMap<Key, Told>,
    /// The axis and the day under the last title.
    title: Option<(Key, String)>,
}

/// One axis, and what was told of it.
#[derive(Debug, Default)]
struct Told {
    axis: Axis,
    records: Vec<Record>,
    /// When the summary is due, since the job has ended.
    over: Option<Instant>,
    is_summed_up: bool,
}

impl Narrator {
    /// For people, or for programs.
    #[must_use]
    pub fn new(json: bool) -> Self {
        Self { json, axes: BTreeMap::new(), title: None }
    }

    /// Adds a record that has come now.
    pub fn add(&mut self, now: Instant, record: Record) {
        let key = (record.user, record.job.clone(), record.clock);
        let told = self.axes.entry(key).or_default();
        if record.node == record.clock && matches!(record.event, Event::Ended { .. }) {
            told.over = Some(now + LAST_RECORDS);
        }
        told.axis.add(now, record);
    }

    /// When [`Narrator::tell`] has more to say.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.axes.values().flat_map(|told| [told.axis.next(), told.over]).flatten().min()
    }

    /// The text that is due.
    pub fn tell(&mut self, now: Instant) -> String {
        let mut text = self.tell_of(|axis| axis.take(now));
        for told in self.axes.values_mut().filter(|told| told.over.is_some_and(|over| over <= now)) {
            told.over = None;
            text += &told.summary(self.json);
        }
        text
    }

    /// The rest of the text, with the summaries of jobs whose end has not come.
    pub fn end(&mut self) -> String {
        let mut text = self.tell_of(Axis::rest);
        for mut told in std::mem::take(&mut self.axes).into_values() {
            text += &told.summary(self.json);
        }
        text
    }

    fn tell_of(&mut self, take: impl Fn(&mut Axis) -> Vec<Record>) -> String {
        let mut text = String::new();
        let keys: Vec<Key> = self.axes.keys().cloned().collect();
        for key in keys {
            let Some(told) = self.axes.get_mut(&key) else { continue };
            for record in take(&mut told.axis) {
                text += &self.line(&key, record);
            }
        }
        text
    }

    fn line(&mut self, key: &Key, record: Record) -> String {
        let before = self.axes.get(key).and_then(|told| told.records.last());
        let line = if self.json { json(&record) } else { timeline::line(&record, before) };
        let mut text = if self.json { String::new() } else { self.title_of(key, &record) };
        text += &line;
        if let Some(told) = self.axes.get_mut(key) {
            told.records.push(record);
        }
        text
    }

    /// A title, if the record has another job or day than the line before.
    fn title_of(&mut self, key: &Key, record: &Record) -> String {
        let day = timeline::day(record);
        if self.title.as_ref().is_some_and(|(last, last_day)| last == key && last_day == day) {
            return String::new();
        }
        self.title = Some((key.clone(), day.to_owned()));
        timeline::title(&[record])
    }
}

impl Told {
    /// What there is to say of all deaths, once, for people.
    fn summary(&mut self, json: bool) -> String {
        let mut records = std::mem::take(&mut self.records);
        if json || records.is_empty() || std::mem::replace(&mut self.is_summed_up, true) {
            return String::new();
        }
        // Those that came late are not in their places.
        records.sort_by_key(|record| record.at_us);
        timeline::summary(&records.iter().collect::<Vec<_>>())
    }
}

/// A record as a line of JSON.
///
/// # Panics
/// Never: a record is plain data.
#[must_use]
pub fn json(record: &Record) -> String {
    serde_json::to_string(record).expect("a record is plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::HOLD;

    fn record(job: &str, at_us: u64, node: u32, event: Event) -> Record {
        let time = format!("2026-01-0{}T00:00:00.{:06}Z", 1 + at_us / 1_000_000, at_us % 1_000_000);
        Record { time, at_us, job: job.into(), node, host: format!("h{node}"), event, ..Record::default() }
    }

    fn dead(node: u32, at_us: u64) -> Record {
        record("a@1", at_us, node, Event::RankDead { rank: 5, replica: None, on: 2, reason: "signal:9".into(), by: 2 })
    }

    #[test]
    fn people_read_titles_differences_and_a_summary_at_the_end() {
        let (mut narrator, now) = (Narrator::new(false), Instant::now());
        narrator.add(now, dead(0, 1500));
        narrator.add(now, dead(2, 1000));
        narrator.add(now, record("b@1", 9, 0, Event::Held));
        let text = narrator.tell(now + HOLD);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "job a@1, 2026-01-01, on the clock of node 0");
        assert!(lines[1].starts_with("00:00:00.001000            node 2 (h2)  knows that rank 5"), "{text}");
        assert!(lines[2].starts_with("00:00:00.001500   +500 us  node 0 (h0)  knows"), "{text}");
        assert_eq!(lines[3], "job b@1, 2026-01-01, on the clock of node 0");
        // What comes too late for its place says so.
        narrator.add(now, dead(1, 1200));
        narrator.add(now, record("a@1", 1_000_000, 0, Event::Ended { why: "done".into() }));
        let text = narrator.tell(now + HOLD) + &narrator.tell(now + LAST_RECORDS);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "job a@1, 2026-01-01, on the clock of node 0");
        assert!(lines[1].contains("00:00:00.001200      late  node 1 (h1)  knows"), "{text}");
        assert_eq!(lines[2], "job a@1, 2026-01-02, on the clock of node 0");
        assert!(lines[4].starts_with("rank 5 of node 2 (h2) died: noticed by node 2 (h2)"), "{text}");
        assert!(lines[4].ends_with("known to 3 nodes after 500 us"), "{text}");
        // What still comes makes no second summary.
        narrator.add(now, record("a@1", 1_000_001, 0, Event::Held));
        let rest = narrator.end();
        assert!(rest.contains("has no contact") && rest.matches("died").count() == 1, "of the other job: {rest}");
    }

    #[test]
    fn programs_get_records_in_order_and_nothing_else() {
        let (mut narrator, now) = (Narrator::new(true), Instant::now());
        let (first, last) = (dead(2, 1000), record("a@1", 2000, 0, Event::Ended { why: "done".into() }));
        narrator.add(now, last.clone());
        narrator.add(now, first.clone());
        assert_eq!(narrator.next(), Some(now + HOLD));
        assert_eq!(narrator.end(), json(&first) + &json(&last));
    }
}
