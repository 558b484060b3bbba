//! Flags by RDMA writes between real `ringwatchd`s in two virtual machines. `scripts/test` runs this program in both at
//! the same time, test by test; a test meets its other half through files of the folder that both see.
//!
//! Four nodes, 0 and 2 on one guest, 1 and 3 on the other: every heartbeat crosses the link, until somebody dies.

mod cluster;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cluster::{Node, eventually, launch, send_signal};
use nix::sys::signal::Signal;
use propagation::NodeReason;
use rdma_heartbeat::launch::{Carrier, FromDaemon};
use rdma_heartbeat::segment::Phase;
use rdma_heartbeat::status::Report;
use rdma_heartbeat::transport::verbs::Offer;
use rdma_heartbeat::transport::{Means, Verbs};

/// An emulated machine takes its time.
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(4);
const NODES: [u32; 4] = [0, 1, 2, 3];
const SHARED: &str = "/run/guests";

fn guest() -> u32 {
    let guest = std::env::var("RW_GUEST").ok().and_then(|guest| guest.parse().ok());
    guest.expect("these tests need two virtual machines with RDMA: run scripts/test")
}

fn address_of(node: u32) -> SocketAddr {
    ([10, 78, 0, 1 + u8::try_from(node % 2).unwrap()], 7000 + u16::try_from(node).unwrap()).into()
}

/// Waits until the other guest has come to the same place.
fn meet(place: &str) {
    let file = |guest| format!("{SHARED}/{place}.{guest}");
    std::fs::write(file(guest()), "").unwrap();
    eventually(place, || Path::new(&file(3 - guest())).exists().then_some(()));
}

/// This guest's part of a job.
struct Half {
    name: &'static str,
    nodes: BTreeMap<u32, Node>,
}

impl Half {
    fn start(name: &'static str, job: u64, transport: Carrier) -> Self {
        let mut launch = launch(&[1; NODES.len()]);
        launch.job = job;
        launch.nspace = name.into();
        launch.rendezvous = vec![address_of(0)];
        launch.parameters.period = PERIOD;
        launch.parameters.timeout = TIMEOUT;
        launch.parameters.transport = transport;
        let here = NODES.into_iter().filter(|node| node % 2 + 1 == guest());
        let start = |node| {
            let socket = UdpSocket::bind(address_of(node)).unwrap();
            (node, Node::start(&launch, node, socket, None, Phase::Running))
        };
        Self { name, nodes: here.map(start).collect() }
    }

    fn meet(&self, place: &str) {
        meet(&format!("{}.{place}", self.name));
    }

