//! Keeps the history of a job: observations, declarations, fencing and errors, as lines of JSON.
//!
//! Every `ringwatchd` records events of its node and sends them to node 0 ([`courier`]), which has the history of the
//! whole job: tools can query it there ([`feed`]), and it can be written into a file. Nothing is recorded, sent or
//! written without events.
//!
//! # The axis
//!
//! `at_us` counts on the monotonic clock of the node `clock`: node 0's in the history of the job. An event of another
//! node is placed there with the smallest clock difference that a message of that node has shown so far: the true
//! difference plus that message's transit time. So it appears late by that transit time, some tenths of a millisecond
//! on a quiet machine, and early only by the clocks' drift since. `time` is the same moment on the wall clock of the
//! node `clock`.
//!
//! | file | part |
//! |---|---|
//! | this one | the records and their storage |
//! | `archive` | the last jobs, in files of the user |
//! | `changes` | which accounts of changes of groups count: no I/O |
//! | `courier` | transfer to node 0: no I/O |
//! | `feed` | queries |
//! | `repeats` | detection of repeated records: no I/O |

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use propagation::{NodeId, Time};
use recommended_group::report::Verdict;
use serde::{Deserialize, Serialize};

use node_abi::hosts::Hosts;
use node_abi::launch::{LaunchData, Origin};
use node_abi::segment::replicas::ReplicaOf;
use platform::clock;
use platform::sink::Sink;
use repeats::Repeats;

pub mod archive;
pub mod changes;
pub mod courier;
pub mod feed;
pub mod repeats;

/// Maximum number of bytes of a history in memory: some 20,000 records.
const MOST_BYTES: usize = 4 << 20;

/// An event. Node and rank numbers are those of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// `ringwatchd` began to serve.
    Started {
        /// Its process number.
        pid: u32,
        /// Number of earlier starts.
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
        /// The observation, in one word.
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
    /// No heartbeat of a node arrived for a whole timeout.
    Suspected {
        /// The node.
        peer: NodeId,
        /// Time since its last heartbeat, in microseconds; none if none has arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        silent_us: Option<u64>,
    },
    /// Node 0 probes a suspect.
    Asked {
        /// The suspect.
        peer: NodeId,
    },
    /// The suspect answered.
    Spared {
        /// The suspect.
        peer: NodeId,
    },
    /// This node learned that a rank is dead.
    RankDead {
        /// The rank.
        rank: u32,
        /// Which replica it was, if the job has replicas and this node knows that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replica: Option<ReplicaOf>,
        /// Its node.
        on: NodeId,
        /// The reason, in one word.
        reason: String,
        /// The node that declared it.
        by: NodeId,
    },
    /// This node learned that a node is dead, with its ranks.
    NodeDead {
        /// The node.
        peer: NodeId,
        /// The reason, in one word.
        reason: String,
        /// The node that declared it.
        by: NodeId,
        /// The node whose suspicion led to it.
        suspector: Option<NodeId>,
        /// The ranks that died with it.
        ranks: Vec<u32>,
        /// Which replicas these were, as far as this node knows.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replicas: Vec<ReplicaOf>,
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
    /// The ranks of this node are stopped, because it has no contact with node 0.
    Held,
    /// They are continued.
    #[default]
    Released,
    /// A rank of this node has reported deaths to MPI, which raises them as errors.
    Raised {
        /// The rank that reported them.
        rank: u32,
        /// The dead ranks that are new to it.
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
    /// A process of this node has taken the place of a rank that is dead (message logging).
    Replaced {
        /// The rank.
        rank: u32,
        /// The number of the spare that it was, from 1.
        spare: u32,
        /// Its process number.
        pid: i32,
    },
    /// It has repeated what the processes before it had done.
    Repeated {
        /// The rank.
        rank: u32,
        /// How many events that were.
        events: u64,
        /// How long that took, in microseconds.
        us: u64,
    },
    /// Processes have made a group of recommended processes.
    Grouped {
        /// The first of them: the name of the group.
        group: u32,
        /// Their number.
        processes: u32,
    },
    /// A rank of this node has decided that a process leaves its group.
    Evicted {
        /// The first process of the group.
        group: u32,
        /// The process that leaves.
        rank: u32,
        /// The rank that has decided it.
        by: u32,
        /// How often the process has left or come back.
        counter: u32,
        /// The outcome of the test that it has failed; none if it is dead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<Verdict>,
        /// The time of its answer in microseconds; none if there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_us: Option<u64>,
        /// The threshold of the test in microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threshold_us: Option<u64>,
    },
    /// A rank of this node, the leader of its group, has decided that a process comes back.
    Returned {
        /// The first process of the group.
        group: u32,
        /// The process that comes back.
        rank: u32,
        /// The rank that has decided it.
        by: u32,
        /// How often the process has left or come back.
        counter: u32,
    },
    /// A process of this node is a replica (replication).
    Replica {
        /// Its number in the job.
        rank: u32,
        /// Which one.
        replica: ReplicaOf,
    },
    /// A replica of this node has found that replicas differ.
    Finding {
        /// Its number in the job.
        rank: u32,
        /// Which one it is.
        replica: ReplicaOf,
        /// `corrupt`, `tainted`, `undecided`, `diverged` or `output`.
        kind: String,
        /// What it has found.
        sentence: String,
        /// How many findings it has had.
        count: u32,
    },
    /// This `ringwatchd` did not run in time, and ignores its timers for a while.
    Late {
        /// The delay, in microseconds.
        us: u64,
    },
    /// Earlier records of this node are missing: they were too many to be sent to node 0 in time, or were removed from
    /// its memory.
    Omitted {
        /// Their number.
        records: u64,
    },
    /// Written at the end: a part of the distribution of a time measured on this node.
    Measured {
        /// The kind of time.
        what: Measure,
        /// Times in microseconds, ascending, with their frequencies.
        counts: Vec<(u64, u64)>,
    },
    /// Written at the end, after all measurements.
    Farewell {
        /// The job's heartbeat period in microseconds.
        period_us: u64,
        /// Number of heartbeats from this node's emitter.
        heard: u64,
        /// Heartbeats for it that were sent as datagrams and got lost.
        lost: u64,
    },
    /// The job is over on this node.
    Ended {
        /// One sentence.
        why: String,
    },
}

impl Event {
    /// The nodes in this event.
    fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Watching { emitter, observer } => emitter.iter().chain(observer).copied().collect(),
            Self::ConnectionLost { peer }
            | Self::Suspected { peer, .. }
            | Self::Asked { peer }
            | Self::Spared { peer } => {
                vec![*peer]
            }
            Self::RankDead { on, by, .. } => vec![*on, *by],
            Self::NodeDead { peer, by, suspector, .. } => [*peer, *by].into_iter().chain(*suspector).collect(),
            _ => Vec::new(),
        }
    }
}

