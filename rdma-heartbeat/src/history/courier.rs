//! Transfers records to node 0. No I/O.
//!
//! A node sends its records at once, and repeats them until node 0 acknowledges. Node 0 accepts records only in order,
//! so each arrives once. A restarted sender begins anew. If node 0 was restarted, a node sends all records that it
//! still has. If there are too many, it keeps only the number of the oldest ones; if node 0 lacks them, its history
//! contains their number.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use propagation::{Message, NodeId, Time};
use serde::{Deserialize, Serialize};

use super::{Event, micros};

/// Maximum number of bytes of records in one message, which fits into a frame.
const MOST_BYTES: usize = 1200;
/// Maximum number of bytes of records kept for node 0: some 20,000 records.
const MOST_KEPT: usize = 2 << 20;
/// Maximum number of messages sent at once.
const BURST: usize = 8;

/// A record in transit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Time on the monotonic clock of the event's node, in microseconds.
    pub at_us: u64,
    /// The host of that node.
    pub host: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The sender, at every node except 0.
#[derive(Debug)]
pub struct Reporter {
    incarnation: u32,
    resend: Duration,
    lines: VecDeque<Vec<u8>>,
    /// Number of bytes of the lines.
    kept: usize,
    /// Number of records before the lines that are not kept.
    omitted: u64,
    /// The last of them.
    last_omitted: Option<Told>,
    /// Number of records that node 0 has.
    heard: u64,
    /// Number of records sent since the last restart of the transfer.
    sent: u64,
    again_at: Time,
}

impl Reporter {
    /// For the `incarnation`-th life of this node's daemon.
    #[must_use]
    pub fn new(incarnation: u32, resend: Duration) -> Self {
        Self {
            incarnation,
            resend,
            lines: VecDeque::new(),
            kept: 0,
            omitted: 0,
            last_omitted: None,
            heard: 0,
            sent: 0,
            again_at: Time::MAX,
        }
    }

    /// Whether this reporter belongs to that incarnation.
    #[must_use]
    pub fn is_life(&self, incarnation: u32) -> bool {
        self.incarnation == incarnation
    }

    /// Adds a record. If there is no room, the oldest is removed.
    pub fn add(&mut self, told: &Told) {
        let Ok(line) = serde_json::to_vec(told) else { return };
        self.kept += line.len();
        self.lines.push_back(line);
        while self.kept > MOST_KEPT {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.kept -= oldest.len();
            self.omitted += 1;
            self.last_omitted = serde_json::from_slice(&oldest).ok();
        }
    }

    /// Sends pending messages to node 0.
    pub fn tick(&mut self, now: Time, mut send: impl FnMut(Message)) {
        if now >= self.again_at {
            self.sent = self.heard;
        }
        for _ in 0..BURST {
            if self.sent >= self.count() {
                break;
            }
            let (incarnation, first, sent_us) = (self.incarnation, self.sent, micros(now));
            let lines = self.next_lines();
            send(Message::Records { incarnation, first, sent_us, lines });
            self.again_at = now + self.resend;
        }
        if self.has_arrived() {
            self.again_at = Time::MAX;
        }
    }

    /// The unsent lines, up to the size of one message.
    fn next_lines(&mut self) -> Vec<u8> {
        if self.sent < self.omitted {
            let line = self.omission();
            self.sent = self.omitted;
            return line;
        }
        let mut lines = Vec::new();
        let unsent = usize::try_from(self.sent - self.omitted).unwrap_or(usize::MAX);
        for line in self.lines.iter().skip(unsent) {
            if !lines.is_empty() && lines.len() + line.len() >= MOST_BYTES {
                break;
            }
            lines.extend_from_slice(line);
            lines.push(b'\n');
            self.sent += 1;
        }
        lines
    }

    /// A line in place of removed records that were not sent.
    fn omission(&self) -> Vec<u8> {
        let event = Event::Omitted { records: self.omitted - self.sent };
        let told = self.last_omitted.as_ref().map(|last| Told { event, ..last.clone() });
        told.and_then(|told| serde_json::to_vec(&told).ok()).unwrap_or_default()
    }

    /// Handles an acknowledgement: node 0 has this number of records of this incarnation. A lower number than before
    /// means that it was restarted.
    pub fn heard(&mut self, count: u64) {
        let count = count.min(self.count());
        if count < self.heard {
            self.sent = count;
        }
        self.heard = count;
        self.sent = self.sent.max(count);
    }

    /// Begins again, because node 0 may have been restarted without any records.
    pub fn begin_again(&mut self) {
        (self.heard, self.sent) = (0, 0);
    }

    /// Total number of records.
    fn count(&self) -> u64 {
        self.omitted + self.lines.len() as u64
    }

    /// Whether node 0 has all records.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.heard >= self.count()
    }

    /// Time at which [`Reporter::tick`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        if self.sent < self.count() { Time::ZERO } else { self.again_at }
    }
}

