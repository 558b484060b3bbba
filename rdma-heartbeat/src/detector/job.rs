//! Tracks dead ranks and nodes of the job, and decides whether it can continue. No I/O.
//!
//! Every node keeps this account. Only node 0 uses the [`Job::verdict`].

use std::collections::BTreeSet;
use std::time::Duration;

use node_abi::hosts::Hosts;
use node_abi::launch::{Known, LaunchData, Spawned};
use node_abi::segment::{Entry, FLAG_ALL_READY, Segment};
use propagation::{EndReason, Fact, NodeId, NodeReason, RankReason, Subject, Time};

/// New deaths from a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Ranks not known to be dead before, ascending.
    pub ranks: Vec<u32>,
    /// The node that is dead, if the fact was about one.
    pub node: Option<NodeId>,
    /// One sentence.
    pub why: String,
}

/// One death, for the status report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grave {
    /// The dead rank or node.
    pub entry: Entry,
    /// When this node learned of it.
    pub at: Time,
    /// The fact; `None` if an earlier incarnation could not pass it on.
    pub fact: Option<Fact>,
}

/// The account of one job.
pub struct Job {
    hosts: Hosts,
    rank_nodes: Vec<NodeId>,
    dead_ranks: Vec<bool>,
    /// Without programs that do not use MPI.
    ranks_alive: usize,
    /// Numbers of these programs' ranks.
    programs: BTreeSet<u32>,
    dead_nodes: BTreeSet<NodeId>,
    universe: u32,
    fence: bool,
    grace: Duration,
    ready: BTreeSet<NodeId>,
    all_ready: bool,
    early_death: Option<(Time, String)>,
    /// The first rank that ended in order.
    ended: Option<u32>,
    unfenced: Option<String>,
    /// A spawned rank that others will wait for in vain.
    missed: Option<String>,
    /// Dead ranks whose core files are being written, as far as is known.
    dumping: BTreeSet<u32>,
    graves: Vec<Grave>,
    /// Facts about ranks of jobs that this node does not know yet.
    unknown: Vec<Fact>,
}

/// Maximum number of such facts.
const MOST_UNKNOWN: usize = 4096;
/// Node of unused numbers, which belong to a job whose start has failed.
const NOWHERE: NodeId = NodeId::MAX;

impl Job {
    /// The account from the node's log, with known facts about its deaths.
    #[must_use]
    pub fn new(launch: &LaunchData, spawned: &[Spawned], known: &[Known], segment: &Segment, now: Time) -> Self {
        let ranks = launch.rank_nodes.len();
        let mut job = Self {
            hosts: launch.hosts.clone(),
            rank_nodes: launch.rank_nodes.clone(),
            dead_ranks: vec![false; ranks],
            ranks_alive: ranks,
            programs: BTreeSet::new(),
            dead_nodes: BTreeSet::new(),
            universe: launch.universe,
            fence: launch.parameters.fence,
            // Ranks that are about to leave MPI_Init get time to do so: the failure may have occurred just then.
            grace: (launch.parameters.timeout * 2).max(Duration::from_secs(1)),
            ready: BTreeSet::new(),
            all_ready: segment.flags() & FLAG_ALL_READY != 0,
            early_death: None,
            ended: None,
            unfenced: None,
            missed: None,
            dumping: BTreeSet::new(),
            graves: Vec::new(),
            unknown: Vec::new(),
        };
        for one in spawned {
            job.spawn(one, now);
        }
        for entry in (0..segment.len()).filter_map(|index| segment.entry(index)) {
            match entry {
                Entry::Rank(rank) => {
                    let node = job.node_of(rank);
                    let known = known.iter().find(|known| known.tells_of_rank(rank, node));
                    job.bury_rank(rank, known.map_or(now, |known| known.at), known.map(|known| known.fact));
                }
                Entry::Node(node) => {
                    let known = known.iter().find(|known| known.tells_of_node(node));
                    job.bury_node(node, known.map_or(now, |known| known.at), known.map(|known| known.fact));
                }
                Entry::Ready(node) => {
                    job.node_ready(node);
                }
            }
        }
        job
    }