/// The kind of time in [`Event::Measured`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Times between two heartbeats of the emitter.
    Silence,
    /// Delay of `ringwatchd` after its timer's deadline.
    Lateness,
}

/// Version of the records: raised when a field goes or means something else, and not when one is added.
pub const VERSION: u32 = 1;

/// A line of a history. [docs/json.md](../../../docs/json.md) has the fields for users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// Time in UTC.
    pub time: String,
    /// Time on the axis, in microseconds.
    pub at_us: u64,
    /// The node whose monotonic clock defines the axis.
    pub clock: NodeId,
    /// The job's PMIx namespace.
    pub job: String,
    /// Process number of mpirun.
    pub mpirun_pid: u32,
    /// Number of the job of Slurm in which mpirun runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_job: Option<String>,
    /// The user of the job, where a tool has asked daemons of other users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// The node of the event.
    pub node: NodeId,
    /// The name of its host.
    pub host: String,
    /// Hosts of other nodes in the event, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<NodeId, String>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The part of the history that one node has.
pub struct History {
    job: String,
    origin: Origin,
    hosts: Hosts,
    me: NodeId,
    lines: Vec<u8>,
    /// Number of bytes of lines that were removed from memory.
    gone: u64,
    sink: Option<Sink>,
    /// Records that did not fit into the sink.
    unwritten: u64,
}

impl History {
    /// An empty history of node `me` in a job, which is also written into `sink`.
    #[must_use]
    pub fn new(launch: &LaunchData, me: NodeId, sink: Option<Sink>) -> Self {
        let (job, origin, hosts) = (launch.nspace.clone(), launch.origin.clone(), launch.hosts.clone());
        Self { job, origin, hosts, me, lines: Vec::new(), gone: 0, sink, unwritten: 0 }
    }

    fn hosts_in(&self, event: &Event) -> BTreeMap<NodeId, String> {
        let named = |node| Some((node, self.hosts.get(node)?.to_owned()));
        event.nodes().into_iter().filter_map(named).collect()
    }

