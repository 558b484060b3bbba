//! Flags by RDMA writes between real `ringwatchd`s in two virtual machines. `scripts/test` runs this program in both at
//! the same time, test by test; a test meets its other half through files of the folder that both see.
//!
//! Four nodes, 0 and 2 on one guest, 1 and 3 on the other: every heartbeat crosses the link, until somebody dies.

mod cluster;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cluster::{Node, eventually, launch, send_signal};
use nix::sys::signal::Signal;
use propagation::{Message, NodeReason};
use rdma_heartbeat::launch::{Carrier, End, FromDaemon, LaunchData};
use rdma_heartbeat::network::Network;
use rdma_heartbeat::segment::{Entry, Phase};
use rdma_heartbeat::status::Report;
use rdma_heartbeat::transport::verbs::words::Offer;
use rdma_heartbeat::transport::{AtOnce, Flags, Inlet, Means, Outlet, Udp, Verbs};

/// An emulated machine takes its time.
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(4);
const NODES: [u32; 4] = [0, 1, 2, 3];
const SHARED: &str = "/run/guests";

fn guest() -> u32 {
    let guest = std::env::var("RW_GUEST").ok().and_then(|guest| guest.parse().ok());
    guest.expect("these tests need two virtual machines with RDMA: run scripts/test")
}

fn address_of(job: u64, node: u32) -> SocketAddr {
    let port = 7000 + 10 * u16::try_from(job).unwrap() + u16::try_from(node).unwrap();
    ([10, 78, 0, 1 + u8::try_from(node % 2).unwrap()], port).into()
}

