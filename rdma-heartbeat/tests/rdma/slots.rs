//! What a peer may write, and what comes of what it may not.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use node_abi::launch::{FromDaemon, LaunchData};
use node_abi::segment::Phase;
use propagation::{Message, NodeReason};
use rdma_heartbeat::session::network::Network;
use rdma_heartbeat::transport::verbs::words::Offer;
use rdma_heartbeat::transport::{AtOnce, Flags, Inlet, Means, Outlet, Udp, Verbs};

use crate::cluster::{Node, eventually, launch};
use crate::{PERIOD, TIMEOUT, address_of, guest, meet, shared};

/// A slot of this guest's device, and who writes there from the same device, by an offer that is changed on the way.
fn connected(verbs: &mut Verbs, change: impl FnOnce(&mut Offer)) -> (Box<dyn Inlet>, Box<dyn Outlet>) {
    let own = address_of(0, guest() - 1);
    let mut inlet = verbs.open(own, 5).unwrap();
    let mut offer: Offer = postcard::from_bytes(&inlet.offer()).unwrap();
    change(&mut offer);
    let outlet = verbs.attach(own, &postcard::to_stdvec(&offer).unwrap(), 5).unwrap();
    inlet.connect(&outlet.answer()).unwrap();
    (inlet, outlet)
}

#[test]
fn a_peer_can_write_its_slot_with_its_key_and_nothing_else() {
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let mut attempt = |change: fn(&mut Offer)| {
        let (inlet, mut outlet) = connected(&mut verbs, change);
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
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let (inlet, mut outlet) = connected(&mut verbs, |_| ());
    for number in 1..=300 {
        outlet.store(number).unwrap();
        eventually("the write arrives", || (inlet.load() == number).then_some(()));
    }
    meet("queue");
}

#[test]
fn flags_that_nobody_acknowledges_are_not_enough_and_the_device_gives_up() {
    // The device tries for about that long, many writes.
    let mut verbs = Verbs::new(10 * PERIOD).expect("a virtual machine has an RDMA device");
    let (inlet, mut outlet) = connected(&mut verbs, |_| ());
    eventually("a write is acknowledged", || outlet.store(1).unwrap().then_some(()));
    drop(inlet);
    let enough = (0..10).take_while(|_| outlet.store(2) == Ok(true)).count();
    assert!(enough <= 6, "{enough} flags were enough");
    assert_eq!(outlet.store(2), Ok(false));
    let why = eventually("the device gives a write up", || outlet.store(3).err());
    assert_eq!(why, "the other side's device does not answer");
    meet("gone");
}

#[test]
fn a_slot_of_another_peer_is_out_of_reach_even_with_its_key() {
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let other = verbs.open(address_of(0, guest() - 1), 5).unwrap();
    let theirs: Offer = postcard::from_bytes(&other.offer()).unwrap();
    let (_inlet, mut outlet) = connected(&mut verbs, |offer| (offer.address, offer.key) = (theirs.address, theirs.key));
    let why = eventually("the write ends", || outlet.store(1).err());
    assert_eq!((why.as_str(), other.load()), ("the other side's device refuses the key of the slot", 0));
    meet("other key");
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
            let now = platform::clock::now();
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
            assert_eq!(flags.look(now), None);
            std::thread::sleep(PERIOD / 4);
            self.over.exists().then_some(())
        });
    }
}

/// A whole `ringwatchd` on one guest, and on the other a node that offers it slots with a wrong key.
#[test]
fn a_wrong_key_is_said_in_the_log_and_heartbeats_stay_datagrams() {
    let pair = Pair::of("wrong-key", 15);
    if guest() == 1 {
        pair.node_0(|node| {
            let line = "the other side's device refuses the key of the slot";
            eventually("the log says so", || node.stderr().contains(line).then_some(()));
            let before = node.report().counters["heartbeats sent"];
            let name = node.status_name();
            eventually("datagrams go on", || {
                (rdma_heartbeat::report::status::ask(&name).ok()?.counters["heartbeats sent"] >= before + 10)
                    .then_some(())
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
