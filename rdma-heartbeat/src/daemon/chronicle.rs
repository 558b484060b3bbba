//! Records events of this daemon for the history, and sends them to node 0.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use node_abi::greeting::ToolKey;
use node_abi::launch::{LAST_JOBS, LaunchData, Startup};
use node_abi::segment::{Entry, RaisedError, Segment};
use platform::clock;
use platform::sink::{Sink, expand};
use propagation::{Message, NodeId, Time};
use tracing::warn;

use super::replicas::Replicas;
use super::{Daemon, Ending};
use crate::history::changes::{Account, Changes};
use crate::history::courier::{Collector, Reporter, Told};
use crate::history::feed::Feed;
use crate::history::{Event, History, Lines, Measure, archive, micros};

/// Minimum time between two messages with the same records.
const RESEND: Duration = Duration::from_millis(20);
/// How long node 0 waits at the end of a job with failures for the last records of the others.
const SETTLE: Duration = Duration::from_millis(20);
/// How long every node stays at the end of a job with a history, if its measurements do not get through.
const PARTING: Duration = Duration::from_secs(1);
/// Maximum age of a moment that a daemon reports anew after it has replaced another one.
const LATE_NEWS: Duration = Duration::from_secs(10);
/// Maximum number of times in one record of a distribution, so that it fits into a frame.
const TIMES: usize = 48;

/// The state of the history.
pub(super) struct Chronicle {
    history: History,
    host: String,
    me: NodeId,
    /// At every node except 0.
    reporter: Option<Reporter>,
    collector: Collector,
    pub(super) feed: Option<Feed>,
    pub(super) replicas: Replicas,
    /// The node that this node suspects.
    suspect: Option<NodeId>,
    /// Pending questions: the receiver, and the time of the last one. Each is one event.
    asked: BTreeMap<NodeId, Time>,
    timeout: Duration,
    /// Ranks that are being killed.
    fenced: BTreeSet<u32>,
    /// Incarnation of node 0's daemon that has received the records.
    life_of_node_0: u32,
    /// When this daemon replaced another one.
    took_over: Option<Time>,
    /// By slot: number of log entries that the rank has reported to MPI.
    raised: Vec<u32>,
    /// By slot: number of MPI errors that the rank has noted.
    errors: Vec<u32>,
    /// Whether the user asked for the history in a file, so that measurements are recorded.
    kept: bool,
    /// At node 0: nodes whose measurements are complete.
    parted: BTreeSet<NodeId>,
    /// At node 0: changes of groups, as ranks of all nodes have told them.
    changes: Changes,
}

/// What the file of a job is named by: host and process number of mpirun are in the namespace.
fn title(launch: &LaunchData) -> String {
    let slurm = launch.origin.slurm_job.as_ref().map(|number| format!(".slurm{number}"));
    launch.nspace.clone() + &slurm.unwrap_or_default()
}

impl Chronicle {
    pub(super) fn new(startup: &Startup, host: &str) -> Self {
        let (launch, me) = (&startup.launch, startup.me);
        let pattern = launch.parameters.events.as_str();
        let is_path = !pattern.is_empty() && pattern != LAST_JOBS;
        let sink = match pattern {
            _ if me != 0 => None,
            LAST_JOBS => archive::folder().and_then(|folder| archive::sink(&folder, &title(launch), launch.job).ok()),
            _ if is_path => {
                let path = expand(pattern, launch.places(host, me));
                Sink::open(Path::new(&path)).map_err(|error| warn!(%error, path, "the history is not written")).ok()
            }
            _ => None,
        };
        let resend = launch.parameters.period.max(RESEND);
        Self {
            history: History::new(launch, me, sink),
            host: host.to_owned(),
            me,
            reporter: (me != 0).then(|| Reporter::new(startup.incarnation, resend)),
            collector: Collector::default(),
            feed: Feed::new(&launch.nspace, me, ToolKey::of(&launch.key), startup.tools)
                .map_err(|error| warn!(%error, "ringwatch events will not find this daemon"))
                .ok(),
            replicas: Replicas::default(),
            suspect: None,
            asked: BTreeMap::new(),
            fenced: BTreeSet::new(),
            timeout: launch.parameters.timeout,
            life_of_node_0: 0,
            took_over: (startup.incarnation > 0).then(clock::now),
            raised: Vec::new(),
            errors: Vec::new(),
            kept: is_path,
            parted: BTreeSet::new(),
            changes: Changes::default(),
        }
    }

