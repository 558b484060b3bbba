//! A ring under attack: messages that are forged, replayed, sent to another node than they were meant for, truncated,
//! reordered, of a foreign job or of an old version. None is accepted, nothing grows, and failures are found as fast.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::relay::{Passed, Relay};
use crate::cluster::{Cluster, PERIOD, TIMEOUT, eventually, launch, sockets, was_killed};
use nix::sys::signal::Signal;
use node_abi::launch::{End, LaunchData};
use node_abi::segment::{Entry, Phase};
use node_abi::versions::Refusal;
use propagation::wire::{BODY_AT, Sealer};
use propagation::{EndReason, Message, NodeReason, Notice, Route, Subject};
use rdma_heartbeat::report::status;

/// Datagrams to one node between two looks at what it has refused: they fit into the socket's memory.
const BURST: u64 = 100;
const NODES: usize = 4;
/// How often deaths are timed at most.
const ATTEMPTS: usize = 5;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// What an attacker has: datagrams that were sent, and keys of other jobs.
struct Attacker {
    random: Random,
    real: Vec<Passed>,
    job: u64,
    /// Speaks for node 0 with the right job and a wrong key, for a foreign job with a key of its own, and for a foreign
    /// job with the right key.
    impostors: [Sealer; 3],
    nonsense: [Message; 4],
}

impl Attacker {
    fn new(launch: &LaunchData, real: Vec<Passed>) -> Self {
        let notice = |subject| {
            let (dead, reasons, universe, route) = (Vec::new(), Vec::new(), launch.universe, Route::Tree);
            Message::Notice(
                Notice { source: 0, incarnation: 0, seq: 9, subject, suspector: None, dead, reasons, universe, route }
                    .into(),
            )
        };
        Self {
            random: Random(7),
            real,
            job: launch.job,
            impostors: [
                Sealer::new(launch.job, [8; 32], 0, 9),
                Sealer::new(launch.job + 1, [9; 32], 0, 9),
                Sealer::new(launch.job + 1, launch.key, 0, 9),
            ],
            nonsense: [
                Message::Verdict,
                Message::Suspect { node: 1 },
                notice(Subject::End { reason: EndReason::NoSurvivor }),
                notice(Subject::Node { node: 2, reason: NodeReason::Silent }),
            ],
        }
    }

    /// One bad datagram for a node.
    fn next(&mut self, to: usize) -> Vec<u8> {
        let mine: Vec<usize> = (0..self.real.len()).filter(|index| self.real[*index].to == to).collect();
        let pick = mine[self.random.below(mine.len())];
        let mut bytes = self.real[pick].bytes.clone();
        match self.random.below(8) {
            0 => bytes.truncate(self.random.below(bytes.len())),
            1 => {
                let at = self.random.below(bytes.len());
                bytes[at] ^= 1 << self.random.below(8);
            }
            // As it was, late and in any order.
            2 | 3 => {}
            4 => {
                let other = self.real.iter().filter(|passed| passed.to != to);
                let other: Vec<&Passed> = other.collect();
                bytes.clone_from(&other[self.random.below(other.len())].bytes);
            }
            5 => {
                let (who, what) = (self.random.below(3), self.random.below(4));
                self.impostors[who].seal(to as u32, 0, &self.nonsense[what], &mut bytes);
            }
            6 => bytes[2] = self.random.below(3) as u8,
            _ => {
                bytes = (0..self.random.below(200)).map(|_| self.random.below(256) as u8).collect();
                if bytes.len() > 12 {
                    bytes[..2].copy_from_slice(b"RW");
                    bytes[4..12].copy_from_slice(&self.job.to_le_bytes());
                }
            }
        }
        bytes
    }
}

/// Resident memory of a daemon in KiB.
fn memory(cluster: &Cluster, node: usize) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.nodes[node].daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

fn refused(name: &str) -> Option<u64> {
    Some(status::ask(name).ok()?.rejected.values().sum())
}

/// Sends until `enough`, never more than the nodes take in; returns how many each node was sent.
fn attack(
    attacker: &mut Attacker,
    targets: &[(usize, String, std::net::SocketAddr)],
    enough: impl Fn(u64) -> bool,
) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before: Vec<u64> = targets.iter().map(|(_, name, _)| refused(name).unwrap()).collect();
    let mut sent = 0;
    while !enough(sent) {
        for (node, _, address) in targets {
            for _ in 0..BURST {
                socket.send_to(&attacker.next(*node), address).unwrap();
            }
        }
        sent += BURST;
        for ((_, name, _), before) in targets.iter().zip(&before) {
            // Each was refused: none was accepted, and none was lost on the way.
            eventually("the node has taken them", || (refused(name)? >= before + sent).then_some(()));
        }
    }
    for ((_, name, _), before) in targets.iter().zip(&before) {
        assert_eq!(refused(name), Some(before + sent));
    }
    sent
}