    /// Adds the ranks of a further job. Returns ranks that are dead already, because their nodes are, and facts that
    /// were known before the job.
    pub fn spawn(&mut self, spawned: &Spawned, now: Time) -> (Vec<u32>, Vec<Fact>) {
        let known = self.rank_nodes.len();
        let Some(gap) = (spawned.first as usize).checked_sub(known) else { return Default::default() };
        self.rank_nodes.extend(std::iter::repeat_n(NOWHERE, gap));
        self.dead_ranks.extend(std::iter::repeat_n(true, gap));
        self.rank_nodes.extend(&spawned.rank_nodes);
        self.dead_ranks.resize(self.rank_nodes.len(), false);
        if spawned.is_awaited {
            self.ranks_alive += spawned.rank_nodes.len();
        } else {
            self.programs.extend((spawned.first..).zip(&spawned.rank_nodes).map(|(rank, _)| rank));
        }
        let lost = (spawned.first..).zip(&spawned.rank_nodes).filter(|(_, node)| self.dead_nodes.contains(node));
        let mut late: Vec<u32> = lost.map(|(rank, _)| rank).collect();
        late.retain(|rank| self.bury_rank(*rank, now, None));
        (late, std::mem::take(&mut self.unknown))
    }

    /// Whether this rank is dead.
    #[must_use]
    pub fn is_dead(&self, rank: u32) -> bool {
        self.dead_ranks.get(rank as usize).copied().unwrap_or(false)
    }