    fn here(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    /// Waits until every daemon here says this of itself.
    fn until(&self, what: &str, holds: impl Fn(&Report) -> bool) {
        for node in self.nodes.values() {
            let name = node.status_name();
            eventually(what, || rdma_heartbeat::status::ask(&name).ok().filter(&holds));
        }
    }

    /// Waits until all heartbeats from and to this guest are flags.
    fn until_flags(&self) {
        self.until("heartbeats are flags", |report| {
            let means = [&report.emitter_means, &report.observer_means];
            means.iter().all(|means| means.as_deref() == Some("verbs")) && report.last_heartbeat_us.is_some()
        });
    }

    fn assert_nobody_declared(&mut self) {
        for node in self.nodes.values_mut() {
            node.drain();
            assert!(node.deaths().is_empty(), "node {}: {:?}", node.me, node.deaths());
        }
    }

    /// Waits until the nodes here have heard that a node fell silent.
    fn expect_silence(&mut self, dead: u32) {
        for node in self.nodes.values_mut().filter(|node| node.me != dead) {
            node.expect("NodeDead", |packet| match packet {
                FromDaemon::NodeDead { node, reason: NodeReason::Silent, .. } if *node == dead => Some(()),
                _ => None,
            });
        }
    }
}

fn run(command: &str) {
    assert!(Command::new("sh").arg("-c").arg(command).status().unwrap().success(), "{command}");
}

#[test]
fn heartbeats_are_flags_and_no_datagrams_are_left() {
    let mut half = Half::start("flags", 1, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    for node in half.nodes.values() {
        let before = node.report().counters;
        let name = node.status_name();
        let after = eventually("ten more flags", || {
            let counters = rdma_heartbeat::status::ask(&name).ok()?.counters;
            let more = |kind: &str| counters[kind] >= before[kind] + 10;
            (more("flags seen") && more("flags raised")).then_some(counters)
        });
        for kind in ["heartbeats sent", "heartbeats received", "flags refused"] {
            assert_eq!(after[kind], before[kind], "{kind}");
        }
    }
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn flags_arrive_while_their_observer_is_stopped() {
    let mut half = Half::start("one-sided", 7, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGSTOP);
    }
    half.meet("stopped");
    // A write that nobody takes is given up after one period.
    if let Some(node) = half.here(1) {
        let before = node.report();
        let after = eventually("six more flags", || {
            let report = node.report();
            (report.counters["flags raised"] >= before.counters["flags raised"] + 6).then_some(report)
        });
        assert_eq!(after.observer_means.as_deref(), Some("verbs"), "{}", node.stderr());
        assert_eq!(after.counters["heartbeats sent"], before.counters["heartbeats sent"]);
    }
    half.meet("raised");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGCONT);
        eventually("the last of them is seen", || (node.report().counters["flags overtaken"] >= 5).then_some(()));
    }
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn a_daemon_that_is_stopped_for_a_while_or_started_again_is_not_missed() {
    let mut half = Half::start("again", 2, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    // To one node each of these happens at its emitter, to another at its observer.
    if let Some(node) = half.here(1) {
        node.kill_daemon();
        node.restart_daemon();
    }
    half.meet("restarted");
    half.until_flags();
    half.meet("flags again");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGSTOP);
        std::thread::sleep(TIMEOUT / 4);
        send_signal(&node.daemon, Signal::SIGCONT);
    }
    half.meet("continued");
    half.until_flags();
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn a_silent_node_is_declared_and_the_ring_closes_with_flags() {
    let mut half = Half::start("silent", 3, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    if let Some(node) = half.here(1) {
        node.kill_daemon();
    }
    half.expect_silence(1);
    half.nodes.remove(&1);
    // From node 0 to node 2 now, which is the same device.
    half.until_flags();
    half.meet("closed");
    if let Some(node) = half.here(3) {
        send_signal(&node.daemon, Signal::SIGSTOP);
    }
    half.expect_silence(3);
    half.nodes.remove(&3);
    half.until_flags();
    half.until("two nodes are left", |report| report.emitter == report.observer);
    half.meet("end");
}

#[test]
fn a_port_that_goes_down_and_comes_up_again_carries_flags_again() {
    let mut half = Half::start("port", 4, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    if guest() == 2 {
        run("ip link set eth0 down && sleep 1 && ip link set eth0 up");
    }
    half.meet("up");
    half.until_flags();
    half.assert_nobody_declared();
    half.meet("end");
}

#[test]
fn a_guest_without_rdma_is_watched_by_datagrams() {
    if guest() == 2 {
        run("rdma link delete rxe0");
    }
    meet("without");
    let mut half = Half::start("without", 5, Carrier::Verbs);
    half.until("the ring is closed", |report| report.last_heartbeat_us.is_some());
    half.until("heartbeats have come for a while", |report| report.counters["heartbeats received"] >= 10);
    half.until("no flags", |report| report.emitter_means.is_none() && report.observer_means.is_none());
    for node in half.nodes.values() {
        if guest() == 1 {
            assert!(node.stderr().contains("heartbeats from this node stay datagrams"), "{}", node.stderr());
        }
    }
    half.assert_nobody_declared();
    half.meet("end");
    if guest() == 2 {
        run("rdma link add rxe0 type rxe netdev eth0");
    }
    meet("with");
}

#[test]
fn a_peer_can_write_its_slot_with_its_key_and_nothing_else() {
    let own = address_of(guest() - 1);
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let mut attempt = |change: fn(&mut Offer)| {
        let mut inlet = verbs.open(own, 5).unwrap();
        let mut offer: Offer = postcard::from_bytes(&inlet.offer()).unwrap();
        change(&mut offer);
        let mut outlet = verbs.attach(own, &postcard::to_stdvec(&offer).unwrap(), 5).unwrap();
        inlet.connect(&outlet.answer()).unwrap();
        eventually("the write ends", || match outlet.store(0x0123_4567_89ab_cdef) {
            Ok(acknowledged) => (acknowledged && inlet.load() != 0).then(|| Ok(inlet.load())),
            Err(why) => Some(Err((why, inlet.load()))),
        })
    };
    assert_eq!(attempt(|_| ()), Ok(0x0123_4567_89ab_cdef));
    let refused = Err(("the other side's device refuses the key of the slot".to_owned(), 0));
    assert_eq!(attempt(|offer| offer.key ^= 0xff00), refused, "a wrong key");
    assert_eq!(attempt(|offer| offer.address += 8), refused, "beside its slot");
    assert_eq!(attempt(|offer| offer.address += 1), refused, "partly beside its slot");
    assert_eq!(attempt(|_| ()), Ok(0x0123_4567_89ab_cdef));
    meet("key");
}

#[test]
fn a_slot_of_another_peer_is_out_of_reach_even_with_its_key() {
    let own = address_of(guest() - 1);
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let other = verbs.open(own, 5).unwrap();
    let theirs: Offer = postcard::from_bytes(&other.offer()).unwrap();
    let mut inlet = verbs.open(own, 5).unwrap();
    let mut offer: Offer = postcard::from_bytes(&inlet.offer()).unwrap();
    (offer.address, offer.key) = (theirs.address, theirs.key);
    let mut outlet = verbs.attach(own, &postcard::to_stdvec(&offer).unwrap(), 5).unwrap();
    inlet.connect(&outlet.answer()).unwrap();
    let why = eventually("the write ends", || outlet.store(1).err());
    assert_eq!((why.as_str(), other.load()), ("the other side's device refuses the key of the slot", 0));
    meet("other key");
}

#[test]
fn whole_guest_dies() {
    let mut half = Half::start("guest", 6, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    if guest() == 2 {
        // What follows cannot be told any more.
        std::fs::write(format!("{SHARED}/status.2"), "0\n").unwrap();
        std::fs::write("/proc/sysrq-trigger", "b").unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }
    half.expect_silence(1);
    half.expect_silence(3);
    half.until_flags();
    assert_eq!(half.nodes[&0].report().observer, Some(2));
}
