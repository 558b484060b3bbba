//! The history of a job: what was observed, declared, fenced and raised, as lines of JSON.
//!
//! Every `ringwatchd` keeps what happened on its node and sends it to node 0 ([`courier`]), where the history of the
//! whole job comes together: it can be asked for there ([`feed`]), and written into a file. Nothing is recorded, sent or
//! written while nothing happens.
//!
//! # The axis
//!
//! `at_us` counts on the monotonic clock of the node `clock`: node 0's in the history of the job. What another node has
//! seen is placed there with the smallest difference between the clocks that a message of that node has shown so far:
//! the true one plus the way of that message. So it stands late by the time of that way, some tenths of a millisecond
//! on a quiet machine, and early only by what the clocks have drifted since. `time` is the same moment on the wall clock
//! of the node `clock`.
//!
//! | file | part |
//! |---|---|
//! | this one | the records and where they are kept |
//! | `courier` | the way to node 0: no I/O |
//! | `feed` | asking for them |
//! | `repeats` | what was told before: no I/O |
//! | `timeline` | for people: no I/O |

use std::time::{Duration, SystemTime};

use propagation::{NodeId, Time};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::sink::Sink;
use repeats::Repeats;

pub mod courier;
pub mod feed;
pub mod repeats;
pub mod timeline;

/// Most bytes of a history in memory: some 20,000 records.
const MOST_BYTES: usize = 4 << 20;

/// What happened. Node and rank numbers are those of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// `ringwatchd` began to serve.
    Started {
        /// Its process number.
        pid: u32,
        /// How often it was started before.
        incarnation: u32,
    },
    /// The node is in the ring.
    Watching {
        /// The node that it watches.
        emitter: Option<NodeId>,
        /// The node that watches it.
        observer: Option<NodeId>,
    },
    /// A rank ended, is stopped for too long, or was reported by the runtime.
    Observed {
        /// The rank.
        rank: u32,
        /// What was seen, in one word.
        reason: String,
    },
    /// The runtime daemon of this node is lost.
    RuntimeLost {
        /// Its process number.
        pid: i32,
        /// `ended`, `hung-up` or `stopped`.
        reason: String,
    },
    /// The runtime has lost its connection to a node.
    ConnectionLost {
        /// The node.
        peer: NodeId,
    },
    /// Nothing was heard of a node for a whole timeout.
    Suspected {
        /// The node.
        peer: NodeId,
        /// How long ago its last heartbeat came, in microseconds; none if none ever has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        silent_us: Option<u64>,
    },
    /// Node 0 asks a suspect for a sign of life.
    Asked {
        /// The suspect.
        peer: NodeId,
    },
    /// The suspect gave one.
    Spared {
        /// The suspect.
        peer: NodeId,
    },
    /// This node learned that a rank is dead.
    RankDead {
        /// The rank.
        rank: u32,
        /// Its node.
        on: NodeId,
        /// Why, in one word.
        reason: String,
        /// The node that declared it.
        by: NodeId,
    },
    /// This node learned that a node is dead, with its ranks.
    NodeDead {
        /// The node.
        peer: NodeId,
        /// Why, in one word.
        reason: String,
        /// The node that declared it.
        by: NodeId,
        /// The node whose suspicion led to it.
        suspector: Option<NodeId>,
        /// The ranks that died with it.
        ranks: Vec<u32>,
    },
    /// A rank of this node was killed because it was declared dead, or because its node is out of the job.
    Fenced {
        /// The rank.
        rank: u32,
    },
    /// The runtime daemon of this node was killed, for the same reasons.
    RuntimeFenced {
        /// Its process number.
        pid: i32,
    },
    /// The ranks of this node wait, because it has no contact with node 0.
    Held,
    /// They go on.
    Released,
    /// A rank of this node has reported deaths to MPI, from where they are raised as errors.
    Raised {
        /// The rank that reported them.
        rank: u32,
        /// The dead, as far as they are new to it.
        dead: Vec<u32>,
    },
    /// The first error that MPI has raised in a rank of this node since it learned of the last death.
    Error {
        /// The rank.
        rank: u32,
        /// The class of the error, as in `mpi.h`.
        class: String,
        /// The function of MPI that raised it.
        function: String,
    },
    /// This `ringwatchd` was kept from running, and does not trust its timers for a while.
    Late {
        /// For how long, in microseconds.
        us: u64,
    },
    /// Records of this node that came before are not here: they came too fast to be sent to node 0, or its memory has no
    /// room for them any more.
    Omitted {
        /// How many.
        records: u64,
    },
    /// At the end, how often which time was measured on this node: a part of the distribution.
    Measured {
        /// Which time.
        what: Measure,
        /// Times in microseconds, ascending, and how often each.
        counts: Vec<(u64, u64)>,
    },
    /// At the end, after all that was measured.
    Farewell {
        /// The job's heartbeat period in microseconds.
        period_us: u64,
        /// How often this node heard its emitter.
        heard: u64,
        /// Heartbeats for it that were sent as datagrams and did not come.
        lost: u64,
    },
    /// The job is over on this node.
    Ended {
        /// One sentence.
        why: String,
    },
}