    /// Dead nodes, ascending.
    pub fn dead_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.dead_nodes.iter().copied()
    }

    /// Node of a rank of the job.
    #[must_use]
    pub fn node_of(&self, rank: u32) -> Option<NodeId> {
        self.rank_nodes.get(rank as usize).copied().filter(|node| *node != NOWHERE)
    }

    /// The nodes on which a living rank is known.
    #[must_use]
    pub fn nodes_with_ranks(&self) -> BTreeSet<NodeId> {
        let living = self.rank_nodes.iter().zip(&self.dead_ranks).filter(|(_, dead)| !**dead);
        living.map(|(node, _)| *node).collect()
    }

    /// Handles a fact; `None` if it is not new, or no death.
    pub fn learn(&mut self, fact: &Fact, now: Time) -> Option<News> {
        match fact.subject {
            Subject::Rank { rank, .. } if rank as usize >= self.rank_nodes.len() => {
                if !self.unknown.iter().any(|known| known.subject == fact.subject) && self.unknown.len() < MOST_UNKNOWN
                {
                    self.unknown.push(*fact);
                }
                None
            }
            Subject::Rank { rank, reason, .. } => {
                if !self.bury_rank(rank, now, Some(*fact)) {
                    return None;
                }
                let who = self.named(rank);
                if reason == RankReason::Early {
                    self.missed.get_or_insert_with(|| who.clone());
                }
                if reason == RankReason::Stopped && !self.fence {
                    self.unfenced.get_or_insert_with(|| format!("{who} has been stopped for too long"));
                }
                Some(News { ranks: vec![rank], node: None, why: format!("{who} is dead: {reason}") })
            }
            Subject::Node { reason: NodeReason::Left, .. } => None,
            Subject::Node { node, reason } => {
                let ranks = self.bury_node(node, now, Some(*fact))?;
                if !ranks.is_empty() && !self.fence {
                    let who = self.hosts.node(node);
                    self.unfenced.get_or_insert_with(|| format!("{who} was lost, and its ranks may still run"));
                }
                Some(News { ranks, node: Some(node), why: self.sentence_about_node(node, reason, fact.suspector) })
            }
            Subject::End { .. } | Subject::Doubt | Subject::Grown => None,
        }
    }

    fn bury_rank(&mut self, rank: u32, now: Time, fact: Option<Fact>) -> bool {
        let known = self.dead_ranks.get_mut(rank as usize).filter(|dead| !**dead);
        let Some(dead) = known else { return false };
        *dead = true;
        self.ranks_alive -= usize::from(!self.programs.contains(&rank));
        if matches!(fact, Some(Fact { subject: Subject::Rank { reason: RankReason::DumpsCore { .. }, .. }, .. })) {
            self.dumping.insert(rank);
        }
        self.graves.push(Grave { entry: Entry::Rank(rank), at: now, fact });
        let who = self.named(rank);
        self.died_early(now, || who);
        true
    }

    /// Ranks that died with the node and were not dead before; `None` if the node was known to be dead.
    fn bury_node(&mut self, node: NodeId, now: Time, fact: Option<Fact>) -> Option<Vec<u32>> {
        if node >= self.universe || !self.dead_nodes.insert(node) {
            return None;
        }
        let who = self.hosts.node(node);
        self.died_early(now, || who);
        let ranks: Vec<u32> = (0u32..)
            .zip(&self.rank_nodes)
            .filter(|(rank, on)| **on == node && !self.dead_ranks[*rank as usize])
            .map(|(rank, _)| rank)
            .collect();
        for rank in &ranks {
            self.bury_rank(*rank, now, fact);
        }
        self.graves.push(Grave { entry: Entry::Node(node), at: now, fact });
        let Self { dumping, rank_nodes, .. } = self;
        dumping.retain(|rank| rank_nodes[*rank as usize] != node);
        Some(ranks)
    }

    /// Notes that the runtime has seen the end of a rank's process.
    pub fn rank_is_gone(&mut self, rank: u32) {
        self.dumping.remove(&rank);
    }

    /// Notes that a rank has ended in order.
    pub fn rank_ended(&mut self, rank: u32) {
        self.ended.get_or_insert(rank);
    }

    /// The first rank that has ended in order, once.
    pub fn take_ended(&mut self) -> Option<u32> {
        self.ended.take()
    }

    /// Handles an end in order while other ranks wait in `MPI_Init`: until all have left it, such an end counts as a
    /// death.
    pub fn miss_who_ended(&mut self, now: Time) {
        if let Some(rank) = self.ended.filter(|_| !self.all_ready) {
            let who = self.named(rank);
            self.died_early(now, || who);
        }
    }

    /// Whether the ranks of some node have left `MPI_Init`.
    #[must_use]
    pub fn has_ready_nodes(&self) -> bool {
        self.rank_nodes.iter().any(|node| self.ready.contains(node))
    }

    fn died_early(&mut self, now: Time, who: impl FnOnce() -> String) {
        if !self.all_ready && self.early_death.is_none() {
            self.early_death = Some((now, who()));
        }
    }

    /// The deaths in the order in which this node learned of them.
    #[must_use]
    pub fn graves(&self) -> &[Grave] {
        &self.graves
    }

    /// Notes that all ranks of a node have left `MPI_Init`; false if that was known.
    pub fn node_ready(&mut self, node: NodeId) -> bool {
        self.ready.insert(node)
    }

    /// Whether all ranks of the living nodes have left `MPI_Init`.
    #[must_use]
    pub fn all_ready(&mut self) -> bool {
        let mut living = (0..self.universe).filter(|node| !self.dead_nodes.contains(node));
        if !self.all_ready && living.all(|node| self.ready.contains(&node)) {
            self.all_ready = true;
            self.early_death = None;
        }
        self.all_ready
    }

    /// Time at which [`Job::verdict`] may change without an event.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.early_death.as_ref().map_or(Time::MAX, |(at, _)| *at + self.grace)
    }

    /// Whether all deaths are exits, as far as is known: no rank was killed, stopped or lost with a node, but programs
    /// exited without having finalised.
    fn all_exited(&self) -> bool {
        self.graves.iter().all(|grave| {
            let subject = grave.fact.map(|fact| fact.subject);
            matches!(subject, Some(Subject::Rank { reason: RankReason::Exited { .. } | RankReason::Reported, .. }))
        })
    }

    /// A rank for messages, e.g. `rank 5 on node 2 (h3)`.
    #[must_use]
    pub fn named(&self, rank: u32) -> String {
        let node = self.node_of(rank).map(|node| format!(" on {}", self.hosts.node(node)));
        format!("rank {rank}{}", node.unwrap_or_default())
    }

    fn sentence_about_node(&self, node: NodeId, reason: NodeReason, suspector: Option<NodeId>) -> String {
        let observer = suspector.map(|observer| format!(" (observed by {})", self.hosts.node(observer)));
        format!("{} is dead: {reason}{}", self.hosts.node(node), observer.unwrap_or_default())
    }

    /// Whether the job must end, with the reason and a sentence for the user.
    #[must_use]
    pub fn verdict(&mut self, now: Time) -> Option<(EndReason, String)> {
        // The end of the job would truncate core files that are still being written.
        if self.ranks_alive == 0 && !self.rank_nodes.is_empty() && self.dumping.is_empty() {
            let fate = if self.all_exited() { "has ended without MPI_Finalize" } else { "is dead" };
            return Some((EndReason::NoSurvivor, format!("every rank of the job {fate}; the job is ended")));
        }
        if let Some(what) = &self.unfenced {
            return Some((EndReason::FencingOff, format!("{what}, but fencing is switched off; the job is ended")));
        }
        if let Some(who) = &self.missed {
            let what = "ended before it had left MPI_Init, where those who spawned it wait for it; the job is ended";
            return Some((EndReason::InitFailure, format!("{who} {what}")));
        }
        if self.all_ready() {
            return None;
        }
        let (at, who) = self.early_death.as_ref()?;
        (now >= *at + self.grace).then(|| {
            let what =
                "ended before every rank had left MPI_Init, from which Open MPI cannot recover; the job is ended";
            (EndReason::InitFailure, format!("{who} {what}"))
        })
    }
}

#[cfg(test)]
mod tests;
