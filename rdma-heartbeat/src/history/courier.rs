//! The way of records to node 0, without I/O.
//!
//! A node sends what it has recorded at once, and again until node 0 has said how far it got. Node 0 takes records in
//! order only, so that each arrives once; whoever was started again begins anew, and whoever finds that node 0 was,
//! sends everything again.

use std::collections::BTreeMap;
use std::time::Duration;

use propagation::{Message, NodeId, Time};
use serde::{Deserialize, Serialize};

use super::{Event, micros};

/// Most bytes of records in one message: fits into a frame.
const MOST_BYTES: usize = 1200;
/// Most records that wait for node 0; what comes when it is full is not sent.
const MOST_WAITING: usize = 8192;
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
    lines: Vec<Vec<u8>>,
    /// How many node 0 has.
    heard: usize,
    /// How many have been sent since the last time to start anew.
    sent: usize,
    again_at: Time,
}

impl Reporter {
    /// For the `incarnation`-th life of this node's daemon.
    #[must_use]
    pub fn new(incarnation: u32, resend: Duration) -> Self {
        Self { incarnation, resend, lines: Vec::new(), heard: 0, sent: 0, again_at: Time::MAX }
    }

    /// Whether this is the reporter of that life.
    #[must_use]
    pub fn is_life(&self, incarnation: u32) -> bool {
        self.incarnation == incarnation
    }

    /// Something to be told.
    pub fn add(&mut self, told: &Told) {
        if self.lines.len() < MOST_WAITING {
            self.lines.extend(serde_json::to_vec(told));
        }
    }

    /// What is to be sent to node 0 now.
    pub fn tick(&mut self, now: Time, mut send: impl FnMut(Message)) {
        if now >= self.again_at {
            self.sent = self.heard;
        }
        for _ in 0..BURST {
            if self.sent >= self.lines.len() {
                break;
            }
            let (first, mut lines) = (self.sent, Vec::new());
            while let Some(line) = self.lines.get(self.sent) {
                if !lines.is_empty() && lines.len() + line.len() >= MOST_BYTES {
                    break;
                }
                lines.extend_from_slice(line);
                lines.push(b'\n');
                self.sent += 1;
            }
            let (incarnation, first, sent_us) = (self.incarnation, first as u64, micros(now));
            send(Message::Records { incarnation, first, sent_us, lines });
            self.again_at = now + self.resend;
        }
        if self.heard >= self.lines.len() {
            self.again_at = Time::MAX;
        }
    }

    /// Node 0 has so many of this life's records. Fewer than before: it was started again.
    pub fn heard(&mut self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.lines.len());
        if count < self.heard {
            self.sent = count;
        }
        self.heard = count;
        self.sent = self.sent.max(count);
    }

    /// Whether node 0 has all.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.heard >= self.lines.len()
    }

    /// When [`Reporter::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Time {
        if self.sent < self.lines.len() { Time::ZERO } else { self.again_at }
    }
}

/// What node 0 knows about one other node.
#[derive(Debug)]
struct Source {
    incarnation: u32,
    count: u64,
    /// The smallest difference seen between this node's clock and the other's, in microseconds.
    ahead_us: i128,
}

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
        let source = self.sources.entry(from).or_insert(Source { incarnation, count: 0, ahead_us });
        source.ahead_us = source.ahead_us.min(ahead_us);
        if incarnation > source.incarnation {
            (source.incarnation, source.count) = (incarnation, 0);
        }
        if incarnation == source.incarnation {
            for (index, line) in (first..).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
                if index != source.count {
                    continue;
                }
                source.count += 1;
                if let Ok(told) = serde_json::from_slice::<Told>(line) {
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