fn start() -> (Cluster, Relay) {
    let launch = launch(&[1; NODES]);
    let sockets = sockets(&launch);
    let relay = Relay::new(&sockets);
    let mut cluster = Cluster::start_with(launch, Phase::Running, sockets, |_| Some(relay.roster()));
    cluster.wait_until_ready();
    let all = |passed: &[Passed]| (0..NODES).all(|node| passed.iter().any(|one| one.to == node));
    eventually("every node has been sent something", || all(&relay.passed()).then_some(()));
    (cluster, relay)
}

fn targets(cluster: &Cluster, nodes: &[usize]) -> Vec<(usize, String, std::net::SocketAddr)> {
    nodes.iter().map(|node| (*node, cluster.nodes[*node].status_name(), cluster.nodes[*node].address)).collect()
}

/// How long it takes from a death until all others know: of a rank, and of a silent node.
fn times_of_deaths(cluster: &mut Cluster) -> (Duration, Duration) {
    let begin = Instant::now();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2, 3], &[1]);
    let rank = begin.elapsed();
    let begin = Instant::now();
    cluster.nodes[2].kill_daemon();
    assert_eq!(cluster.expect_node_dead(&[0, 1, 3], 2), (NodeReason::Silent, Some(3)));
    (rank, begin.elapsed())
}

fn nothing_gets_in(count: u64) {
    let (mut cluster, relay) = start();
    let mut attacker = Attacker::new(&cluster.launch, relay.passed());
    let everybody = targets(&cluster, &[0, 1, 2, 3]);
    attack(&mut attacker, &everybody, |sent| sent >= BURST);
    let before: Vec<u64> = (0..NODES).map(|node| memory(&cluster, node)).collect();
    let sent = attack(&mut attacker, &everybody, |sent| sent * NODES as u64 >= count);
    cluster.assert_nobody_declared();
    for (node, before) in before.into_iter().enumerate() {
        let now = memory(&cluster, node);
        println!("node {node}: {sent} bad datagrams, memory {before} KiB before and {now} KiB after");
        assert!(now < before + 512, "node {node} has grown from {before} KiB to {now} KiB");
    }

    // What else the machine does makes a time longer and never shorter.
    let attempts: Vec<bool> = (0..ATTEMPTS).map(|_| deaths_are_found_as_soon()).take_while(|found| !found).collect();
    assert!(attempts.len() < ATTEMPTS, "under attack each of {ATTEMPTS} times deaths are known later, see above");
}

/// Whether under attack all know of deaths as soon as in peace, but for an observation's own spread.
fn deaths_are_found_as_soon() -> bool {
    let (mut quiet, _relay) = start();
    let (rank, node) = times_of_deaths(&mut quiet);
    let (mut cluster, relay) = start();
    let mut attacker = Attacker::new(&cluster.launch, relay.passed());
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let survivors = targets(&cluster, &[0, 1, 3]);
    let (rank_attacked, node_attacked) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let sent = attack(&mut attacker, &survivors, |_| stop.load(Ordering::SeqCst));
            total.store(sent, Ordering::SeqCst);
        });
        let times = times_of_deaths(&mut cluster);
        stop.store(true, Ordering::SeqCst);
        times
    });
    println!("death of a rank: known after {rank:?}, under attack {rank_attacked:?}");
    println!("death of a node: known after {node:?}, under attack {node_attacked:?}");
    assert!(total.load(Ordering::SeqCst) > BURST, "the attack went on meanwhile");
    // The bounds of a ring in peace, see `nodes.rs`, hold each time.
    assert!(rank_attacked < TIMEOUT && node_attacked < TIMEOUT * 2, "{rank_attacked:?} {node_attacked:?}");
    assert!(node_attacked > TIMEOUT / 2, "{node_attacked:?} after its last heartbeat a node is not silent");
    rank_attacked < rank + PERIOD * 2 && node_attacked < node + PERIOD * 3
}

/// Whether a datagram is a heartbeat of this node.
fn is_heartbeat_of(bytes: &[u8], node: u32) -> bool {
    bytes[12..16] == node.to_le_bytes() && bytes[BODY_AT] == 0
}

/// What has forgotten which datagrams it had received must not take them for new.
#[test]
fn heartbeats_that_are_repeated_to_a_restarted_daemon_do_not_hide_a_death() {
    let (mut cluster, relay) = start();
    let recorded: Vec<Passed> = eventually("heartbeats of node 1 pass", || {
        let mut passed = relay.passed();
        passed.retain(|one| one.to == 2 && is_heartbeat_of(&one.bytes, 1));
        (passed.len() >= 30).then_some(passed)
    });
    cluster.nodes[1].kill_daemon();
    cluster.nodes[2].kill_daemon();
    cluster.nodes[2].restart_daemon();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut unused = recorded.iter();
    while !cluster.nodes[0].deaths().contains(&Entry::Node(1)) {
        let heartbeat = unused.next().expect("the death is found although there are heartbeats left to repeat");
        socket.send_to(&heartbeat.bytes, cluster.nodes[2].address).unwrap();
        cluster.let_pass(&[0], TIMEOUT / 3);
    }
    assert_eq!(cluster.expect_node_dead(&[0, 2, 3], 1), (NodeReason::Silent, Some(2)));
    assert!(cluster.nodes[2].report().rejected["other life"] > 0);
}

