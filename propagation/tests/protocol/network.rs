//! A whole job on a simulated network: delay, loss, duplication and reordering from a seed; nodes that die,
//! pause and restart, and whose clocks jump; partitions. Every message goes through the wire format.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::RangeInclusive;

use propagation::bundle::pack;
use propagation::wire::{Opener, Rejected, Sealer};
use propagation::{Action, Config, Fact, Member, Message, NodeId, StopReason, Subject, Time};

use crate::{MS, usual};

const JOB: u64 = 1;
const KEY: [u8; 32] = [3; 32];

pub struct Network {
    pub now: Time,
    pub nodes: Vec<Node>,
    /// Microseconds that a datagram takes. A wide range reorders.
    pub delay: RangeInclusive<u64>,
    /// Of 1000 datagrams so many get lost.
    pub loss: u64,
    /// Of 1000 datagrams so many come twice.
    pub duplication: u64,
    /// Messages sent so far, by kind. Those that leave together are as many.
    pub sent: BTreeMap<&'static str, usize>,
    /// Nodes on different sides do not reach each other.
    side: Vec<u8>,
    random: Random,
    in_flight: BinaryHeap<Reverse<Datagram>>,
    count: u64,
}

/// SplitMix64: the same numbers from the same seed, everywhere and for ever.
pub struct Random(pub u64);

impl Random {
    /// A number below `end`, which is above zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Ordered by arrival, then by the order of sending.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    arrival: Time,
    number: u64,
    from: NodeId,
    to: NodeId,
    bytes: Vec<u8>,
}

pub struct Node {
    pub member: Member,
    pub alive: bool,
    pub facts: Vec<Fact>,
    pub stop: Option<(Time, StopReason)>,
    pub held: bool,
    /// How often it was held so far.
    pub holds: usize,
    paused_until: Time,
    /// How far its clock is ahead of [`Network::now`].
    ahead: Time,
    inbox: Vec<Vec<u8>>,
    sealer: Sealer,
    opener: Opener,
}

impl Node {
    fn new(config: Config, dead: &[NodeId], now: Time) -> Node {
        Node {
            sealer: Sealer::new(JOB, KEY, config.me, config.incarnation),
            opener: Opener::new(JOB, KEY, config.me, config.incarnation),
            member: Member::new(config, dead.iter().copied(), now),
            alive: true,
            facts: vec![],
            stop: None,
            held: false,
            holds: 0,
            paused_until: Time::ZERO,
            ahead: Time::ZERO,
            inbox: vec![],
        }
    }

    pub fn dead(&self) -> Vec<NodeId> {
        self.member.dead().map(|death| death.node).collect()
    }

    /// When it has to run next, however late.
    fn wakes(&self) -> Time {
        let inbox = if self.inbox.is_empty() { Time::MAX } else { Time::ZERO };
        let due = self.member.next_deadline().saturating_sub(self.ahead).min(inbox);
        if self.alive { due.max(self.paused_until) } else { Time::MAX }
    }
}

impl Network {
    /// A fault-free network whose datagrams take up to 2 ms.
    pub fn new(universe: u32, arbiter: Option<NodeId>, seed: u64) -> Network {
        Network::with(universe, seed, |config| Config { arbiter, ..config })
    }

    /// The same with other settings than usual.
    pub fn with(universe: u32, seed: u64, settings: impl Fn(Config) -> Config) -> Network {
        let node = |me| Node::new(settings(usual(me, universe, Some(0))), &[], Time::ZERO);
        Network {
            now: Time::ZERO,
            nodes: (0..universe).map(node).collect(),
            delay: 50..=2000,
            loss: 0,
            duplication: 0,
            sent: BTreeMap::new(),
            side: vec![0; universe as usize],
            random: Random(seed),
            in_flight: BinaryHeap::new(),
            count: 0,
        }
    }

    /// Lets so many milliseconds pass.
    pub fn run(&mut self, milliseconds: u32) {
        let end = self.now + milliseconds * MS;
        loop {
            let arrival = self.in_flight.peek().map_or(Time::MAX, |Reverse(next)| next.arrival);
            let wake = self.nodes.iter().map(Node::wakes).min().unwrap_or(Time::MAX);
            let next = arrival.min(wake);
            if next > end {
                self.now = end;
                return;
            }
            assert!(next >= self.now || wake < self.now, "time goes back");
            self.now = next.max(self.now);
            match self.in_flight.pop() {
                Some(Reverse(datagram)) if datagram.arrival <= self.now => self.arrive(datagram),
                datagram => {
                    self.in_flight.extend(datagram);
                    self.wake_due();
                }
            }
        }
    }