/// State of node 0 about one other node.
#[derive(Debug)]
struct Source {
    incarnation: u32,
    count: u64,
    /// The smallest difference seen between this node's clock and the other's, in microseconds, at time `seen_at`.
    ahead_us: i128,
    seen_at: Time,
}

impl Source {
    /// Updates the difference. A message with a longer transit time shows a larger one. Clocks drift, and a clock
    /// stands still while its machine is suspended.
    fn compare(&mut self, now: Time, ahead_us: i128) {
        let drifted = self.ahead_us + i128::from(micros(now.saturating_sub(self.seen_at)) / DRIFT);
        let jumped = ahead_us - drifted > i128::from(micros(JUMP));
        self.ahead_us = if jumped { ahead_us } else { drifted.min(ahead_us) };
        self.seen_at = now;
    }
}

/// Inverse of the maximum drift between clocks (200 ppm; quartz and NTP stay below).
const DRIFT: u64 = 5000;
/// Upper bound of a message's delay, unless a clock has stood still.
const JUMP: Duration = Duration::from_secs(1);

/// The receiver, at node 0.
#[derive(Debug, Default)]
pub struct Collector {
    sources: BTreeMap<NodeId, Source>,
}

impl Collector {
    /// Handles a [`Message::Records`]. Passes on new records, with their time on this node's clock, and returns the
    /// answer.
    pub fn take(
        &mut self,
        from: NodeId,
        now: Time,
        (incarnation, first, sent_us): (u32, u64, u64),
        lines: &[u8],
        mut tell: impl FnMut(Time, Told),
    ) -> Message {
        let ahead_us = i128::from(micros(now)) - i128::from(sent_us);
        let source = self.sources.entry(from).or_insert(Source { incarnation, count: 0, ahead_us, seen_at: now });
        source.compare(now, ahead_us);
        if incarnation > source.incarnation {
            (source.incarnation, source.count) = (incarnation, 0);
        }
        if incarnation == source.incarnation {
            for (index, line) in (first..=u64::MAX).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
                if index != source.count {
                    continue;
                }
                let told = serde_json::from_slice::<Told>(line).ok();
                let stands_for = match told.as_ref().map(|told| &told.event) {
                    Some(Event::Omitted { records }) => (*records).max(1),
                    _ => 1,
                };
                source.count = source.count.saturating_add(stands_for);
                if let Some(told) = told {
                    let at_us = i128::from(told.at_us) + source.ahead_us;
                    tell(Time::from_micros(u64::try_from(at_us).unwrap_or(0)), told);
                }
            }
        }
        Message::RecordsHeard { incarnation: source.incarnation, count: source.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Duration::from_millis(1);

    fn told(n: u32) -> Told {
        Told { at_us: 1000 * u64::from(n), host: "h2".into(), event: Event::Fenced { rank: n } }
    }

    /// Delivers messages until there are none, except those that `lost` selects; the other clock is 5 s behind.
    fn exchange(
        reporter: &mut Reporter,
        collector: &mut Collector,
        now: Time,
        mut lost: impl FnMut() -> bool,
    ) -> Vec<(Time, Told)> {
        let (mut messages, mut arrived) = (Vec::new(), Vec::new());
        reporter.tick(now, |message| messages.push(message));
        for message in messages {
            if lost() {
                continue;
            }
            let Message::Records { incarnation, first, sent_us, lines } = message else { panic!("{message:?}") };
            let here = now + Duration::from_secs(5) + MS;
            let answer = collector.take(7, here, (incarnation, first, sent_us), &lines, |at, told| {
                arrived.push((at, told));
            });
            let Message::RecordsHeard { count, .. } = answer else { panic!("{answer:?}") };
            if !lost() {
                reporter.heard(count);
            }
        }
        arrived
    }

    #[test]
    fn records_arrive_once_and_in_order_in_spite_of_losses() {
        let (mut reporter, mut collector) = (Reporter::new(0, 10 * MS), Collector::default());
        let (mut random, mut arrived, mut now) = (1u32, Vec::new(), Time::ZERO);
        for n in 0..300 {
            reporter.add(&told(n));
            assert_eq!(reporter.deadline(), Time::ZERO);
        }
        while reporter.deadline() != Time::MAX {
            now = now.max(reporter.deadline());
            arrived.extend(exchange(&mut reporter, &mut collector, now, || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                random >> 30 == 0
            }));
            reporter.tick(now, |_| {});
        }
        assert_eq!(
            arrived.iter().map(|(_, told)| told.clone()).collect::<Vec<_>>(),
            (0..300).map(told).collect::<Vec<_>>()
        );
    }

