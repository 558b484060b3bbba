//! What a job costs as it grows, in the bytes that are really sent: the launch message, the addresses, and deaths.
//! Members and encodings are those of `ringwatchd`; time and network are simulated. 64 ranks run on each node.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use node_abi::hosts::Hosts;
use node_abi::launch::LaunchData;
use node_abi::testing;
use propagation::wire::Sealer;
use propagation::{Action, Config, Member, Message, NodeId, NodeReason, RankReason, Time, bundle};
use rdma_heartbeat::session::rendezvous::roster_messages;

const RANKS: u32 = 64;
const SIZES: [u32; 3] = [128, 512, 1024];
/// The moment of the deaths.
const NOW: Time = Time::from_secs(1);

/// Datagrams and bytes that each node has sent.
struct Traffic(Vec<(u64, u64)>);

impl Traffic {
    fn all(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |sum, node| (sum.0 + node.0, sum.1 + node.1))
    }

    /// The most that a node other than node 0 has sent.
    fn most(&self) -> (u64, u64) {
        let others = &self.0[1..];
        let most = |of: fn(&(u64, u64)) -> u64| others.iter().map(of).max().unwrap();
        (most(|node| node.0), most(|node| node.1))
    }
}

/// A job whose ring is closed, and whose heartbeats are far apart.
struct Job {
    members: Vec<Member>,
    sealers: Vec<Sealer>,
    on_the_way: VecDeque<(NodeId, NodeId, Message)>,
    sent: Traffic,
}

impl Job {
    fn new(nodes: u32) -> Self {
        let far = |me| Config::new(me, nodes, Duration::from_secs(60), Duration::from_secs(600));
        let mut members: Vec<_> = (0..nodes).map(|me| Member::new(far(me), [], Time::ZERO)).collect();
        members.iter_mut().for_each(|member| member.tick(Time::ZERO, &mut Vec::new()));
        let sealers = (0..nodes).map(|me| Sealer::new(1, [7; 32], me, 0)).collect();
        let sent = Traffic(vec![(0, 0); nodes as usize]);
        Self { members, sealers, on_the_way: VecDeque::new(), sent }
    }

    /// Sends what a node asks for in one turn: messages for the same node share a datagram, as in `ringwatchd`.
    fn send(&mut self, from: NodeId, actions: Vec<Action>) {
        let messages = actions.into_iter().filter_map(|action| match action {
            Action::Send { to, message } => Some((to, message)),
            _ => None,
        });
        let (parts, others): (Vec<_>, Vec<_>) = messages.partition(|(_, message)| bundle::is_part(message));
        for (to, message) in others.into_iter().chain(bundle::pack(parts)) {
            let mut bytes = Vec::new();
            self.sealers[from as usize].seal(to, 0, &message, &mut bytes);
            let sent = &mut self.sent.0[from as usize];
            *sent = (sent.0 + 1, sent.1 + bytes.len() as u64);
            self.on_the_way.push_back((from, to, message));
        }
    }

    /// Delivers everything, in rounds of equal length, and returns what was sent.
    fn settle(mut self, dead: &[NodeId]) -> Traffic {
        while !self.on_the_way.is_empty() {
            let mut turns = vec![Vec::new(); self.members.len()];
            for (from, to, message) in std::mem::take(&mut self.on_the_way) {
                if !dead.contains(&to) {
                    self.members[to as usize].handle(NOW, from, message, &mut turns[to as usize]);
                }
            }
            for (node, actions) in (0..).zip(turns) {
                self.send(node, actions);
            }
        }
        let living = self.members.iter().zip(0..).filter(|(_, node)| !dead.contains(node));
        assert!(living.clone().all(|(member, _)| member.dead().count() == dead.len()), "all know all deaths");
        self.sent
    }
}

/// A rank of the last node dies.
fn a_dead_rank(nodes: u32) -> Traffic {
    let (mut job, mut out) = (Job::new(nodes), Vec::new());
    let (node, rank) = (nodes - 1, nodes * RANKS - 1);
    job.members[node as usize].announce_rank(NOW, rank, RankReason::Signaled { signal: 9 }, &mut out);
    job.send(node, out);
    job.settle(&[])
}