/// What the distribution in [`Event::Measured`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Times between two heartbeats of the emitter.
    Silence,
    /// How late `ringwatchd` was when its timer woke it up.
    Lateness,
}

/// A line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When, in UTC.
    pub time: String,
    /// When, on the axis, in microseconds.
    pub at_us: u64,
    /// The node whose monotonic clock the axis is.
    pub clock: NodeId,
    /// The job's PMIx namespace.
    pub job: String,
    /// The node on which it happened.
    pub node: NodeId,
    /// The name of its host.
    pub host: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The history as far as one node has it.
pub struct History {
    job: String,
    me: NodeId,
    lines: Vec<u8>,
    /// Bytes of older lines that memory has no room for any more.
    gone: u64,
    sink: Option<Sink>,
    /// Records that the sink had no room for.
    unwritten: u64,
}

impl History {
    /// An empty history of node `me`, which is also written into `sink`.
    #[must_use]
    pub fn new(job: &str, me: NodeId, sink: Option<Sink>) -> Self {
        Self { job: job.to_owned(), me, lines: Vec::new(), gone: 0, sink, unwritten: 0 }
    }

    /// Adds what happened at `at` on this node's monotonic clock. What memory has no room for any more is in the sink
    /// alone.
    pub fn add(&mut self, node: NodeId, host: &str, at: Time, event: Event) {
        let (now, wall) = (clock::now(), SystemTime::now());
        // A clock that was off by a message's way may put a moment ahead of now.
        let moment = wall - now.saturating_sub(at) + at.saturating_sub(now);
        let record = Record {
            time: clock::utc(moment),
            at_us: micros(at),
            clock: self.me,
            job: self.job.clone(),
            node,
            host: host.to_owned(),
            event,
        };
        let Some(line) = line_of(&record) else { return };
        if self.lines.len() + line.len() > MOST_BYTES {
            self.forget();
        }
        self.lines.extend_from_slice(&line);
        // A file is not bounded by the memory of this process.
        let Some(sink) = &self.sink else { return };
        if self.unwritten > 0 {
            let omission = Record { node: self.me, event: Event::Omitted { records: self.unwritten }, ..record };
            if line_of(&omission).is_some_and(|line| sink.write(line)) {
                self.unwritten = 0;
            }
        }
        // The omission has the place before it.
        if self.unwritten > 0 || !sink.write(line) {
            self.unwritten += 1;
        }
    }

    /// Makes room: the oldest eighth goes, and a line says how many records that were. Little enough to cost no time that
    /// a heartbeat would miss.
    fn forget(&mut self) {
        let least = self.lines.len() / 8;
        let end =
            self.lines[least..].iter().position(|byte| *byte == b'\n').map_or(self.lines.len(), |at| least + at + 1);
        let mut old = self.lines[..end].split_inclusive(|byte| *byte == b'\n');
        let first = old.next().unwrap_or_default();
        let forgotten = match serde_json::from_slice(first) {
            Ok(Record { event: Event::Omitted { records }, node, .. }) if node == self.me => records,
            _ => 1,
        };
        let (count, last) = old.fold((forgotten, first), |(count, _), line| (count + 1, line));
        let omission = serde_json::from_slice(last).map(|last| {
            let event = Event::Omitted { records: count };
            line_of(&Record { node: self.me, event, ..last })
        });
        let omission = omission.ok().flatten().unwrap_or_default();
        self.gone += end.saturating_sub(omission.len()) as u64;
        self.lines.splice(..end, omission);
    }

    /// The lines in memory, in the order in which they became known here.
    #[must_use]
    pub fn lines(&self) -> Lines<'_> {
        Lines { gone: self.gone, bytes: &self.lines }
    }
}