    /// Adds an event at `at` on this node's monotonic clock. Lines that were removed from memory are only in the sink.
    pub fn add(&mut self, node: NodeId, host: &str, at: Time, event: Event) {
        let (now, wall) = (clock::now(), SystemTime::now());
        // A clock difference that includes a message's transit time may place a moment in the future.
        let moment = wall - now.saturating_sub(at) + at.saturating_sub(now);
        let record = Record {
            version: VERSION,
            time: clock::utc(moment),
            at_us: micros(at),
            clock: self.me,
            job: self.job.clone(),
            mpirun_pid: self.origin.mpirun_pid,
            slurm_job: self.origin.slurm_job.clone(),
            user: None,
            node,
            host: host.to_owned(),
            hosts: self.hosts_in(&event),
            event,
        };
        let Some(line) = line_of(&record) else { return };
        if self.lines.len() + line.len() > MOST_BYTES {
            self.forget();
        }
        self.lines.extend_from_slice(&line);
        // A file is not bounded by this process's memory.
        let Some(sink) = &self.sink else { return };
        if self.unwritten > 0 {
            let omission = Record { node: self.me, event: Event::Omitted { records: self.unwritten }, ..record };
            if line_of(&omission).is_some_and(|line| sink.write(line)) {
                self.unwritten = 0;
            }
        }
        // The omission is written in front of it.
        if self.unwritten > 0 || !sink.write(line) {
            self.unwritten += 1;
        }
    }

    /// Makes room: removes the oldest eighth, and adds a line with the number of those records. The amount is so small
    /// that no heartbeat is delayed.
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

    /// The lines in memory, in the order of their arrival here.
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

/// The part of a history in memory.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    /// Number of bytes of removed lines before these.
    pub gone: u64,
    /// Whole lines.
    pub bytes: &'a [u8],
}

/// A time in microseconds.
#[must_use]
pub fn micros(time: Time) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A time for messages: three digits and a unit.
#[must_use]
pub fn span(micros: u64) -> String {
    let time = Duration::from_micros(micros);
    match time.as_secs() {
        0 if micros < 1000 => format!("{micros} us"),
        0 if micros < 10_000 && micros % 1000 != 0 => format!("{:.2} ms", time.as_secs_f64() * 1e3),
        0 => format!("{} ms", micros / 1000),
        1..=9 if micros % 1_000_000 != 0 => format!("{:.2} s", time.as_secs_f64()),
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Parses lines of histories, in the order of the axis. [Repeated](repeats) records are returned once, and malformed
/// lines are skipped. Returns their number.
#[must_use]
pub fn read(text: &str) -> (Vec<Record>, usize) {
    let parsed = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str::<Record>);
    let (mut records, mut strange, mut repeats) = (Vec::new(), 0, Repeats::default());
    for record in parsed {
        match record {
            Ok(record) if record.version != VERSION => strange += 1,
            Ok(record) if repeats.is_news(&record) => records.push(record),
            Ok(_) => {}
            Err(_) => strange += 1,
        }
    }
    sort(&mut records);
    (records, strange)
}

/// Sorts records by time: on the axis if they share one, otherwise by wall clock.
pub fn sort(records: &mut [Record]) {
    let shares_axis = records.windows(2).all(|pair| (&pair[0].job, pair[0].clock) == (&pair[1].job, pair[1].clock));
    if shares_axis {
        records.sort_by_key(|record| record.at_us);
    } else {
        records.sort_by(|a, b| (&a.job, &a.time).cmp(&(&b.job, &b.time)));
    }
}

/// The difference between two moments on one axis.
#[must_use]
pub fn between(earlier: &Record, later: &Record) -> Duration {
    Duration::from_micros(later.at_us.saturating_sub(earlier.at_us))
}

#[cfg(test)]
mod tests {
    use node_abi::testing::launch;

    use super::*;

    #[test]
    fn spans_have_fitting_units() {
        let shown: Vec<_> = [0, 999, 1000, 1500, 55_555, 1_000_000, 1_230_000, 61_000_000, 600_000_000, 7_200_000_000]
            .map(span)
            .to_vec();
        assert_eq!(shown, ["0 us", "999 us", "1 ms", "1.50 ms", "55 ms", "1 s", "1.23 s", "61 s", "10 min", "2 h"]);
    }

    #[test]
    fn a_line_has_who_when_and_what_in_one_level() {
        let mut history = History::new(&launch(), 3, None);
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
        let mut history = History::new(&launch(), 0, None);
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
        let mut history = History::new(&launch(), 0, None);
        let mut sent = 0;
        for rank in 0..200 {
            history.add(0, "h1", Time::ZERO, Event::Observed { rank, reason: "x".repeat(MOST_BYTES / 50) });
            let Lines { gone, bytes } = history.lines();
            // A reader that has all lines so far finds the new line after them.
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
