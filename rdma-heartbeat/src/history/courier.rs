//! The way of records to node 0, without I/O.
//!
//! A node sends what it has recorded at once, and again until node 0 has said how far it got. Node 0 takes records in
//! order only, so that each arrives once; whoever was started again begins anew, and whoever finds that node 0 was,
//! sends everything again that it still has: of the oldest records only their number is kept when there are too many,
//! and where node 0 has not had them, its history says how many they were.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use propagation::{Message, NodeId, Time};
use serde::{Deserialize, Serialize};

use super::{Event, micros};

/// Most bytes of records in one message: fits into a frame.
const MOST_BYTES: usize = 1200;
/// Most bytes of records that are kept for node 0: some 20,000 records.
const MOST_KEPT: usize = 2 << 20;
/// Most messages sent at once.
const BURST: usize = 8;

/// A record on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// When, on the monotonic clock of the node that it happened on, in microseconds.
    pub at_us: u64,
    /// The host of that node.
    pub host: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The end of the way at every other node.
#[derive(Debug)]
pub struct Reporter {
    incarnation: u32,
    resend: Duration,
    lines: VecDeque<Vec<u8>>,
    /// Bytes of the lines.
    kept: usize,
    /// How many came before the lines, and are kept no more.
    omitted: u64,
    /// The last of them.
    last_omitted: Option<Told>,
    /// How many node 0 has.
    heard: u64,
    /// How many have been sent since the last time to start anew.
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

    /// Whether this is the reporter of that life.
    #[must_use]
    pub fn is_life(&self, incarnation: u32) -> bool {
        self.incarnation == incarnation
    }

    /// Something to be told. The oldest makes room for it where there is none.
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

    /// What is to be sent to node 0 now.
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

    /// The lines from the first on that has not been sent, as many as one message has room for.
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

    /// A line in place of those that are not kept and have not been sent.
    fn omission(&self) -> Vec<u8> {
        let event = Event::Omitted { records: self.omitted - self.sent };
        let told = self.last_omitted.as_ref().map(|last| Told { event, ..last.clone() });
        told.and_then(|told| serde_json::to_vec(&told).ok()).unwrap_or_default()
    }

    /// Node 0 has so many of this life's records. Fewer than before: it was started again.
    pub fn heard(&mut self, count: u64) {
        let count = count.min(self.count());
        if count < self.heard {
            self.sent = count;
        }
        self.heard = count;
        self.sent = self.sent.max(count);
    }

    /// Node 0 may have been started again, and have nothing: it has all from the beginning.
    pub fn begin_again(&mut self) {
        (self.heard, self.sent) = (0, 0);
    }

    /// How many there have been.
    fn count(&self) -> u64 {
        self.omitted + self.lines.len() as u64
    }

    /// Whether node 0 has all.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.heard >= self.count()
    }

    /// When [`Reporter::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Time {
        if self.sent < self.count() { Time::ZERO } else { self.again_at }
    }
}

/// What node 0 knows about one other node.
#[derive(Debug)]
struct Source {
    incarnation: u32,
    count: u64,
    /// The smallest difference seen between this node's clock and the other's, in microseconds, as of `seen_at`.
    ahead_us: i128,
    seen_at: Time,
}

impl Source {
    /// Takes another difference: that of a message which is on its way for longer is larger. Clocks drift apart, and one
    /// stands still while its machine is suspended.
    fn compare(&mut self, now: Time, ahead_us: i128) {
        let drifted = self.ahead_us + i128::from(micros(now.saturating_sub(self.seen_at)) / DRIFT);
        let jumped = ahead_us - drifted > i128::from(micros(JUMP));
        self.ahead_us = if jumped { ahead_us } else { drifted.min(ahead_us) };
        self.seen_at = now;
    }
}

/// Clocks drift apart by less than one part in so many (200 ppm; quartz and NTP stay below).
const DRIFT: u64 = 5000;
/// What no message is late by, unless a clock has stood still.
const JUMP: Duration = Duration::from_secs(1);

/// The end of the way at node 0.
#[derive(Debug, Default)]
pub struct Collector {
    sources: BTreeMap<NodeId, Source>,
}

impl Collector {
    /// Takes the parts of a [`Message::Records`]. Hands on what is new, with its moment on this node's clock, and
    /// returns the answer.
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

    /// Passes messages on as long as there are any, except those that `lost` says; the other's clock is 5 s behind.
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

    /// All that arrives until nothing is on its way any more.
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
        // The first message is on its way for 4 ms, the second for 1 ms.
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
        // When a message is sent by the other clock, and how long it is on its way, in milliseconds.
        let mut told_at = |first, (here, sent): (u64, u64)| {
            let mut moment = None;
            let (here, sent) = (Duration::from_millis(here), micros(Duration::from_millis(sent)));
            collector.take(7, here, (0, first, sent), &line, |at, _| moment = Some(at.as_millis()));
            moment.unwrap()
        };
        assert_eq!(told_at(0, (5001, 0)), 5001);
        // A day later the other clock is 2 s behind (23 ppm): nothing seems to have happened 2 s early.
        assert_eq!(told_at(1, (86_407_001, 86_400_000)), 7001);
        // Then it stands still for a minute.
        assert_eq!(told_at(2, (86_477_001, 86_410_000)), 67_001);
        // A message that is late for less than a second moves nothing by more than that.
        assert!(told_at(3, (86_477_901, 86_410_100)) < 67_801);
    }

    #[test]
    fn whoever_was_started_again_begins_anew_on_both_sides() {
        let (mut reporter, mut collector) = (Reporter::new(0, 10 * MS), Collector::default());
        reporter.add(&told(1));
        assert_eq!(exchange(&mut reporter, &mut collector, MS, || false).len(), 1);
        // Another node 0 knows nothing, which its first answer shows.
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