/// So many nodes die at once, and node 0 is told of each.
fn dead_nodes(nodes: u32, count: u32) -> Traffic {
    let (mut job, mut out) = (Job::new(nodes), Vec::new());
    let dead: Vec<_> = (0..count).map(|number| nodes / count * number + nodes / count - 1).collect();
    for node in &dead {
        job.members[0].declare(NOW, *node, NodeReason::ConnectionLost, &mut out);
    }
    job.send(0, out);
    job.settle(&dead)
}

/// Asserts that what `dead` dead nodes cost grows no faster than n log n in all, and log n at a node other than node 0,
/// with n living nodes.
fn assert_growth(what: &str, dead: u32, traffic: impl Fn(u32) -> Traffic) {
    let costs: Vec<_> = SIZES.iter().map(|nodes| (*nodes, traffic(*nodes))).collect();
    for (nodes, traffic) in &costs {
        let (all, first, most) = (traffic.all(), traffic.0[0], traffic.most());
        println!("{what}, {nodes} nodes: {all:?} datagrams and bytes in all, {first:?} at node 0, {most:?} at another");
    }
    let log = |nodes: u32| f64::from(nodes.ilog2());
    let [(few, small), .., (many, large)] = &costs[..] else { panic!("several sizes") };
    let grows = |large: u64, small: u64| large as f64 / small.max(1) as f64;
    let logs = log(*many) / log(*few);
    let all = logs * f64::from(many - dead) / f64::from(few - dead);
    // A constant part of each message, and rounding.
    for (large, small, allowed) in [
        (large.all().0, small.all().0, all),
        (large.all().1, small.all().1, all),
        (large.0[0].0, small.0[0].0, all),
        (large.most().0, small.most().0, logs),
        (large.most().1, small.most().1, logs),
    ] {
        assert!(grows(large, small) <= allowed * 1.5, "{what}: {small} became {large}, {allowed} times allowed");
    }
}

#[test]
fn deaths_cost_n_log_n_messages_in_all_and_log_n_at_a_node() {
    assert_growth("a dead rank", 0, a_dead_rank);
    assert_growth("a dead node", 1, |nodes| dead_nodes(nodes, 1));
    assert_growth("64 dead nodes", 64, |nodes| dead_nodes(nodes, 64));
}

fn launch_of(nodes: u32) -> LaunchData {
    LaunchData {
        universe: nodes,
        hosts: Hosts::new((1..=nodes).map(|number| format!("node{number:04}")).collect()),
        rank_nodes: (0..nodes).flat_map(|node| std::iter::repeat_n(node, RANKS as usize)).collect(),
        ..testing::launch()
    }
}

#[test]
fn the_launch_message_does_not_grow_with_the_job() {
    let [small, .., large] = SIZES.map(|nodes| launch_of(nodes).to_bytes().unwrap().len());
    println!("the launch message has {small} bytes for 128 nodes, {large} for 1,024");
    assert!(large < small + 32, "{small} became {large}");
    // The first packet to ringwatchd has a limit; 100,000 ranks are far from it.
    assert!(launch_of(1600).to_bytes().unwrap().len() < 1024);
}

/// The lengths of the datagrams with which a node learns the addresses of all nodes.
fn lengths_of_addresses(nodes: u32, address: impl Fn(u32) -> SocketAddr) -> Vec<usize> {
    let roster: Vec<_> = (0..nodes).map(address).collect();
    let mut sealer = Sealer::new(1, [7; 32], 0, 0);
    let length = |part| {
        let mut bytes = Vec::new();
        sealer.seal(1, 0, part, &mut bytes);
        bytes.len()
    };
    roster_messages(&roster).iter().map(length).collect()
}

#[test]
fn consecutive_addresses_with_one_port_do_not_grow_with_the_job() {
    let address = |node: u32| SocketAddr::from(([10, 0, (node >> 8) as u8, node as u8], 40_000));
    let [small, .., large] = SIZES.map(|nodes| lengths_of_addresses(nodes, address));
    println!("the addresses of 128 nodes have {small:?} bytes, those of 1,024 {large:?}");
    assert!(large.len() == 1 && large[0] <= small[0] + 1);
}

#[test]
fn other_addresses_of_1024_nodes_take_a_few_datagrams_for_each() {
    let scattered = |node: u32| SocketAddr::from(([10, node as u8, (node >> 8) as u8, 1], 40_000 + node as u16));
    let lengths = lengths_of_addresses(1024, scattered);
    assert!(*lengths.iter().max().unwrap() <= 1400 && lengths.len() <= 8, "{lengths:?}");
}