fn shared(name: &str) -> PathBuf {
    Path::new(SHARED).join(name)
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
        Self::start_as(name, job, transport, |_, _| ())
    }

    /// The same, with a change for each node.
    fn start_as(name: &'static str, job: u64, transport: Carrier, change: fn(u32, &mut LaunchData)) -> Self {
        let mut launch = launch(&[1; NODES.len()]);
        launch.job = job;
        launch.nspace = name.into();
        launch.rendezvous = vec![address_of(job, 0)];
        launch.parameters.period = PERIOD;
        launch.parameters.timeout = TIMEOUT;
        launch.parameters.transport = transport;
        let here = NODES.into_iter().filter(|node| node % 2 + 1 == guest());
        let start = |node| {
            let socket = UdpSocket::bind(address_of(job, node)).unwrap();
            let mut launch = launch.clone();
            change(node, &mut launch);
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

/// As a virtual machine is that somebody has paused: its own daemons only see that time has gone by.
#[test]
fn a_guest_that_is_stopped_is_dead_and_ends_its_ranks_when_it_goes_on() {
    let mut half = Half::start("stopped", 11, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    if guest() == 1 {
        std::fs::write(shared("stop.2"), "").unwrap();
        half.expect_silence(1);
        half.expect_silence(3);
        half.until_flags();
        half.until("two nodes are left", |report| report.emitter == report.observer);
        std::fs::write(shared("go-on.2"), "").unwrap();
    } else {
        for node in half.nodes.values_mut() {
            let (reason, sentence) = node.expect_end();
            assert!(matches!(reason, End::DeclaredDead | End::CutOff), "{sentence}");
        }
    }
    half.meet("end");
    if guest() == 1 {
        let dead = |node: &Node| node.deaths().into_iter().filter(|entry| matches!(entry, Entry::Node(_))).count();
        assert!(half.nodes.values().all(|node| dead(node) == 2));
    }
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

/// Guest 2 lacks something, of which it is told how it goes and how it comes back.
fn watched_by_datagrams(name: &'static str, job: u64, [goes, comes_back]: [&str; 2]) {
    if guest() == 2 {
        run(goes);
    }
    meet(&format!("{name}.gone"));
    let mut half = Half::start(name, job, Carrier::Verbs);
    half.until("the ring is closed", |report| report.last_heartbeat_us.is_some());
    half.until("heartbeats have come for a while", |report| report.counters["heartbeats received"] >= 10);
    half.until("no flags", |report| report.emitter_means.is_none() && report.observer_means.is_none());
    for node in half.nodes.values() {
        if guest() == 1 {
            let line = "heartbeats from this node stay datagrams";
            eventually("the log says so", || node.stderr().contains(line).then_some(()));
        }
    }
    half.assert_nobody_declared();
    half.meet("end");
    if guest() == 2 {
        run(comes_back);
    }
    meet(&format!("{name}.back"));
}

#[test]
fn a_guest_without_rdma_is_watched_by_datagrams() {
    watched_by_datagrams("without", 5, ["rdma link delete rxe0", "rdma link add rxe0 type rxe netdev eth0"]);
}

#[test]
fn a_guest_with_rdma_and_without_libibverbs_is_watched_by_datagrams() {
    let library = "$(readlink -f /usr/lib/*/libibverbs.so.1)";
    let commands = [format!("mount --bind /dev/null {library}"), format!("umount {library}")];
    watched_by_datagrams("library", 12, commands.each_ref().map(String::as_str));
}

#[test]
fn a_peer_can_write_its_slot_with_its_key_and_nothing_else() {
    let own = address_of(0, guest() - 1);
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
fn flags_go_on_after_more_than_the_queue_has_room_for() {
    let own = address_of(0, guest() - 1);
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let mut inlet = verbs.open(own, 5).unwrap();
    let mut outlet = verbs.attach(own, &inlet.offer(), 5).unwrap();
    inlet.connect(&outlet.answer()).unwrap();
    for number in 1..=300 {
        outlet.store(number).unwrap();
        eventually("the write arrives", || (inlet.load() == number).then_some(()));
    }
    meet("queue");
}

#[test]
fn a_slot_of_another_peer_is_out_of_reach_even_with_its_key() {
    let own = address_of(0, guest() - 1);
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

/// Switches this guest off, at once.
fn go_down() -> ! {
    std::fs::write("/proc/sysrq-trigger", "b").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn whole_guest_dies() {
    let mut half = Half::start("guest", 6, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    if guest() == 2 {
        // What follows cannot be told any more.
        std::fs::write(shared("status.2"), "0\n").unwrap();
        go_down();
    }
    half.expect_silence(1);
    half.expect_silence(3);
    half.until_flags();
    assert_eq!(half.nodes[&0].report().observer, Some(2));
}

/// The survivors' devices know connections to a machine that is a new one: what is left of them harms nobody.
#[test]
fn whole_guest_comes_back() {
    let is_back = shared("went-down").exists();
    if guest() == 2 && !is_back {
        let half = Half::start("before", 8, Carrier::Auto);
        half.until_flags();
        half.meet("flags");
        std::fs::write(shared("went-down"), "").unwrap();
        std::fs::write(shared("restart.2"), "").unwrap();
        go_down();
    }
    let before = (guest() == 1).then(|| {
        let mut half = Half::start("before", 8, Carrier::Auto);
        half.until_flags();
        half.meet("flags");
        half.expect_silence(1);
        half.expect_silence(3);
        half
    });
    let mut half = Half::start("after", 9, Carrier::Auto);
    half.until_flags();
    half.meet("flags");
    half.assert_nobody_declared();
    if let Some(before) = before {
        before.until_flags();
        for node in before.nodes.values() {
            let nodes = node.deaths().into_iter().filter(|entry| matches!(entry, Entry::Node(_))).count();
            assert_eq!(nodes, 2, "{:?}", node.deaths());
        }
    }
    half.meet("end");
}

/// Offers the slots of the device with a key that is not theirs.
struct WrongKey(Verbs);

struct Misnamed(Box<dyn Inlet>);

impl Means for WrongKey {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&mut self, peer: SocketAddr, first_packet: u32) -> Result<Box<dyn Inlet>, String> {
        Ok(Box::new(Misnamed(self.0.open(peer, first_packet)?)))
    }

    fn attach(&mut self, _: SocketAddr, _: &[u8], _: u32) -> Result<Box<dyn Outlet>, String> {
        Err("it only observes".into())
    }
}

impl Inlet for Misnamed {
    fn offer(&self) -> Vec<u8> {
        let mut offer: Offer = postcard::from_bytes(&self.0.offer()).unwrap();
        offer.key ^= 0xff00;
        postcard::to_stdvec(&offer).unwrap()
    }

    fn connect(&mut self, answer: &[u8]) -> Result<(), String> {
        self.0.connect(answer)
    }

    fn load(&self) -> u64 {
        self.0.load()
    }
}

/// Writes another value than it is to write, with the device's own right to do so.
struct Forging(Verbs);

struct Forged(Box<dyn Outlet>);

impl Means for Forging {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&mut self, _: SocketAddr, _: u32) -> Result<Box<dyn Inlet>, String> {
        Err("it only emits".into())
    }

    fn attach(&mut self, peer: SocketAddr, offer: &[u8], first_packet: u32) -> Result<Box<dyn Outlet>, String> {
        Ok(Box::new(Forged(self.0.attach(peer, offer, first_packet)?)))
    }
}

impl Outlet for Forged {
    fn answer(&self) -> Vec<u8> {
        self.0.answer()
    }

    fn store(&mut self, value: u64) -> Result<bool, String> {
        self.0.store(value ^ 1)
    }
}

/// A job of node 0, a whole `ringwatchd` on the first guest, and node 1, which is none, on the second.
struct Pair {
    launch: LaunchData,
    socket: UdpSocket,
    roster: Vec<SocketAddr>,
    over: PathBuf,
}

impl Pair {
    fn of(name: &str, job: u64) -> Self {
        let mut launch = launch(&[1, 1]);
        (launch.job, launch.nspace) = (job, name.into());
        (launch.parameters.period, launch.parameters.timeout) = (PERIOD, TIMEOUT);
        let roster = vec![address_of(job, 0), address_of(job, 1)];
        let socket = UdpSocket::bind(roster[guest() as usize - 1]).unwrap();
        meet(name);
        Self { launch, socket, roster, over: shared(&format!("{name}-is-over")) }
    }

    fn node_0(self, look: impl FnOnce(&mut Node)) {
        let mut node = Node::start(&self.launch, 0, self.socket, Some(self.roster), Phase::Running);
        look(&mut node);
        std::fs::write(self.over, "").unwrap();
    }

    /// Plays node 1 with this device until the other guest has seen enough; `beat` is what it does four times a period.
    fn node_1(self, means: impl Means + 'static, mut beat: impl FnMut(&mut Flags, &mut Network)) {
        let workshop = Box::new(AtOnce::new(means));
        let mut flags = Flags::new(Some(workshop), false, self.launch.key, 1, 0, TIMEOUT);
        flags.settle(Some(0), Some(0));
        let mut network = Network::new(Box::new(Udp::new(self.socket.into()).unwrap()), &self.launch, 1, 0);
        network.set_roster(&self.roster);
        eventually("the other guest has seen it", || {
            let now = rdma_heartbeat::clock::now();
            beat(&mut flags, &mut network);
            while let Some(datagram) =
                network.receive().or_else(|| network.receive_heartbeat(now).map(|(heartbeat, _)| heartbeat))
            {
                let answer = match datagram {
                    Some((0, address, Message::Heartbeat { .. })) => flags.heard(now, 0, address),
                    Some((0, address, Message::Transport { word })) => flags.take(now, 0, address, &word),
                    _ => None,
                };
                answer.into_iter().for_each(|word| network.send(0, &Message::Transport { word }));
            }
            while let Some((to, word)) = flags.tend(now) {
                network.send(to, &Message::Transport { word });
            }
            assert_eq!(flags.look(), None);
            std::thread::sleep(PERIOD / 4);
            self.over.exists().then_some(())
        });
    }
}

/// A whole `ringwatchd` on one guest, and on the other a node that offers it slots with a wrong key.
#[test]
fn a_wrong_key_is_said_in_the_log_and_heartbeats_stay_datagrams() {
    let pair = Pair::of("wrong-key", 12);
    if guest() == 1 {
        pair.node_0(|node| {
            let line = "the other side's device refuses the key of the slot";
            eventually("the log says so", || node.stderr().contains(line).then_some(()));
            let before = node.report().counters["heartbeats sent"];
            let name = node.status_name();
            eventually("datagrams go on", || {
                (rdma_heartbeat::status::ask(&name).ok()?.counters["heartbeats sent"] >= before + 10).then_some(())
            });
            assert!(node.daemon.try_wait().unwrap().is_none() && node.deaths().is_empty(), "{}", node.stderr());
        });
    } else {
        let verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
        pair.node_1(WrongKey(verbs), |_, network| network.send(0, &Message::Heartbeat { count: 1 }));
    }
    meet("wrong key is over");
}

/// The device lets it write the slot of a running `ringwatchd`: no value without the job's key is a heartbeat there.
#[test]
fn forged_values_in_a_slot_are_no_heartbeats_and_their_sender_is_declared() {
    let pair = Pair::of("forged", 14);
    if guest() == 1 {
        pair.node_0(|node| {
            node.expect("NodeDead", |packet| match packet {
                FromDaemon::NodeDead { node: 1, reason: NodeReason::Silent, .. } => Some(()),
                _ => None,
            });
            let counters = node.report().counters;
            assert!(counters["flags refused"] >= 10 && counters["flags seen"] == 0, "{counters:?}");
        });
    } else {
        let verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
        let mut writes = false;
        pair.node_1(Forging(verbs), |flags, network| {
            writes |= flags.raise(0);
            if !writes {
                network.send(0, &Message::Heartbeat { count: 1 });
            }
        });
        assert!(writes, "its writes were acknowledged");
    }
    meet("forged is over");
}

/// A remote shell to the other guest: sends the command there in a line, and then its own input.
const REMOTE_SHELL: &str = "\
exec 3<>/dev/tcp/$1/9000 4<&0
printf '%s\\n' \"$2\" >&3
cat <&3 &
cat <&4 >&3 &
wait -n
kill %1 %2 2>/dev/null
";

/// The other end of the remote shell, for one command after the other.
fn answer_remote_shells() {
    let listener = TcpListener::bind("0.0.0.0:9000").unwrap();
    std::thread::spawn(move || {
        for link in listener.incoming() {
            let link = link.unwrap();
            let mut line = String::new();
            // Not a byte more than the line is for this process.
            BufReader::with_capacity(1, &link).read_line(&mut line).unwrap();
            let (input, output) = (link.try_clone().unwrap(), link);
            let mut command = Command::new("sh");
            command.arg("-c").arg(line).stdin(Stdio::from(std::os::fd::OwnedFd::from(input)));
            let mut child = command.stdout(Stdio::from(std::os::fd::OwnedFd::from(output))).spawn().unwrap();
            drop(command);
            child.wait().unwrap();
        }
    });
}

/// Node 2 is a host on the first guest that the second one serves.
fn served(node: u32, launch: &mut LaunchData) {
    if node == 2 {
        launch.agent = format!("bash {SHARED}/remote-shell");
        launch.parameters.offload = vec![(rdma_heartbeat::logging::host(), "10.78.0.2".into())];
    }
}

#[test]
fn a_host_on_one_guest_is_served_by_the_other() {
    if guest() == 2 {
        answer_remote_shells();
    } else {
        std::fs::write(shared("remote-shell"), REMOTE_SHELL).unwrap();
    }
    meet("remote shell");
    let mut half = Half::start_as("served", 10, Carrier::Auto, served);
    half.until("the ring is closed", |report| report.last_heartbeat_us.is_some());
    if let Some(node) = half.here(2) {
        let name = node.status_name();
        eventually("the host raises flags on the other guest", || {
            let report = rdma_heartbeat::status::ask(&name).ok()?;
            (report.offload_means.as_deref() == Some("verbs")).then_some(())
        });
    }
    half.meet("flags");
    half.assert_nobody_declared();
    half.meet("a rank is killed");
    if let Some(node) = half.here(2) {
        send_signal(&node.ranks[&2], Signal::SIGKILL);
    }
    for node in half.nodes.values_mut() {
        node.expect("RanksDead", |packet| match packet {
            FromDaemon::RanksDead { ranks, .. } if *ranks == [2] => Some(()),
            _ => None,
        });
    }
    half.meet("the host falls silent");
    if let Some(node) = half.here(2) {
        send_signal(&node.daemon, Signal::SIGSTOP);
    }
    for node in half.nodes.values_mut().filter(|node| node.me != 2) {
        // Not silent on the ring, where the other guest speaks for it: that has said so itself.
        let reason = node.expect("NodeDead", |packet| match packet {
            FromDaemon::NodeDead { node: 2, reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(reason, NodeReason::Resigned);
    }
    half.meet("end");
}

/// Median of the round trips, on the guest that begins; the other one answers.
fn median_round_trip(mut turn: impl FnMut(u64)) -> Duration {
    const ROUNDS: u64 = 400;
    let mut times: Vec<Duration> = (1..=ROUNDS)
        .map(|round| {
            let begin = std::time::Instant::now();
            turn(round);
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Hands bytes to the other guest and takes its own.
fn exchange(place: &str, bytes: &[u8]) -> Vec<u8> {
    std::fs::write(shared(&format!("{place}.bytes.{}", guest())), bytes).unwrap();
    meet(place);
    std::fs::read(shared(&format!("{place}.bytes.{}", 3 - guest()))).unwrap()
}

/// What a notice would gain: datagrams to a process that sleeps until they come, as they are, and RDMA writes to one that
/// looks for them ten thousand times a second.
#[test]
#[ignore = "a measurement, see docs/decisions.md"]
fn round_trips_of_notices() {
    const JOB: u64 = 13;
    let begins = guest() == 1;
    let socket = UdpSocket::bind(address_of(JOB, guest() - 1)).unwrap();
    socket.connect(address_of(JOB, 2 - guest())).unwrap();
    meet("datagrams");
    // A notice of one dead node has about as many bytes.
    let mut notice = [0; 64];
    let datagrams = median_round_trip(|_| {
        if begins {
            socket.send(&notice).unwrap();
        }
        socket.recv(&mut notice).unwrap();
        if !begins {
            socket.send(&notice).unwrap();
        }
    });
    let peer = address_of(JOB, 2 - guest());
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let mut inlet = verbs.open(peer, guest()).unwrap();
    let offer = exchange("offers", &inlet.offer());
    let mut outlet = verbs.attach(peer, &offer, 3 - guest()).unwrap();
    let answer = exchange("answers", &outlet.answer());
    inlet.connect(&answer).unwrap();
    meet("writes");
    let writes = median_round_trip(|round| {
        if begins {
            outlet.store(round).unwrap();
        }
        while inlet.load() < round {
            std::thread::sleep(Duration::from_micros(100));
        }
        if !begins {
            outlet.store(round).unwrap();
        }
    });
    meet("written");
    if begins {
        println!("round trip in the median: {datagrams:?} by datagrams, {writes:?} by RDMA writes");
    }
}
