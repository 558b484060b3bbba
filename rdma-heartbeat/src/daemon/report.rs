//! Builds the status report of this daemon.

use node_abi::losses::{node_reason, rank_reason};
use node_abi::segment::Entry;
use propagation::{NodeId, Subject, Time};

use super::{Daemon, Link};
use crate::detector::job::Grave;
use crate::history::micros;
use crate::logger::service::Loggers;
use crate::offload::View;
use crate::report::status::{Dead, GroupView, LocalRank, MOST_DEAD, Report, VERSION};
use crate::session::network::{Counters, REJECTED_KINDS};

impl Daemon {
    pub(super) fn take_questions(&mut self, now: Time) {
        if let Some(mut server) = self.status.take() {
            server.accept(now, &self.poller, || self.report(now));
            self.status = Some(server);
        }
    }

    pub(super) fn go_on_with_questions(&mut self, now: Time) {
        if let Some(mut server) = self.status.take() {
            server.serve(now, &self.poller, || self.report(now));
            self.status = Some(server);
        }
        if let Some(feed) = &mut self.chronicle.feed {
            feed.go_on(now, &self.poller);
        }
    }

    pub(super) fn take_callers(&mut self, now: Time) {
        if let Some(mut feed) = self.chronicle.feed.take() {
            feed.accept(now, &self.poller, self.chronicle.lines());
            self.chronicle.feed = Some(feed);
        }
    }

    fn report(&self, now: Time) -> Report {
        let launch = &self.startup.launch;
        let view = match &self.link {
            Link::Ring(member) => View::of(member, &self.flags, now),
            Link::Offloaded(host) => host.view().clone(),
            Link::Meeting(_) => View::default(),
        };
        let stage = match (&self.ending, self.link.is_ring()) {
            (Some(_), _) => "ending",
            (None, true) => "watching",
            (None, false) => "meeting",
        };
        let host = if let Link::Offloaded(host) = &self.link { Some(host) } else { None };
        let counters = self.network.as_ref().map_or_else(Counters::default, |network| *network.counters());
        let flags = host.map_or_else(|| self.flags.counters(), |host| host.counters());
        let host_of = |node| launch.hosts.get(node).map(ToOwned::to_owned);
        let named = |name: &str, value| (name.to_owned(), value);
        Report {
            version: VERSION,
            release: node_abi::versions::RELEASE.into(),
            job: launch.nspace.clone(),
            user: nix::unistd::getuid().as_raw(),
            mpirun_pid: launch.origin.mpirun_pid,
            slurm_job: launch.origin.slurm_job.clone(),
            host: self.host.clone(),
            node: self.startup.me,
            universe: launch.universe,
            ranks_total: launch.rank_nodes.len()
                + self.startup.spawned.iter().map(|job| job.rank_nodes.len()).sum::<usize>(),
            incarnation: self.startup.incarnation,
            pid: std::process::id(),
            runtime_pid: self.runtime.pid(),
            stage: stage.into(),
            transport: match (&self.network, host) {
                (Some(network), _) => network.name().into(),
                (None, Some(_)) => "offload".into(),
                (None, None) => "none".into(),
            },
            ring_order: launch.parameters.ring_order.clone(),
            ring: launch.ring.clone(),
            hosts: launch.hosts.clone(),
            strategy: launch.parameters.strategy.name().into(),
            period_us: micros(launch.parameters.period),
            timeout_us: micros(launch.parameters.timeout),
            emitter_means: view.emitter_means,
            observer_means: view.observer_means,
            emitter: view.emitter,
            observer: view.observer,
            emitter_host: view.emitter.and_then(host_of),
            observer_host: view.observer.and_then(host_of),
            offload: host.map(|host| host.server().into()),
            offload_means: host.and_then(|host| host.means()).map(Into::into),
            last_heartbeat_us: view.last_heartbeat_us,
            all_ready: self.segment.flags() & node_abi::segment::FLAG_ALL_READY != 0,
            dead: self.job.graves().iter().take(MOST_DEAD).map(|grave| self.describe(grave, now)).collect(),
            dead_total: self.job.graves().len(),
            counters: [
                named("heartbeats sent", counters.heartbeats_sent),
                named("heartbeats received", counters.heartbeats_received),
                named("messages sent", counters.sent),
                named("messages received", counters.received),
                named("flags raised", flags.raised),
                named("flags seen", flags.seen),
                named("flags overtaken", flags.overtaken),
                named("flags refused", flags.refused),
                named("allocations", crate::process::allocations::count()),
            ]
            .into(),
            rejected: REJECTED_KINDS.iter().zip(counters.rejected).map(|(kind, count)| named(kind, count)).collect(),
            lacks: self.refused.iter().map(|right| right.text().into()).collect(),
            ranks: (0..self.segment.slots()).map(|slot| self.describe_rank(slot)).collect(),
            loggers: self.loggers.iter().flat_map(Loggers::holdings).collect(),
            sender_logs: self.loggers.iter().flat_map(Loggers::sender_logs).collect(),
            replacements: self.loggers.iter().flat_map(Loggers::replacements).collect(),
            groups: self.views_of_groups(now),
        }
    }

    /// How the living ranks of this node see their groups.
    fn views_of_groups(&self, now: Time) -> Vec<GroupView> {
        let views = self.groups.iter().flat_map(|groups| groups.views(now));
        views.filter(|view| !self.job.is_dead(view.rank)).collect()
    }

    fn describe(&self, grave: &Grave, now: Time) -> Dead {
        let (node, rank) = match grave.entry {
            Entry::Rank(rank) => (self.job.node_of(rank), Some(rank)),
            Entry::Node(node) | Entry::Ready(node) => (Some(node), None),
        };
        let reason = match (rank, grave.fact.map(|fact| fact.subject)) {
            (None, Some(Subject::Node { reason, .. })) => node_reason(reason).into(),
            (Some(_), Some(Subject::Node { .. })) => "node-lost".into(),
            (_, Some(Subject::Rank { reason, .. })) => rank_reason(reason),
            _ => "known-before-restart".into(),
        };
        let host = |node: Option<NodeId>| Some(self.startup.launch.hosts.get(node?)?.to_owned());
        let (source, suspector) = (grave.fact.map(|fact| fact.source), grave.fact.and_then(|fact| fact.suspector));
        Dead {
            node,
            host: host(node),
            rank,
            age_us: micros(now.saturating_sub(grave.at)),
            reason,
            replica: rank.and_then(|rank| self.chronicle.replicas.of(rank)),
            source,
            source_host: host(source),
            suspector,
            suspector_host: host(suspector),
        }
    }

    fn describe_rank(&self, slot: u32) -> LocalRank {
        let (pid, phase) = self.segment.occupant(slot);
        let rank = self.segment.rank(slot);
        let (dead, replica) = (self.job.is_dead(rank), self.segment.replica(slot));
        LocalRank { rank, pid, phase: format!("{phase:?}").to_lowercase(), dead, replica }
    }
}
