//! Handles inputs.

use std::net::SocketAddr;
use std::time::Duration;

use node_abi::hosts::Hosts;
use node_abi::launch::{Spawned, ToDaemon};
use node_abi::losses::rank_reason;
use node_abi::versions;
use propagation::{EndReason, Message, NodeId, NodeReason, RankReason, Time};
use tracing::{error, info, warn};

use super::{Daemon, Link};
use crate::detector::runtime::Loss;
use crate::detector::watch::Sighting;
use crate::history::Event;
use crate::offload::ToService;
use crate::process::token::Token;
use crate::session::control::Received;
use crate::session::misplaced::is_misplaced;
use crate::session::network::DATAGRAMS_PER_TURN;
use crate::session::rendezvous::{Step, roster_messages};

/// How long a rank may live after it has left the runtime unexpectedly. For example, it has closed its descriptors, so
/// that MPI holds it dead and no process would end it.
const HANGING: Duration = Duration::from_secs(1);

impl Daemon {
    /// Handles a descriptor that has become readable.
    pub(super) fn take(&mut self, token: Token, now: Time) {
        match token {
            Token::Control => self.take_packets(now),
            Token::Network => self.take_datagrams(now),
            Token::Runtime => {
                // Packets from before its end are valid, above all that the job is over.
                self.take_packets(now);
                self.runtime.end(now);
                if let Some(descriptor) = self.runtime.descriptor() {
                    self.poller.remove(descriptor);
                }
            }
            Token::Rank(slot) => {
                if let Some(sighting) = self.watch.ended(slot, &self.segment) {
                    self.saw(sighting, now);
                }
            }
            Token::Lifelines => {
                if let Some(lifelines) = &self.lifelines {
                    lifelines.bell().clear();
                }
                let mut sightings = std::mem::take(&mut self.sightings);
                self.watch.broken(&self.segment, &mut sightings);
                for sighting in sightings.drain(..) {
                    self.saw(sighting, now);
                }
                self.sightings = sightings;
            }
            // Answers are handled when they are due, in every turn.
            Token::Inquiry => self.watch.bell().clear(),
            Token::Status => self.take_questions(now),
            Token::Feed => self.take_callers(now),
            Token::Offload => self.take_service(now),
            Token::Logger => self.take_ranks(now),
            Token::Group => self.hear_groups(now),
            Token::Writer(number) => self.hear_writer(now, number),
        }
    }

    fn take_packets(&mut self, now: Time) {
        loop {
            match self.control.receive() {
                Received::Packet(packet) => self.obey(packet, now),
                Received::Unknown => warn!("a packet of the plugin is unknown and is ignored"),
                Received::Nothing => return,
                Received::Closed => {
                    self.poller.remove(&self.control);
                    self.runtime.hang_up(now);
                    return;
                }
            }
        }
    }

    fn obey(&mut self, packet: ToDaemon, now: Time) {
        if let ToDaemon::RankLost { rank, .. } | ToDaemon::RankEnded(rank) = packet {
            self.job.rank_is_gone(rank);
        }
        match packet {
            ToDaemon::ConnectionLost(node) => self.connection_lost(node, now),
            ToDaemon::RankLost { rank, .. } if self.job.node_of(rank).is_none() => {
                warn!(rank, "the runtime reports a rank that is not in the job");
            }
            // It left in order; what its process does afterwards does not concern MPI.
            ToDaemon::RankLost { rank, .. } if self.watch.has_finalised(rank, &self.segment) => {}
            ToDaemon::RankLost { rank, .. } if self.is_watched_elsewhere(rank) => {}
            // Only its own node knows whether it uses MPI after all.
            ToDaemon::RankLost { rank, .. } if self.startup.is_program(rank) && !self.is_here(rank) => {}
            // It is about to end, and the end of its process will show the reason.
            ToDaemon::RankLost { rank, .. } if self.watch.is_watched(rank, &self.segment) => {
                self.hung_up.push((rank, now + HANGING));
            }
            ToDaemon::RankLost { rank, reason } => self.rank_is_dead(rank, reason, now),
            ToDaemon::RankEnded(rank) => {
                self.watch.left(rank, &self.segment);
                let never_came = self.startup.launch.ranks_register && !self.watch.has_come(rank, &self.segment);
                if self.startup.is_spawned(rank) {
                    if never_came && self.is_awaited_here(rank) {
                        self.rank_is_dead(rank, RankReason::Exited { status: 0 }, now);
                    }
                } else if self.startup.me == 0 || never_came {
                    self.job.rank_ended(rank);
                }
            }
            ToDaemon::Spawned(spawned) => self.spawned(spawned, now),
            ToDaemon::Finished => {
                self.finished = true;
                if self.startup.me == 0 && self.ending.is_none() {
                    self.end_job(EndReason::Finished, String::new(), now);
                }
            }
        }
    }

