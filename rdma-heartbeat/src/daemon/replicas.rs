//! Which process is which replica, and what replicas have found, as ranks note it in the segment.

use std::collections::BTreeMap;

use node_abi::launch::FromDaemon;
use node_abi::segment::Segment;
use node_abi::segment::replicas::{Finding, ReplicaOf};
use propagation::Time;

use super::Daemon;
use crate::history::Event;

/// What this node knows of replicas.
#[derive(Default)]
pub(super) struct Replicas {
    /// The news of the segment that were read.
    news: u32,
    /// By process: those of this node; at node 0 all of the job.
    known: BTreeMap<u32, ReplicaOf>,
    /// By process: how many findings were read.
    findings: BTreeMap<u32, u32>,
    /// What the plugin has not been told.
    untold: Vec<(u32, ReplicaOf)>,
}

impl Replicas {
    /// Which replica a process is, as far as this node knows.
    pub(super) fn of(&self, rank: u32) -> Option<ReplicaOf> {
        self.known.get(&rank).copied()
    }

    /// Learns from an event, of this node or another one.
    pub(super) fn learn(&mut self, event: &Event) {
        let Event::Replica { rank, replica } = event else { return };
        if self.known.insert(*rank, *replica) != Some(*replica) {
            self.untold.push((*rank, *replica));
        }
    }

    /// What ranks of this node have noted since the last call.
    fn look(&mut self, now: Time, segment: &Segment) -> Vec<(Time, Event)> {
        let news = segment.news_of_replicas();
        if std::mem::replace(&mut self.news, news) == news {
            return Vec::new();
        }
        let mut events = Vec::new();
        for slot in 0..segment.slots() {
            let (rank, Some(replica)) = (segment.rank(slot), segment.replica(slot)) else { continue };
            if self.of(rank) != Some(replica) {
                events.push((now, Event::Replica { rank, replica }));
            }
            let known = self.findings.entry(rank).or_default();
            if let Some(Finding { count, at, kind, sentence }) = segment.finding_after(slot, *known, now) {
                *known = count;
                events.push((at, Event::Finding { rank, replica, kind, sentence, count }));
            }
        }
        events
    }
}

impl Daemon {
    /// Records what ranks have noted. The node of `mpirun` tells its plugin, whose sentences name replicas.
    pub(super) fn continue_replicas(&mut self, now: Time) {
        for (at, event) in self.chronicle.replicas.look(now, &self.segment) {
            self.chronicle.note(at, event);
        }
        let untold = std::mem::take(&mut self.chronicle.replicas.untold);
        if self.startup.me == 0 && !untold.is_empty() {
            self.control.send(&FromDaemon::Replicas(untold));
        }
    }
}