    pub fn kill(&mut self, node: NodeId) {
        self.nodes[node as usize].alive = false;
    }

    /// The process does not run for so many milliseconds; what is sent to it waits.
    pub fn pause(&mut self, node: NodeId, milliseconds: u32) {
        let until = &mut self.nodes[node as usize].paused_until;
        *until = (self.now + milliseconds * MS).max(*until);
    }

    /// The node's clock jumps forward by so many milliseconds, as that of a machine that was suspended may.
    pub fn jump(&mut self, node: NodeId, milliseconds: u32) {
        self.nodes[node as usize].ahead += milliseconds * MS;
    }

    /// The process is replaced by a new one that knows the dead the old one knew. Facts are kept, and so are
    /// the ranks held.
    pub fn restart(&mut self, node: NodeId) {
        let old = &mut self.nodes[node as usize];
        let config = old.member.config().clone();
        let config = Config { incarnation: config.incarnation + 1, ..config };
        let (facts, ahead, held) = (std::mem::take(&mut old.facts), old.ahead, old.held);
        *old = Node { facts, ahead, ..Node::new(config, &old.dead(), self.now + ahead) };
        if held {
            self.call(node, |member, _, out| member.keep_holding(out));
        }
    }

    /// So many nodes join, which `sponsor` announces; their members know who it holds dead.
    pub fn join(&mut self, sponsor: NodeId, count: u32) {
        let old = &self.nodes[sponsor as usize];
        let (settings, dead) = (old.member.config().clone(), old.dead());
        let before = self.nodes.len() as u32;
        for me in before..before + count {
            let config = Config { me, universe: before + count, incarnation: 0, ..settings.clone() };
            let mut node = Node::new(config, &dead, self.now);
            // As if it had heard what it was told at its start.
            let known = |fact: &&Fact| matches!(fact.subject, Subject::Node { .. });
            node.facts = self.nodes[sponsor as usize].facts.iter().filter(known).copied().collect();
            self.nodes.push(node);
            self.side.push(0);
        }
        self.call(sponsor, |member, now, out| member.grow(now, before + count, out));
    }

    /// From now on only nodes on the same side reach each other; nothing under way gets across.
    pub fn split(&mut self, side: impl Fn(NodeId) -> bool) {
        self.side = (0..).map(|node| u8::from(side(node))).take(self.nodes.len()).collect();
    }

    pub fn heal(&mut self) {
        self.side.fill(0);
    }

    /// Calls one of a member's own inputs.
    pub fn call(&mut self, node: NodeId, input: impl FnOnce(&mut Member, Time, &mut Vec<Action>)) {
        let mut out = vec![];
        let Node { member, ahead, .. } = &mut self.nodes[node as usize];
        input(member, self.now + *ahead, &mut out);
        self.carry_out(node, out);
    }

    /// Whether a node takes part at this moment: it lives, has not stopped and is not paused.
    pub fn runs(&self, node: NodeId) -> bool {
        let Node { alive, stop, paused_until, .. } = self.nodes[node as usize];
        alive && stop.is_none() && paused_until <= self.now
    }

    /// The nodes that neither died nor stopped.
    pub fn survivors(&self) -> Vec<NodeId> {
        let survives = |node: &NodeId| {
            let node = &self.nodes[*node as usize];
            node.alive && node.stop.is_none()
        };
        (0..self.nodes.len() as u32).filter(survives).collect()
    }

    /// Checks that all survivors hold exactly these nodes dead, heard of each exactly once, and form one ring.
    pub fn assert_settled(&self, dead: &[NodeId]) {
        if let Err(what) = self.settled(dead) {
            panic!("{what}");
        }
    }