    /// Handles a job that is about to be started, whose ranks are watched, too.
    fn spawned(&mut self, spawned: Spawned, now: Time) {
        if self.startup.spawned.contains(&spawned) {
            return;
        }
        info!(job = spawned.nspace, first = spawned.first, ranks = spawned.rank_nodes.len(), "spawned");
        let (late, facts) = self.job.spawn(&spawned, now);
        self.startup.spawned.push(spawned);
        self.finished = false;
        self.watch.extend(&self.segment, |rank| self.startup.name_of(rank));
        if !late.is_empty() {
            self.tell_of_ranks(late, "the node of the spawned rank is dead".into());
        }
        for fact in facts {
            self.deliver(&fact, now);
        }
    }

    /// Whether another node's `ringwatchd` knows more about a rank than the runtime: whether it had finalised.
    fn is_watched_elsewhere(&mut self, rank: u32) -> bool {
        let node = self.job.node_of(rank);
        self.startup.launch.ranks_register && node != Some(self.startup.me) && self.job.all_ready()
    }

    /// Whether the spawning ranks of a rank of this node wait in MPI for it to leave `MPI_Init`.
    fn is_awaited_here(&self, rank: u32) -> bool {
        self.startup.is_awaited(rank) && self.is_here(rank)
    }

    fn is_here(&self, rank: u32) -> bool {
        self.job.node_of(rank) == Some(self.startup.me)
    }

    /// Whether it is a program without MPI on this node: its end is no failure.
    fn is_program_here(&self, rank: u32) -> bool {
        let has_come = || self.startup.launch.ranks_register && self.watch.has_come(rank, &self.segment);
        self.startup.is_program(rank) && self.is_here(rank) && !has_come()
    }

    fn connection_lost(&mut self, node: u32, now: Time) {
        if self.startup.me != 0 || self.ending.is_some() {
            return;
        }
        self.chronicle.note(now, Event::ConnectionLost { peer: node });
        match &mut self.link {
            Link::Ring(member) => {
                member.declare(now, node, NodeReason::ConnectionLost, &mut self.actions);
                self.perform(now);
            }
            Link::Meeting(_) | Link::Offloaded(_) => {
                let who = self.startup.launch.hosts.node(node);
                let sentence =
                    format!("{who} was lost before the nodes of the job had found each other; the job is ended");
                self.end_job(EndReason::InitFailure, sentence, now);
            }
        }
    }

    /// Kills ranks that have left the runtime and live on.
    pub(super) fn end_hanging(&mut self, now: Time) {
        while let Some(index) = self.hung_up.iter().position(|(_, until)| now >= *until) {
            let (rank, _) = self.hung_up.swap_remove(index);
            if !self.watch.has_finalised(rank, &self.segment) {
                self.rank_is_dead(rank, RankReason::Reported, now);
            }
        }
    }

    /// Handles the death of a rank of this node, or of one that the runtime reports.
    pub(super) fn rank_is_dead(&mut self, rank: u32, reason: RankReason, now: Time) {
        if self.job.is_dead(rank)
            || self.is_program_here(rank)
            || self.resigned
            || self.ending.is_some()
            || self.waiting.iter().any(|(waiting, _)| *waiting == rank)
        {
            return;
        }
        let is_waited_for = self.is_awaited_here(rank) && !self.startup.is_replacement(rank);
        let is_early = is_waited_for && !self.watch.has_initialised(rank, &self.segment);
        // First, so that the record is correct before other processes learn of it.
        self.chronicle.note(now, Event::Observed { rank, reason: rank_reason(reason) });
        self.fence(rank, now);
        self.watch.left(rank, &self.segment);
        let reason = if is_early { RankReason::Early } else { reason };
        match &mut self.link {
            Link::Offloaded(host) => {
                // Kept until it returns as a fact: the service may be lost with it.
                self.waiting.push((rank, reason));
                host.announce(rank, reason);
            }
            Link::Meeting(_) => self.waiting.push((rank, reason)),
            Link::Ring(member) => {
                member.announce_rank(now, rank, reason, &mut self.actions);
                self.perform(now);
            }
        }
    }