    /// All records that arrive until no message is in transit.
    fn everything(reporter: &mut Reporter, collector: &mut Collector) -> Vec<Told> {
        let (mut arrived, mut now) = (Vec::new(), Time::ZERO);
        while reporter.deadline() != Time::MAX {
            now = now.max(reporter.deadline());
            arrived.extend(exchange(reporter, collector, now, || false).into_iter().map(|(_, told)| told));
            reporter.tick(now, |_| {});
        }
        arrived
    }

    #[test]
    fn a_long_life_is_told_to_its_end() {
        let (mut reporter, mut collector) = (Reporter::new(0, 10 * MS), Collector::default());
        for n in 0..60_000 {
            reporter.add(&told(n));
            if n % 100 == 99 {
                assert_eq!(everything(&mut reporter, &mut collector), (n - 99..=n).map(told).collect::<Vec<_>>());
            }
        }
        assert!(reporter.kept <= MOST_KEPT && reporter.kept == reporter.lines.iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn of_records_that_did_not_get_through_in_time_the_history_has_the_number() {
        let (mut reporter, mut collector) = (Reporter::new(0, 10 * MS), Collector::default());
        (0..60_000).for_each(|n| reporter.add(&told(n)));
        let arrived = everything(&mut reporter, &mut collector);
        let Event::Omitted { records } = arrived[0].event else { panic!("{:?}", arrived[0]) };
        assert_eq!((arrived[0].at_us, &*arrived[0].host), (1000 * (records - 1), "h2"));
        let first = u32::try_from(records).unwrap();
        assert_eq!(arrived[1..], (first..60_000).map(told).collect::<Vec<_>>());
        // The same for a node 0 that was started again.
        reporter.add(&told(60_000));
        let mut collector = Collector::default();
        assert_eq!(exchange(&mut reporter, &mut collector, MS, || false), []);
        let again = everything(&mut reporter, &mut collector);
        let omitted = u64::from(60_001 - u32::try_from(again.len() - 1).unwrap());
        assert_eq!(again[0].event, Event::Omitted { records: omitted });
        assert_eq!(again.last(), Some(&told(60_000)));
    }

    #[test]
    fn moments_are_placed_on_the_clock_of_node_0_with_the_smallest_difference_seen() {
        let mut collector = Collector::default();
        let line = serde_json::to_vec(&told(2)).unwrap();
        let mut moments = Vec::new();
        // The first message has a transit time of 4 ms, the second of 1 ms.
        for (first, way) in [(0, 4), (1, 1), (2, 4)] {
            let (sent, here) = (10 * MS, Duration::from_secs(5) + (10 + way) * MS);
            collector.take(7, here, (0, first, micros(sent)), &line, |at, _| moments.push(at - Duration::from_secs(5)));
        }
        assert_eq!(moments, [6 * MS, 3 * MS, 3 * MS]);
    }

    #[test]
    fn clocks_may_drift_and_one_may_have_stood_still() {
        let mut collector = Collector::default();
        let line = serde_json::to_vec(&told(0)).unwrap();
        // Sending time on the other clock, and transit time, in milliseconds.
        let mut told_at = |first, (here, sent): (u64, u64)| {
            let mut moment = None;
            let (here, sent) = (Duration::from_millis(here), micros(Duration::from_millis(sent)));
            collector.take(7, here, (0, first, sent), &line, |at, _| moment = Some(at.as_millis()));
            moment.unwrap()
        };
        assert_eq!(told_at(0, (5001, 0)), 5001);
        // A day later the other clock is 2 s behind (23 ppm): no event appears 2 s early.
        assert_eq!(told_at(1, (86_407_001, 86_400_000)), 7001);
        // Then it stands still for a minute.
        assert_eq!(told_at(2, (86_477_001, 86_410_000)), 67_001);
        // A message with a delay of less than a second shifts nothing by more than that.
        assert!(told_at(3, (86_477_901, 86_410_100)) < 67_801);
    }

    #[test]
    fn whoever_was_started_again_begins_anew_on_both_sides() {
        let (mut reporter, mut collector) = (Reporter::new(0, 10 * MS), Collector::default());
        reporter.add(&told(1));
        assert_eq!(exchange(&mut reporter, &mut collector, MS, || false).len(), 1);
        // Another node 0 has no records, as its first answer shows.
        let mut collector = Collector::default();
        reporter.add(&told(2));
        assert_eq!(exchange(&mut reporter, &mut collector, MS, || false), []);
        let again: Vec<_> =
            exchange(&mut reporter, &mut collector, MS, || false).into_iter().map(|(_, told)| told).collect();
        assert_eq!(again, [told(1), told(2)]);
        let mut successor = Reporter::new(1, 10 * MS);
        successor.add(&told(3));
        assert_eq!(exchange(&mut successor, &mut collector, MS, || false).len(), 1);
        reporter.add(&told(4));
        assert_eq!(exchange(&mut reporter, &mut collector, MS, || false), [], "a former life has no say");
    }
}