#[test]
fn of_fifty_thousand_bad_messages_none_gets_in() {
    nothing_gets_in(50_000);
}

#[test]
#[ignore = "takes minutes: a part of scripts/test --full"]
fn of_a_million_bad_messages_none_gets_in() {
    nothing_gets_in(1_000_000);
}

/// What looks like heartbeats wakes nobody up. It must not fill the room for the real ones all the same.
#[test]
fn heartbeats_get_through_a_flood_of_what_looks_like_them() {
    const PERIODS: u32 = 8;
    let mut launch = launch(&[1, 1]);
    // In much less of it the flood has filled the room.
    launch.parameters.period = PERIOD * 25;
    launch.parameters.timeout = PERIOD * 250;
    let cluster = Cluster::running(launch);
    let mut forged = Vec::new();
    Sealer::new(cluster.launch.job, [8; 32], 0, 9).seal(1, 0, &Message::Heartbeat { count: 9 }, &mut forged);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let heard = || cluster.nodes[1].report().counters["heartbeats received"];
    let (before, begin) = (heard(), Instant::now());
    while begin.elapsed() < cluster.launch.parameters.period * PERIODS {
        for _ in 0..30 {
            socket.send_to(&forged, cluster.nodes[1].address).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let heard = heard() - before;
    assert!(heard >= u64::from(PERIODS) - 2, "of {PERIODS} heartbeats {heard} get through");
}

/// Sends on what two nodes say to each other, from an address of its own, until the job is over.
fn stand_between(rendezvous: &UdpSocket, beside: &UdpSocket, node_0: SocketAddr, over: &AtomicBool) {
    let mut caller = None;
    let mut buffer = vec![0; 65_536];
    for socket in [rendezvous, beside] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    while !over.load(Ordering::SeqCst) {
        if let Ok((length, from)) = rendezvous.recv_from(&mut buffer) {
            caller = Some(from);
            beside.send_to(&buffer[..length], node_0).unwrap();
        }
        if let (Ok((length, _)), Some(caller)) = (beside.recv_from(&mut buffer), caller) {
            rendezvous.send_to(&buffer[..length], caller).unwrap();
        }
    }
}

/// However the test ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn who_stands_between_two_nodes_from_the_first_call_on_is_found_out() {
    let mut launch = launch(&[1, 1]);
    let sockets = sockets(&launch);
    let [node_0, node_1] = [0, 1].map(|node: usize| sockets[node].local_addr().unwrap());
    let (between, over) = (UdpSocket::bind("127.0.0.9:0").unwrap(), AtomicBool::new(false));
    let beside = UdpSocket::bind(("127.0.0.9", node_1.port())).unwrap();
    // Stands in for a network that brings what is meant for node 0 elsewhere.
    launch.rendezvous = vec![between.local_addr().unwrap()];
    std::thread::scope(|scope| {
        scope.spawn(|| stand_between(&between, &beside, node_0, &over));
        let _over = Over(&over);
        let mut cluster = Cluster::start_with(launch, Phase::Running, sockets, |_| None);
        // Who is between may even keep its word from node 0: the ranks are safe all the same.
        assert_eq!(cluster.nodes[1].expect_end().0, End::CutOff);
        assert!(was_killed(cluster.rank_end(1)));
        let told = cluster.nodes[1].stderr();
        assert!(told.contains("the node of mpirun knows it as 127.0.0.9:"), "{told}");
    });
}

#[test]
fn a_node_that_is_misplaced_ends_the_job_and_one_that_refuses_later_does_not() {
    let mut cluster = Cluster::start(launch(&[1, 1]), Phase::Initialising);
    eventually("the rendezvous is over", || cluster.nodes[0].stderr().contains("rendezvous is complete").then_some(()));
    let refuse = |cluster: &Cluster, refusal: &Refusal| {
        let datagram = refusal.seal(cluster.launch.job, &cluster.launch.key);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&datagram, cluster.nodes[0].address).unwrap();
    };
    let problem = Refusal::of_problem(1, "h2".into(), "it is elsewhere");
    refuse(&cluster, &problem);
    assert_eq!(cluster.nodes[0].expect_end().1, "node 1 (h2) cannot take part (it is elsewhere); the job is ended");

    let mut cluster = Cluster::running(launch(&[1, 1]));
    let before = cluster.nodes[0].report().counters["messages received"];
    refuse(&cluster, &problem);
    refuse(&cluster, &Refusal::of_releases(1, "h2".into(), "9", "9"));
    // What came after them was taken, and so were they.
    eventually("node 0 has heard more", || {
        (cluster.nodes[0].report().counters["messages received"] > before + 5).then_some(())
    });
    cluster.assert_nobody_declared();
    assert!(cluster.rank_lives(0) && cluster.rank_lives(1));
}
