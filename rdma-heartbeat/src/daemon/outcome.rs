//! Carries out outcomes of inputs: facts, the end of the job, the end of this node.

use std::time::Duration;

use node_abi::launch::{End, FromDaemon, Known};
use node_abi::losses::{node_reason, rank_reason};
use node_abi::segment::{Entry, FLAG_ENDED, FLAG_HELD};
use platform::say::say;
use propagation::{Action, EndReason, Fact, Message, StopReason, Subject, Time};
use tracing::{error, info, warn};

use super::{Daemon, Ending, Link};
use crate::history::Event;
use crate::process::logging;

/// How long the plugin may take to end its runtime daemon in order, before that is killed.
const ORDERLY: Duration = Duration::from_millis(50);
/// How long a stopped runtime daemon is tolerated after an end in order.
const LAST_WAIT: Duration = Duration::from_secs(2);

impl Daemon {
    /// Carries out the member's actions.
    pub(super) fn perform(&mut self, now: Time) {
        if let Link::Ring(member) = &self.link {
            self.chronicle.note_suspect(now, member.suspect(), member.last_heartbeat());
        }
        // An action may lead to further ones. The buffer is kept for the next call.
        while !self.actions.is_empty() {
            let mut batch = std::mem::take(&mut self.actions);
            for action in batch.drain(..) {
                match action {
                    Action::Send { to, message: Message::Heartbeat { .. } } if self.flags.raise(to) => {}
                    Action::Send { to, message } => {
                        // Other questions go to nodes that nobody suspects.
                        if matches!(&self.link, Link::Ring(member) if member.tries(to)) {
                            self.chronicle.note_question(now, to, &message);
                        }
                        if let Some(network) = &mut self.network {
                            network.post(to, message);
                        }
                    }
                    Action::Deliver(fact) => self.deliver(&fact, now),
                    Action::Stop(reason) => self.stop(reason, now),
                    // The ranks would never be released, or must not be stopped.
                    Action::Hold if self.ending.is_some() || !self.fence_is_on() => {}
                    Action::Hold => {
                        warn!("no contact with the node of mpirun; the ranks of this node wait");
                        self.chronicle.note(now, Event::Held);
                        self.segment.set_flags(FLAG_HELD);
                        self.runtime.hold();
                        self.watch.hold(&self.segment);
                    }
                    Action::Release if self.segment.flags() & FLAG_HELD == 0 => {}
                    Action::Release => {
                        info!("contact again; the ranks of this node go on");
                        self.chronicle.note(now, Event::Released);
                        self.segment.clear_flags(FLAG_HELD);
                        self.watch.release(now, &self.segment);
                        self.runtime.release();
                    }
                    Action::NodeReady(node) => {
                        if self.job.node_ready(node) {
                            self.record(Entry::Ready(node));
                        }
                    }
                }
            }
            if self.actions.is_empty() {
                self.actions = batch;
            }
        }
    }

    pub(super) fn deliver(&mut self, fact: &Fact, now: Time) {
        let Some(news) = self.job.learn(fact, now) else { return };
        // First, so that the record is correct before other processes learn of it.
        for rank in &news.ranks {
            if self.job.node_of(*rank) == Some(self.startup.me) {
                self.fence(*rank, now);
            }
        }
        self.control.send(&FromDaemon::Learned(Known { fact: *fact, at: now }));
        self.tell_of_ranks(news.ranks.clone(), news.why);
        if let Some(node) = news.node {
            self.record(Entry::Node(node));
            if let Some(loggers) = &mut self.loggers {
                loggers.node_is_dead(node);
            }
        }
        match fact.subject {
            Subject::Node { node, reason } => {
                let suspector = fact.suspector;
                self.control.send(&FromDaemon::NodeDead { node, reason, suspector, at: now });
                let suspector = suspector.map_or_else(|| "none".into(), |node| node.to_string());
                let (reason, source, ranks) = (node_reason(reason), fact.source, news.ranks.len());
                let replicas = news.ranks.iter().filter_map(|rank| self.chronicle.replicas.of(*rank)).collect();
                self.chronicle.note(
                    now,
                    Event::NodeDead {
                        peer: node,
                        reason: reason.into(),
                        by: source,
                        suspector: fact.suspector,
                        ranks: news.ranks,
                        replicas,
                    },
                );
                info!(node, reason = %reason, suspector = %suspector, source, ranks, "declared");
            }
            Subject::Rank { rank, reason, .. } => {
                let (node, reason, source) = (self.job.node_of(rank), rank_reason(reason), fact.source);
                let (by, on) = (source, node.unwrap_or(source));
                let replica = self.chronicle.replicas.of(rank);
                self.chronicle.note(now, Event::RankDead { rank, replica, on, reason: reason.clone(), by });
                info!(rank, node = node.unwrap_or(fact.source), reason = %reason, source, "declared");
            }
            Subject::End { .. } | Subject::Doubt | Subject::Grown => {}
        }
    }