    /// The same for those who ask again; what is not so otherwise.
    pub fn settled(&self, dead: &[NodeId]) -> Result<(), String> {
        let survivors = self.survivors();
        for (place, &node) in survivors.iter().enumerate() {
            let Node { member, facts, .. } = &self.nodes[node as usize];
            let known = self.nodes[node as usize].dead();
            let mut told: Vec<_> = facts.iter().filter_map(dead_node).collect();
            told.sort_unstable();
            if known != dead || told != dead {
                return Err(format!("node {node} holds {known:?} dead and was told of {told:?}, dead are {dead:?}"));
            }
            let universe = member.config().universe;
            if universe as usize != self.nodes.len() {
                return Err(format!("node {node} knows {universe} nodes, not {}", self.nodes.len()));
            }
            let next = survivors[(place + 1) % survivors.len()];
            let (observer, emitter) = (member.observer(), self.nodes[next as usize].member.emitter());
            if survivors.len() > 1 && (observer, emitter) != (Some(next), Some(node)) {
                return Err(format!("node {node} reports to {observer:?}, and {next} watches {emitter:?}"));
            }
        }
        Ok(())
    }

    fn wake_due(&mut self) {
        for me in 0..self.nodes.len() {
            let node = &mut self.nodes[me];
            if node.wakes() > self.now {
                continue;
            }
            let (mut out, now) = (vec![], self.now + node.ahead);
            for bytes in std::mem::take(&mut node.inbox) {
                match node.opener.open(&bytes) {
                    Ok((from, message)) => node.member.handle(now, from, message, &mut out),
                    Err(Rejected::OtherLife(to)) => out.push(Action::Send { to, message: Message::NewLife }),
                    Err(_) => {}
                }
            }
            if node.member.next_deadline() <= now {
                node.member.tick(now, &mut out);
                assert!(node.member.next_deadline() > now, "a deadline that does not go away");
            }
            self.carry_out(me as NodeId, out);
        }
    }

    fn arrive(&mut self, datagram: Datagram) {
        let reachable = self.side[datagram.from as usize] == self.side[datagram.to as usize];
        let node = &mut self.nodes[datagram.to as usize];
        if reachable && node.alive {
            node.inbox.push(datagram.bytes);
            self.wake_due();
        }
    }

    fn carry_out(&mut self, me: NodeId, out: Vec<Action>) {
        let mut messages = vec![];
        for action in out {
            match action {
                Action::Send { to, message } => {
                    *self.sent.entry(kind(&message)).or_default() += 1;
                    messages.push((to, message));
                }
                Action::Deliver(fact) => self.nodes[me as usize].facts.push(fact),
                Action::Stop(reason) => {
                    let stop = self.nodes[me as usize].stop.replace((self.now, reason));
                    assert_eq!(stop, None, "node {me} stops twice");
                }
                Action::Hold => {
                    let held = std::mem::replace(&mut self.nodes[me as usize].held, true);
                    assert!(!held, "node {me} holds twice");
                    self.nodes[me as usize].holds += 1;
                }
                Action::Release => {
                    let held = std::mem::replace(&mut self.nodes[me as usize].held, false);
                    assert!(held, "node {me} releases what it does not hold");
                }
                Action::NodeReady(_) => {}
            }
        }
        for (to, message) in pack(messages) {
            self.send(me, to, &message);
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: &Message) {
        assert_ne!(from, to);
        let mut bytes = vec![];
        let Node { sealer, opener, .. } = &mut self.nodes[from as usize];
        sealer.seal(to, opener.life_of(to), message, &mut bytes);
        let copies = if self.chance(self.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            if self.chance(self.loss) || self.side[from as usize] != self.side[to as usize] {
                continue;
            }
            let (shortest, longest) = (*self.delay.start(), *self.delay.end());
            let delay = shortest + self.random.below(longest - shortest + 1);
            let arrival = self.now + Time::from_micros(delay);
            self.count += 1;
            let (number, bytes) = (self.count, bytes.clone());
            self.in_flight.push(Reverse(Datagram { arrival, number, from, to, bytes }));
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.below(1000) < per_mille
    }
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::Heartbeat { .. } => "heartbeat",
        Message::Notice(_) => "notice",
        Message::Ack { .. } => "ack",
        Message::Complete { .. } => "complete",
        Message::Done { .. } => "done",
        _ => "other",
    }
}

fn dead_node(fact: &Fact) -> Option<NodeId> {
    match fact.subject {
        Subject::Node { node, .. } => Some(node),
        _ => None,
    }
}