    /// Records an event of this node.
    pub(super) fn note(&mut self, at: Time, event: Event) {
        if self.me == 0 {
            let account = Account { from: self.me, host: self.host.clone(), at, event };
            for Account { from, host, at, event } in self.changes.judge(account) {
                self.replicas.learn(&event);
                self.history.add(from, &host, at, event);
            }
            return;
        }
        self.replicas.learn(&event);
        if let Some(reporter) = &mut self.reporter {
            reporter.add(&Told { at_us: micros(at), host: self.host.clone(), event: event.clone() });
        }
        self.note_here(at, event);
    }

    /// The same, but only for queries of this node.
    pub(super) fn note_here(&mut self, at: Time, event: Event) {
        self.history.add(self.me, &self.host, at, event);
    }

    /// Records that a rank of this node was killed. A repeated kill is no new event.
    pub(super) fn note_fenced(&mut self, at: Time, rank: u32) {
        if self.fenced.insert(rank) {
            self.note(at, Event::Fenced { rank });
        }
    }

    /// Records the node that this node begins to suspect, and the time of its last heartbeat.
    pub(super) fn note_suspect(&mut self, at: Time, suspect: Option<NodeId>, heard: Option<Time>) {
        let before = std::mem::replace(&mut self.suspect, suspect);
        if let Some(peer) = suspect.filter(|_| suspect != before) {
            self.note(at, Event::Suspected { peer, silent_us: heard.map(|heard| micros(at.saturating_sub(heard))) });
        }
    }

    /// Records node 0's first question to a suspect, when its member sends it.
    pub(super) fn note_question(&mut self, at: Time, to: NodeId, message: &Message) {
        if !matches!(message, Message::Probe) || self.me != 0 {
            return;
        }
        let before = self.asked.insert(to, at);
        if before.is_none_or(|before| at > before + self.timeout / 2) {
            self.note(at, Event::Asked { peer: to });
        }
    }

    /// Records errors of this node's ranks since the last call.
    fn look(&mut self, now: Time, segment: &Segment) {
        self.raised.resize(segment.slots() as usize, 0);
        self.errors.resize(segment.slots() as usize, 0);
        for slot in 0..segment.slots() {
            let (count, at) = segment.raised(slot, now);
            let known = std::mem::replace(&mut self.raised[slot as usize], count);
            let dead: Vec<u32> = (known..count)
                .filter_map(|index| match segment.entry(index) {
                    Some(Entry::Rank(rank)) => Some(rank),
                    _ => None,
                })
                .collect();
            if !dead.is_empty() && !self.was_told(at, now) {
                self.note(at, Event::Raised { rank: segment.rank(slot), dead });
            }
            if let Some(error) = segment.error_after(slot, self.errors[slot as usize], now) {
                let RaisedError { count, at, class, function } = error;
                self.errors[slot as usize] = count;
                if self.was_told(at, now) {
                    continue;
                }
                self.note(at, Event::Error { rank: segment.rank(slot), class, function });
            }
        }
    }

    /// Whether the previous daemon reported such a moment long ago.
    fn was_told(&self, at: Time, now: Time) -> bool {
        // A moment more than half an hour ago appears to be in the future.
        self.took_over.is_some_and(|began| at + LATE_NEWS < began || at > now + LATE_NEWS)
    }