fn line_of(record: &Record) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(record).ok()?;
    line.push(b'\n');
    Some(line)
}

/// What memory has of a history.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    /// Bytes of lines before these.
    pub gone: u64,
    /// Whole lines.
    pub bytes: &'a [u8],
}

/// A time in microseconds.
#[must_use]
pub fn micros(time: Time) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Reads the lines of histories, in the order of the axis; what was [told twice](repeats) is there once, and lines that are
/// none are skipped. Returns how many were.
#[must_use]
pub fn read(text: &str) -> (Vec<Record>, usize) {
    let parsed = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str::<Record>);
    let (mut records, mut strange, mut repeats) = (Vec::new(), 0, Repeats::default());
    for record in parsed {
        match record {
            Ok(record) if repeats.is_news(&record) => records.push(record),
            Ok(_) => {}
            Err(_) => strange += 1,
        }
    }
    sort(&mut records);
    (records, strange)
}

/// Puts records in the order of time: of the axis if they share one, else of the wall clocks.
pub fn sort(records: &mut [Record]) {
    let shares_axis = records.windows(2).all(|pair| (&pair[0].job, pair[0].clock) == (&pair[1].job, pair[1].clock));
    if shares_axis {
        records.sort_by_key(|record| record.at_us);
    } else {
        records.sort_by(|a, b| (&a.job, &a.time).cmp(&(&b.job, &b.time)));
    }
}

/// How far two moments on one axis are apart.
#[must_use]
pub fn between(earlier: &Record, later: &Record) -> Duration {
    Duration::from_micros(later.at_us.saturating_sub(earlier.at_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_who_when_and_what_in_one_level() {
        let mut history = History::new("job@1", 3, None);
        let at = clock::now();
        history.add(3, "h4", at, Event::Observed { rank: 5, reason: "signal:9".into() });
        let value: serde_json::Value = serde_json::from_slice(history.lines().bytes).unwrap();
        assert_eq!(value["event"], "observed");
        assert_eq!((value["rank"].as_u64(), value["reason"].as_str()), (Some(5), Some("signal:9")));
        assert_eq!((value["node"].as_u64(), value["clock"].as_u64()), (Some(3), Some(3)));
        assert_eq!(value["at_us"].as_u64(), Some(micros(at)));
        assert!(value["time"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn lines_come_back_in_order_and_strange_ones_are_counted() {
        let mut history = History::new("job@1", 0, None);
        let now = clock::now();
        history.add(1, "h2", now, Event::Held);
        history.add(2, "h3", now - Duration::from_millis(3), Event::Suspected { peer: 1, silent_us: None });
        let text = format!("{}\nnonsense\n{{}}\n", String::from_utf8(history.lines().bytes.to_vec()).unwrap());
        let (records, strange) = read(&text);
        assert_eq!(strange, 2);
        assert_eq!(
            [&records[0].event, &records[1].event],
            [&Event::Suspected { peer: 1, silent_us: None }, &Event::Held]
        );
        assert_eq!(between(&records[0], &records[1]), Duration::from_millis(3));
    }

    #[test]
    fn a_history_does_not_grow_for_ever() {
        let mut history = History::new("job@1", 0, None);
        let mut sent = 0;
        for rank in 0..200 {
            history.add(0, "h1", Time::ZERO, Event::Observed { rank, reason: "x".repeat(MOST_BYTES / 50) });
            let Lines { gone, bytes } = history.lines();
            // Whoever has had all until now finds the new line behind it.
            let new = &bytes[usize::try_from(sent - gone).unwrap()..];
            assert_eq!((new.iter().filter(|byte| **byte == b'\n').count(), new[0]), (1, b'{'));
            sent = gone + bytes.len() as u64;
        }
        let text = String::from_utf8(history.lines().bytes.to_vec()).unwrap();
        assert!(text.len() <= MOST_BYTES && text.len() > MOST_BYTES / 3);
        let (records, strange) = read(&text);
        // The newest are there, and the number of all others.
        let first = 200 - u32::try_from(records.len() - 1).unwrap();
        assert_eq!((strange, &records[0].event), (0, &Event::Omitted { records: u64::from(first) }));
        let is_rank =
            |(rank, record): (u32, &Record)| matches!(record.event, Event::Observed { rank: one, .. } if one == rank);
        assert!((first..).zip(&records[1..]).all(is_rank));
    }
}