    pub(super) fn saw(&mut self, sighting: Sighting, now: Time) {
        match sighting {
            Sighting::Dead(rank, reason) => self.rank_is_dead(rank, reason, now),
            Sighting::Stuck(slot) => {
                self.watch.end(slot);
            }
            Sighting::Pinned(slot) => {
                let Some(descriptor) = self.watch.descriptor(slot) else { return };
                if let Err(error) = self.poller.add(descriptor, Token::Rank(slot)) {
                    error!(slot, %error, "the end of a rank will not be seen");
                }
                if let Some(lifelines) = &self.lifelines {
                    lifelines.look_again();
                }
                let rank = self.segment.rank(slot);
                self.watch.pinned(slot, &self.segment);
                // It was declared dead before it registered, or it registers when everything is over.
                if self.job.is_dead(rank) || self.resigned || self.ending.as_ref().is_some_and(|ending| ending.fences) {
                    self.fence(rank, now);
                }
            }
        }
    }

    /// Takes one datagram if there is time: a further attempt would mostly find nothing, and the poller reports if not.
    /// If there is no time it takes all, because a heartbeat among them may prevent a suspicion.
    pub(super) fn take_datagrams(&mut self, now: Time) {
        let most = if now < self.link_deadline() { 1 } else { DATAGRAMS_PER_TURN };
        for _ in 0..most {
            let Some(datagram) = self.network.as_mut().and_then(|network| network.receive()) else { return };
            match datagram {
                Some((from, address, message)) => self.take_message(now, from, address, message),
                None => self.hear_refusal(now),
            }
        }
    }