    /// Handles a message about records; returns the answer to its sender.
    pub(super) fn take(&mut self, now: Time, from: NodeId, message: &Message) -> Option<Message> {
        match message {
            Message::Records { incarnation, first, sent_us, lines } if self.me == 0 => {
                let Self { collector, history, parted, changes, replicas, .. } = self;
                let numbers = (*incarnation, *first, *sent_us);
                let add = |at, told: Told| {
                    if matches!(told.event, Event::Farewell { .. }) {
                        parted.insert(from);
                    }
                    let account = Account { from, host: told.host, at, event: told.event };
                    for Account { from, host, at, event } in changes.judge(account) {
                        replicas.learn(&event);
                        history.add(from, &host, at, event);
                    }
                };
                Some(collector.take(from, now, numbers, lines, add))
            }
            Message::RecordsHeard { incarnation, count } if from == 0 => {
                if let Some(reporter) = self.reporter.as_mut().filter(|reporter| reporter.is_life(*incarnation)) {
                    reporter.heard(*count);
                }
                None
            }
            _ => None,
        }
    }

    pub(super) fn lines(&self) -> Lines<'_> {
        self.history.lines()
    }

    fn serve(&mut self, now: Time) {
        if let Some(feed) = &mut self.feed {
            feed.serve(now, self.history.lines());
        }
    }

    pub(super) fn deadline(&self, now: Time, is_ring: bool) -> Time {
        let busy = self.feed.as_ref().is_some_and(|feed| feed.is_busy(self.history.lines()));
        let callers =
            if busy { now + Duration::from_millis(1) } else { self.feed.as_ref().map_or(Time::MAX, Feed::deadline) };
        // Nothing is sent before there is a ring.
        self.reporter.as_ref().filter(|_| is_ring).map_or(Time::MAX, Reporter::deadline).min(callers)
    }
}

impl Daemon {
    /// Does all work that is due; costs nothing before the first death.
    pub(super) fn continue_chronicle(&mut self, now: Time) {
        self.continue_replicas(now);
        if !self.segment.is_empty() {
            self.chronicle.look(now, &self.segment);
        }
        if let Some(reporter) = self.chronicle.reporter.as_mut().filter(|_| self.link.is_ring()) {
            let life = self.network.as_ref().map_or(0, |network| network.life_of(0));
            if std::mem::replace(&mut self.chronicle.life_of_node_0, life) != life {
                reporter.begin_again();
            }
            let mut messages = Vec::new();
            reporter.tick(now, |message| messages.push(message));
            messages.iter().for_each(|message| self.send(0, message));
        }
        self.chronicle.serve(now);
    }

    /// How much longer this node stays at the end of the job for records in transit.
    pub(super) fn time_to_settle(&self) -> Duration {
        let failed = !self.job.graves().is_empty() && self.network.is_some();
        match () {
            () if self.chronicle.kept && self.link.is_ring() => PARTING,
            () if self.startup.me == 0 && failed => SETTLE,
            () => Duration::ZERO,
        }
    }

    /// Whether that time is over, or everything has arrived.
    pub(super) fn has_settled(&self, ending: &Ending, now: Time) -> bool {
        let has_parted = |node| self.chronicle.parted.contains(&node) || self.job.dead_nodes().any(|dead| dead == node);
        let complete = match &self.chronicle.reporter {
            Some(reporter) => reporter.has_arrived(),
            None => (1..self.startup.launch.universe).all(has_parted),
        };
        now >= ending.settled_at || (self.chronicle.kept && complete)
    }

    /// Records measurements in a history that is kept.
    pub(super) fn say_farewell(&mut self, now: Time) {
        if !self.chronicle.kept || !self.link.is_ring() {
            return;
        }
        let (silences, lateness) = (self.regularity.silences(), self.regularity.lateness());
        for (what, distribution) in [(Measure::Silence, silences), (Measure::Lateness, lateness)] {
            let pairs: Vec<_> = distribution.pairs().collect();
            for counts in pairs.chunks(TIMES) {
                self.chronicle.note(now, Event::Measured { what, counts: counts.to_vec() });
            }
        }
        let period_us = micros(self.startup.launch.parameters.period);
        let (heard, lost) = (silences.count(), self.regularity.lost());
        self.chronicle.note(now, Event::Farewell { period_us, heard, lost });
    }
}
