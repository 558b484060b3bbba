//! A ring of real `ringwatchd`s on this machine, with one rank that sleeps on each node. This process plays the plugins.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use node_abi::launch::Carrier;
use node_abi::segment::{Entry, FLAG_ALL_READY, Phase};
use platform::clock;
use rdma_heartbeat::report::status::{self, Report};

use crate::cluster::{self, Cluster, Node, send_signal};
use crate::rings::{Fault, Ring, Settings, Usage, processor};

/// How long a ring may take until it is closed.
const START: Duration = Duration::from_secs(20);
/// How often a node is asked when it learned of a death: the age that it tells is that of a moment before the answer
/// arrives, and the shortest time counts.
const ASKED: usize = 3;

pub struct Daemons {
    cluster: Cluster,
    /// Nodes that were cut off or killed, and nodes whose rank was killed.
    dead: BTreeSet<u32>,
    without_rank: BTreeSet<u32>,
}

impl Daemons {
    /// # Errors
    /// A sentence if the ring does not close.
    pub fn start(settings: &Settings) -> Result<Self, String> {
        let mut launch = cluster::launch(&vec![1; settings.members as usize]);
        launch.parameters.period = settings.period;
        launch.parameters.timeout = settings.timeout;
        launch.parameters.transport = Carrier::Udp;
        launch.parameters.log_level = "warn".into();
        let ring = Self {
            cluster: Cluster::start(launch, Phase::Running),
            dead: BTreeSet::new(),
            without_rank: BTreeSet::new(),
        };
        let begin = Instant::now();
        while !ring.is_closed() {
            if begin.elapsed() > START {
                return Err(format!("the ring is not closed after {START:?}"));
            }
            if ring.cluster.nodes.iter().any(|node| !node.deaths().is_empty()) {
                return Err("a node was declared dead before the ring was closed".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(ring)
    }

    fn is_closed(&self) -> bool {
        let works =
            |node: &Node| status::ask(&node.status_name()).is_ok_and(|report| report.last_heartbeat_us.is_some());
        self.cluster.nodes[0].segment.flags() & FLAG_ALL_READY != 0 && self.cluster.nodes.iter().all(works)
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.cluster.nodes.iter().filter(|node| !self.dead.contains(&node.me))
    }

    /// Whether a node's failure log has this death.
    fn has(node: &Node, victim: u32, fault: Fault) -> bool {
        // There is one rank on each node, with the same number.
        let entry = if fault == Fault::KillRank { Entry::Rank(victim) } else { Entry::Node(victim) };
        node.deaths().contains(&entry)
    }
}

fn report(node: &Node) -> Result<Report, String> {
    status::ask(&node.status_name()).map_err(|error| format!("node {} does not tell: {error}", node.me))
}

impl Ring for Daemons {
    fn living(&self) -> Vec<u32> {
        self.nodes().map(|node| node.me).collect()
    }

    fn first_is_needed(&self) -> bool {
        true
    }

    fn has_ranks(&self) -> bool {
        true
    }

    fn usage(&mut self) -> Result<Usage, String> {
        let mut usage = Usage::default();
        for node in self.nodes() {
            let sent = report(node)?.counters.get("messages sent").copied().unwrap_or(0);
            usage.add(node.me, processor(node.daemon.id()), sent);
        }
        Ok(usage)
    }

    fn falsely_declared(&mut self) -> usize {
        let is_false = |entry: &Entry| match entry {
            Entry::Node(node) => !self.dead.contains(node),
            Entry::Rank(rank) => !self.dead.contains(rank) && !self.without_rank.contains(rank),
            Entry::Ready(_) => false,
        };
        let declared: BTreeSet<String> = self
            .nodes()
            .flat_map(Node::deaths)
            .filter(|entry| is_false(entry))
            .map(|entry| format!("{entry:?}"))
            .collect();
        declared.len()
    }

    fn strike(&mut self, victims: &[u32], fault: Fault) {
        let signal = if fault == Fault::Cut { Signal::SIGSTOP } else { Signal::SIGKILL };
        let nodes = || victims.iter().map(|victim| &self.cluster.nodes[*victim as usize]);
        // The daemons first: a node that dies has nobody to tell of its ranks.
        if fault != Fault::KillRank {
            nodes().for_each(|node| send_signal(&node.daemon, signal));
            nodes().for_each(|node| send_signal(&node.runtime, signal));
        }
        nodes().for_each(|node| node.ranks.values().for_each(|rank| send_signal(rank, signal)));
        if fault == Fault::KillRank { &mut self.without_rank } else { &mut self.dead }.extend(victims);
    }

    fn is_known(&mut self, victims: &[u32], fault: Fault) -> bool {
        self.nodes().all(|node| victims.iter().all(|victim| Self::has(node, *victim, fault)))
    }

    fn known_at(&mut self, victim: u32, fault: Fault) -> Result<Vec<Duration>, String> {
        let mut times = Vec::new();
        for node in self.nodes().filter(|node| fault != Fault::KillRank || node.me != victim) {
            let mut learned = None;
            for _ in 0..ASKED {
                let report = report(node)?;
                let now = clock::now();
                let mut dead = report.dead.iter();
                let found = dead.find(|dead| match fault {
                    Fault::KillRank => dead.rank == Some(victim),
                    _ => dead.node == Some(victim) && dead.rank.is_none(),
                });
                let at = found.map(|dead| now.saturating_sub(Duration::from_micros(dead.age_us)));
                learned = learned.into_iter().chain(at).min();
            }
            times.extend(learned);
        }
        Ok(times)
    }
}