    /// Takes heartbeats that have arrived since the last turn, each with its time of arrival.
    pub(super) fn take_heartbeats(&mut self, now: Time) {
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some((datagram, at)) = self.network.as_mut().and_then(|network| network.receive_heartbeat(now)) else {
                return;
            };
            match datagram {
                Some((from, address, message)) => self.take_message(at, from, address, message),
                // The kernel cannot distinguish it from a heartbeat.
                None => self.hear_refusal(now),
            }
        }
    }

    fn take_message(&mut self, now: Time, from: NodeId, address: SocketAddr, message: Message) {
        match &mut self.link {
            Link::Offloaded(_) => {}
            Link::Meeting(_) if self.ending.is_some() => {}
            Link::Meeting(rendezvous) => {
                rendezvous.handle(from, address, &message, &mut self.steps);
                self.follow_steps(now);
            }
            Link::Ring(_) if matches!(message, Message::Hello { .. }) => self.answer_late_caller(from, address),
            Link::Ring(_) if matches!(message, Message::Records { .. } | Message::RecordsHeard { .. }) => {
                if let (Some(answer), Some(network)) = (self.chronicle.take(now, from, &message), &mut self.network) {
                    network.send(from, &answer);
                }
            }
            Link::Ring(_) if matches!(message, Message::Logger { .. }) => self.hear_logger(now, from, &message),
            Link::Ring(_) if matches!(message, Message::AllStopped { .. } | Message::JobSuspended) => {
                self.hear_of_suspension(now, from, &message);
            }
            Link::Ring(_) => {
                match message {
                    Message::Spared { node: peer } => self.chronicle.note(now, Event::Spared { peer }),
                    Message::Heartbeat { count } => self.regularity.heard(from, count),
                    _ => {}
                }
                self.mind_flags(now, (from, address), &message);
                if let Link::Ring(member) = &mut self.link {
                    member.handle(now, from, message, &mut self.actions);
                    self.regularity.look(member.emitter(), member.last_heartbeat());
                }
                self.perform(now);
            }
        }
    }

    /// At node 0: handles a node that takes no part.
    fn hear_refusal(&mut self, now: Time) {
        let refusal = self.network.as_mut().and_then(|network| network.take_refusal());
        let Some(refusal) = refusal.filter(|_| self.startup.me == 0 && self.ending.is_none()) else { return };
        if let Link::Meeting(rendezvous) = &mut self.link {
            rendezvous.refused(now, refusal, &mut self.steps);
            self.follow_steps(now);
        } else if !refusal.problem.is_empty() && !self.job.all_ready() {
            // The sender of a late refusal has called and knows the result. A running job only receives old ones, or
            // one of a machine that is to serve a host anew; the latter affects at most that node.
            self.end_job(EndReason::InitFailure, versions::sentence(&[refusal]), now);
        }
    }

    /// Answers a node that lacks the roster: its copy was lost, or it is a new incarnation.
    fn answer_late_caller(&mut self, from: NodeId, address: std::net::SocketAddr) {
        let Some(network) = &mut self.network else { return };
        if self.startup.me == 0 && self.ending.is_none() {
            for part in roster_messages(&self.roster) {
                network.send_to(from, address, &part);
            }
        }
    }

    pub(super) fn follow_steps(&mut self, now: Time) {
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Send(to, address, message) => {
                    if let Some(network) = &mut self.network {
                        network.send_to(to, address, &message);
                    }
                }
                Step::Complete(roster) if is_misplaced(&self.startup.launch, self.startup.me, &self.host, &roster) => {
                    self.stop(propagation::StopReason::CutOff, now);
                }
                Step::Complete(roster) => {
                    info!(nodes = roster.len(), "rendezvous is complete");
                    self.control.send(&node_abi::launch::FromDaemon::Roster(roster.clone()));
                    self.join(roster, now);
                }
                Step::Missing(nodes) => {
                    let sentence = sentence_about_missing(&nodes, &self.startup.launch.hosts);
                    self.end_job(EndReason::InitFailure, sentence, now);
                }
                Step::Refused(refusals) => {
                    self.end_job(EndReason::InitFailure, versions::sentence(&refusals), now);
                }
                Step::NoAnswer => self.stop(propagation::StopReason::CutOff, now),
            }
        }
    }

    pub(super) fn runtime_lost(&mut self, loss: Loss, now: Time) {
        if self.ending.is_some() {
            return;
        }
        let (pid, me) = (self.runtime.pid(), self.startup.me);
        if self.finished {
            info!(pid, "the runtime daemon has left after the end of its ranks");
            // Its end looks the same when it has lost prterun and killed its ranks. Messages of the other nodes, or
            // their silence, distinguish the two.
            if me == 0 || loss == Loss::Stopped {
                self.leave(now);
            } else {
                self.leaves_at = Some(now + self.startup.launch.parameters.timeout * 2);
            }
            return;
        }
        error!(pid, reason = loss.word(), "the runtime daemon is lost");
        self.chronicle.note(now, Event::RuntimeLost { pid, reason: loss.word().into() });
        self.fence_all(now);
        if me == 0 {
            let what = if loss == Loss::HungUp { "has given up the job" } else { "was lost" };
            let whose = format!("prterun (pid {pid}) on {} {what}", self.host);
            let sentence = match self.fence_is_on() {
                true => format!("{whose}; all ranks of the job are ended."),
                false => format!("{whose}, and fencing is switched off: kill the ranks that it has left behind."),
            };
            self.end_job(EndReason::LauncherLost, sentence, now);
            return;
        }
        if loss == Loss::Stopped && self.fence_is_on() {
            self.fence_runtime(now);
        }
        // From here on the ranks die with their node, not individually.
        self.resigned = true;
        match &mut self.link {
            Link::Offloaded(host) if host.is_joined() => host.tell(&ToService::Resign),
            Link::Meeting(_) | Link::Offloaded(_) => self.leave(now),
            Link::Ring(member) => {
                member.resign(now, &mut self.actions);
                self.perform(now);
            }
        }
    }
}

fn sentence_about_missing(nodes: &[u32], hosts: &Hosts) -> String {
    format!(
        "{} did not report to the node of mpirun over the network (does a firewall stop UDP between them?); the job is ended",
        hosts.nodes(nodes)
    )
}
