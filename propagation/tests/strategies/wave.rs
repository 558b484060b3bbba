//! One broadcast among real members on a network without loss, with crashes between any two sends.

use std::collections::BTreeMap;

use propagation::{Action, Config, Member, Message, NodeId, RankReason, RingOrder, Route, Strategy, Subject, Time};

/// The time of a message. Heartbeats play no part: their period is longer than any broadcast.
pub const TAU: Time = Time::from_millis(1);
const NEVER: Time = Time::from_secs(10_000);

#[derive(Clone)]
pub struct Wave {
    members: Vec<Member>,
    /// How many more messages a node sends before it crashes; `None` for never. With 0 it has crashed.
    budgets: Vec<Option<u32>>,
    /// Messages that each node has sent.
    pub sent: Vec<u32>,
    /// How often each node delivered the news, and when first, in message times if these are all the same.
    pub delivered: Vec<u32>,
    pub hops: u32,
    /// How many copies were sent to rescue the broadcast.
    pub rescues: u32,
    /// By arrival, then in the order of sending: receiver, sender, message.
    in_flight: BTreeMap<(Time, u64), (NodeId, NodeId, Message)>,
    count: u64,
    now: Time,
    /// The state of the delays' generator; 0 if every message takes `TAU`.
    random: u64,
}

impl Wave {
    pub fn new(universe: u32, strategy: Strategy, order: &RingOrder) -> Wave {
        let member = |me| {
            let config = Config::new(me, universe, NEVER, NEVER * 2);
            let (arbiter, lossless, order) = (None, true, order.clone());
            let config = Config { arbiter, lossless, order, strategy, tau: TAU, ..config };
            let mut member = Member::new(config, [], Time::ZERO);
            member.tick(Time::ZERO, &mut vec![]);
            member
        };
        let size = universe as usize;
        Wave {
            members: (0..universe).map(member).collect(),
            budgets: vec![None; size],
            sent: vec![0; size],
            delivered: vec![0; size],
            hops: 0,
            rescues: 0,
            in_flight: BTreeMap::new(),
            count: 0,
            now: Time::ZERO,
            random: 0,
        }
    }

    /// Lets a node crash after so many messages.
    pub fn crash(&mut self, node: NodeId, after: u32) {
        self.budgets[node as usize] = Some(after);
    }

    /// Lets messages take any time up to `TAU` instead of all the same.
    #[allow(dead_code, reason = "each program that shares this file uses a part of it")]
    pub fn shuffle(&mut self, seed: u64) {
        self.random = seed | 1;
    }

    /// Broadcasts from `source` until nobody has anything to say or to wait for.
    pub fn run(&mut self, source: NodeId) {
        let mut out = vec![];
        if self.is_alive(source) {
            self.members[source as usize].announce_rank(self.now, 7, RankReason::Stopped, &mut out);
            self.carry_out(source, &mut out);
        }
        loop {
            while let Some(((at, _), (to, from, message))) = self.in_flight.pop_first() {
                self.now = at;
                if self.is_alive(to) {
                    self.members[to as usize].handle(at, from, message, &mut out);
                    self.carry_out(to, &mut out);
                }
            }
            // With nothing in flight the next thing to happen is somebody's patience coming to an end.
            let alive = (0..self.members.len() as u32).filter(|&node| self.is_alive(node));
            let waiting = alive.map(|node| (self.members[node as usize].next_deadline(), node)).min();
            let Some((at, node)) = waiting.filter(|(at, _)| *at < NEVER / 2) else { return };
            self.now = self.now.max(at);
            self.members[node as usize].tick(self.now, &mut out);
            self.carry_out(node, &mut out);
        }
    }

    pub fn is_alive(&self, node: NodeId) -> bool {
        self.budgets[node as usize] != Some(0)
    }

    /// How many messages were sent.
    #[allow(dead_code, reason = "each program that shares this file uses a part of it")]
    pub fn total(&self) -> u32 {
        self.sent.iter().sum()
    }

    /// Whether everybody alive has delivered the news once, or nobody has; and if not, who is left out.
    #[allow(dead_code, reason = "each program that shares this file uses a part of it")]
    pub fn left_out(&self) -> Vec<NodeId> {
        let alive = (0..self.members.len() as u32).filter(|&node| self.is_alive(node));
        let count = |node: &NodeId| self.delivered[*node as usize];
        if alive.clone().all(|node| count(&node) == 0) {
            return vec![];
        }
        alive.filter(|node| count(node) != 1).collect()
    }

    fn carry_out(&mut self, me: NodeId, out: &mut Vec<Action>) {
        for action in out.drain(..) {
            if !self.is_alive(me) {
                break;
            }
            match action {
                Action::Send { message: Message::Heartbeat { .. } | Message::NewObserver, .. } => {}
                Action::Send { to, message } => {
                    if let Some(left) = &mut self.budgets[me as usize] {
                        *left -= 1;
                    }
                    self.sent[me as usize] += 1;
                    self.rescues += u32::from(matches!(&message, Message::Notice(n) if n.route == Route::Rescue));
                    let arrival = self.now + delay(&mut self.random);
                    self.count += 1;
                    self.in_flight.insert((arrival, self.count), (to, me, message));
                }
                Action::Deliver(fact) if matches!(fact.subject, Subject::Rank { .. }) => {
                    self.delivered[me as usize] += 1;
                    self.hops = self.hops.max(self.now.div_duration_f64(TAU).ceil() as u32);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

/// SplitMix64.
fn delay(random: &mut u64) -> Time {
    if *random == 0 {
        return TAU;
    }
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
    let mut mixed = *random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Time::from_nanos(1 + (mixed >> 31) % TAU.as_nanos() as u64)
}