    /// Reports deaths of other ranks to the ranks of this node.
    pub(super) fn tell_of_ranks(&mut self, ranks: Vec<u32>, why: String) {
        for rank in &ranks {
            self.record(Entry::Rank(*rank));
        }
        if !ranks.is_empty() {
            self.control.send(&FromDaemon::RanksDead { ranks, why });
        }
    }

    /// Writes the log, for the ranks, and for a daemon that replaces this one.
    fn record(&self, entry: Entry) {
        if !self.segment.append(entry) {
            error!(?entry, "the failure log of this node is full");
        }
    }

    /// Ends this node's part in the job.
    pub(super) fn stop(&mut self, reason: StopReason, now: Time) {
        if self.ending.is_some() {
            return;
        }
        let me = self.startup.me;
        let fate = if self.fence_is_on() { "its ranks are ended" } else { "fencing is switched off: kill its ranks" };
        let (end, sentence) = match reason {
            StopReason::Ended(EndReason::Finished) => {
                info!("the job has finished");
                if me == 0 {
                    self.chronicle.note(now, Event::Ended { why: "the job has finished".into() });
                }
                // The plugin may not have learned it from the runtime.
                self.control
                    .send(&FromDaemon::End { reason: End::Announced(EndReason::Finished), sentence: String::new() });
                self.leave(now);
                return;
            }
            StopReason::Left => {
                info!("this node has left the job");
                self.leave(now);
                return;
            }
            StopReason::Ended(reason) => {
                let default = || format!("{reason}; the ranks of node {me} ({}) are ended", self.host);
                (End::Announced(reason), self.sentence.clone().unwrap_or_else(default))
            }
            StopReason::CutOff => {
                (End::CutOff, format!("node {me} ({}) has lost contact with the node of mpirun; {fate}", self.host))
            }
            StopReason::DeclaredDead => {
                (End::DeclaredDead, format!("node {me} ({}) has been declared dead by the others; {fate}", self.host))
            }
        };
        // First: the runtime may see all ranks end, and end itself, before the plugin has read the reason.
        self.segment.set_flags(FLAG_ENDED);
        self.fence_all(now);
        // No rank is left that could continue, and it must receive prterun's order.
        self.runtime.release();
        // The plugin, or this process, is about to tell the user the same.
        if me == 0 && !logging::has_file() {
            info!("{sentence}");
        } else {
            error!("{sentence}");
        }
        self.chronicle.note(now, Event::Ended { why: sentence.clone() });
        if me == 0 && end == End::Announced(EndReason::LauncherLost) {
            // The plugin has ended with prterun, so this process tells the user.
            say(&format!("ringwatch: {sentence}"));
        }
        self.control.send(&FromDaemon::End { reason: end, sentence });
        let kills = self.fence_is_on();
        self.say_farewell(now);
        self.continue_chronicle(now);
        self.ending = Some(Ending {
            exit_by: now + self.patience(),
            settled_at: now + self.time_to_settle(),
            // prterun ends itself: the plugin must report why to the user.
            runtime_ends_by: (kills && me != 0).then(|| now + ORDERLY),
            // The other nodes end it, unless they cannot reach it.
            kills_runtime: matches!(end, End::CutOff | End::DeclaredDead),
            fences: kills,
        });
    }

    /// Kills a rank of this node that was declared dead.
    pub(super) fn fence(&mut self, rank: u32, now: Time) {
        if self.watch.fence(rank, &self.segment) {
            self.chronicle.note_fenced(now, rank);
        }
    }

    /// Kills all ranks of this node.
    pub(super) fn fence_all(&mut self, now: Time) {
        for rank in self.watch.fence_all() {
            self.chronicle.note_fenced(now, rank);
        }
    }

    /// Kills the runtime daemon of this node.
    pub(super) fn fence_runtime(&mut self, now: Time) {
        if self.runtime.kill() {
            self.chronicle.note(now, Event::RuntimeFenced { pid: self.runtime.pid() });
        }
    }

    /// Ends this daemon without ending other processes.
    pub(super) fn leave(&mut self, now: Time) {
        self.segment.clear_flags(FLAG_HELD);
        self.watch.release(now, &self.segment);
        self.runtime.release();
        if self.ending.is_none() {
            if self.startup.me != 0 {
                // The successor need not wait for a ringwatchd in its place.
                self.chronicle.note_here(now, Event::Ended { why: "this node has left the job".into() });
            }
            self.say_farewell(now);
        }
        self.continue_chronicle(now);
        let settled_at = now + self.time_to_settle();
        let exit_by = now + self.startup.launch.parameters.timeout * 2;
        let fences = self.fence_is_on();
        self.ending.get_or_insert(Ending {
            exit_by,
            settled_at,
            // After the job no process would continue a stopped one, or find it.
            runtime_ends_by: (fences && self.startup.me != 0).then_some(exit_by.min(now + LAST_WAIT)),
            kills_runtime: false,
            fences: false,
        });
    }

    /// Time limit for other nodes, and the plugin, to receive the last messages of this node.
    fn patience(&self) -> Duration {
        self.startup.launch.parameters.timeout * 2 + ORDERLY * 2
    }
}
