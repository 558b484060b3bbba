//! Exchanges the nodes' addresses. No I/O.
//!
//! Every node except 0 sends [`Message::Hello`] to each address of node 0 in the launch data, repeatedly, until it has
//! the whole roster. Node 0 takes the source address of each datagram, answers with a `Hello` of its own, which means
//! "received, wait", and once all nodes have called sends the roster to all. It answers a late `Hello` with the roster,
//! because datagrams may get lost.
//!
//! A node with another release of ringwatch cannot take part, and sends a refusal to node 0, which then waits only a
//! moment for further refusals.
//!
//! No node knows which address of node 0 works from everywhere. So each node keeps the address from which its answer
//! came.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use node_abi::versions::Refusal;
use propagation::{Message, NodeId, Time, address_runs};

/// Interval of a waiting node's calls until node 0 has answered; after each answer it doubles.
const CALL_INTERVAL: Duration = Duration::from_millis(20);
/// Its maximum: a lost roster is sent again after so long.
const LONGEST_INTERVAL: Duration = Duration::from_millis(320);
/// How long node 0 waits for further refusals after the first.
const LAST_REFUSALS: Duration = Duration::from_secs(1);
/// Number of runs of addresses in one datagram of the roster: 60 of IPv6 fit into a usual frame of 1500 bytes.
const PART: usize = 60;
/// The same if all are IPv4.
const PART_OF_IPV4: usize = 128;

/// An action for the caller of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this message to a node, at an address.
    Send(NodeId, SocketAddr, Message),
    /// The addresses of all nodes are known.
    Complete(Vec<SocketAddr>),
    /// At node 0: these nodes did not call in time.
    Missing(Vec<NodeId>),
    /// At node 0: these nodes take no part.
    Refused(Vec<Refusal>),
    /// At other nodes: node 0 did not answer in time.
    NoAnswer,
}

/// One node's role in the rendezvous.
#[derive(Debug)]
pub enum Rendezvous {
    /// Node 0.
    Leader(Leader),
    /// Any other node.
    Caller(Caller),
}

/// Time limit of the rendezvous: a launch is slow, whatever the timeout.
#[must_use]
pub fn limit(timeout: Duration) -> Duration {
    (timeout * 10).max(Duration::from_secs(30))
}

impl Rendezvous {
    /// The role of node `me`, whose socket has this port. It fails after `limit`.
    #[must_use]
    pub fn new(me: NodeId, universe: u32, port: u16, rendezvous: &[SocketAddr], now: Time, limit: Duration) -> Self {
        if me == 0 {
            // Node 0's own address is a placeholder that no node uses.
            let own = rendezvous.first().copied().unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
            return Self::Leader(Leader {
                own,
                universe,
                callers: BTreeMap::new(),
                refusals: BTreeMap::new(),
                fails_at: now + limit,
            });
        }
        Self::Caller(Caller {
            me,
            universe,
            port,
            addresses: rendezvous.to_vec(),
            answered_from: None,
            parts: Vec::new(),
            next_call: now,
            interval: CALL_INTERVAL,
            fails_at: now + limit,
            limit,
        })
    }

    /// Handles a message from `address`.
    pub fn handle(&mut self, from: NodeId, address: SocketAddr, message: &Message, out: &mut Vec<Step>) {
        match (self, message) {
            (Self::Leader(leader), Message::Hello { node, port }) if *node == from && *port == address.port() => {
                leader.heard(from, address, out);
            }
            // It must come from an address in the launch data, so no third party can relay it.
            (Self::Caller(caller), _) if from == 0 && caller.addresses.contains(&address) => {
                caller.heard(address, message, out);
            }
            _ => {}
        }
    }

    /// Handles a node's refusal to take part.
    pub fn refused(&mut self, now: Time, refusal: Refusal, out: &mut Vec<Step>) {
        if let Self::Leader(leader) = self {
            leader.refused(now, refusal, out);
        }
    }

    /// Does all work that is due.
    pub fn tick(&mut self, now: Time, out: &mut Vec<Step>) {
        match self {
            Self::Leader(leader) if now >= leader.fails_at && !leader.refusals.is_empty() => {
                out.push(Step::Refused(leader.refusals.values().cloned().collect()));
            }
            Self::Leader(leader) if now >= leader.fails_at => {
                out.push(Step::Missing(
                    (1..leader.universe).filter(|node| !leader.callers.contains_key(node)).collect(),
                ));
            }
            Self::Leader(_) => {}
            Self::Caller(caller) => caller.tick(now, out),
        }
    }

    /// Extends the limit by a time in which this process did not run, possibly with the whole job.
    pub fn forgive(&mut self, late: Duration) {
        let (Self::Leader(Leader { fails_at, .. }) | Self::Caller(Caller { fails_at, .. })) = self;
        *fails_at += late;
    }

    /// Time at which [`Rendezvous::tick`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        match self {
            Self::Leader(leader) => leader.fails_at,
            Self::Caller(caller) => caller.next_call.min(caller.fails_at),
        }
    }
}

/// Node 0's role.
#[derive(Debug)]
pub struct Leader {
    own: SocketAddr,
    universe: u32,
    callers: BTreeMap<NodeId, SocketAddr>,
    refusals: BTreeMap<NodeId, Refusal>,
    fails_at: Time,
}

impl Leader {
    fn heard(&mut self, from: NodeId, address: SocketAddr, out: &mut Vec<Step>) {
        // A node with several interfaces calls from several addresses; the first one is kept.
        self.callers.entry(from).or_insert(address);
        if self.callers.len() + 1 < self.universe as usize {
            out.push(Step::Send(from, address, Message::Hello { node: 0, port: 0 }));
            return;
        }
        let roster: Vec<_> = std::iter::once(self.own).chain(self.callers.values().copied()).collect();
        // First, because a replacement after a crash of this process needs it: no node will call again.
        out.push(Step::Complete(roster.clone()));
        let parts = roster_messages(&roster);
        for (node, address) in &self.callers {
            out.extend(parts.iter().map(|part| Step::Send(*node, *address, part.clone())));
        }
    }
}

impl Leader {
    fn refused(&mut self, now: Time, refusal: Refusal, out: &mut Vec<Step>) {
        self.fails_at = self.fails_at.min(now + LAST_REFUSALS);
        self.refusals.insert(refusal.node, refusal);
        if self.callers.len() + self.refusals.len() + 1 >= self.universe as usize {
            out.push(Step::Refused(self.refusals.values().cloned().collect()));
        }
    }
}

/// The roster as messages.
#[must_use]
pub fn roster_messages(roster: &[SocketAddr]) -> Vec<Message> {
    let most = if roster.iter().all(SocketAddr::is_ipv4) { PART_OF_IPV4 } else { PART };
    let pieces = address_runs::split(roster, most);
    let parts = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
    (0u16..)
        .zip(pieces)
        .map(|(part, addresses)| Message::Roster { part, parts, addresses: addresses.to_vec() })
        .collect()
}

/// Any other node's role.
#[derive(Debug)]
pub struct Caller {
    me: NodeId,
    universe: u32,
    port: u16,
    addresses: Vec<SocketAddr>,
    answered_from: Option<SocketAddr>,
    parts: Vec<Option<Vec<SocketAddr>>>,
    next_call: Time,
    interval: Duration,
    fails_at: Time,
    limit: Duration,
}

impl Caller {
    fn heard(&mut self, address: SocketAddr, message: &Message, out: &mut Vec<Step>) {
        let (part, parts, addresses) = match message {
            Message::Hello { .. } => {
                // Node 0 knows this node now, and will send the roster unasked.
                self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
                return self.answered(address);
            }
            Message::Roster { part, parts, addresses } => (usize::from(*part), usize::from(*parts), addresses),
            _ => return,
        };
        if part >= parts || parts > (self.universe as usize).div_ceil(PART) {
            return;
        }
        self.answered(address);
        self.parts.resize(parts, None);
        self.parts[part] = Some(addresses.clone());
        if self.parts.iter().any(Option::is_none) {
            return;
        }
        let mut roster: Vec<_> = self.parts.iter().flatten().flatten().copied().collect();
        if roster.len() == self.universe as usize {
            roster[0] = self.answered_from.unwrap_or(address);
            out.push(Step::Complete(roster));
        } else {
            self.parts.clear();
        }
    }

    /// Handles the first answer: it decides the address of node 0, and that this node waits longer than node 0.
    fn answered(&mut self, address: SocketAddr) {
        if self.answered_from.is_none() {
            self.answered_from = Some(address);
            self.fails_at += self.limit;
        }
    }

    fn tick(&mut self, now: Time, out: &mut Vec<Step>) {
        if now >= self.fails_at {
            out.push(Step::NoAnswer);
        } else if now >= self.next_call {
            self.next_call = now + self.interval;
            let hello = Message::Hello { node: self.me, port: self.port };
            out.extend(self.addresses.iter().map(|address| Step::Send(0, *address, hello.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    const PORT: u16 = 7;

    fn address(n: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, (n / 250) as u8, (n % 250) as u8], PORT))
    }

    fn hello(node: NodeId) -> Message {
        Message::Hello { node, port: PORT }
    }

    /// Delivers every message to its receiver, except those that `lost` selects.
    fn hold(universe: u32, mut lost: impl FnMut() -> bool) -> Vec<Vec<SocketAddr>> {
        let mut nodes: Vec<_> = (0..universe)
            .map(|me| Rendezvous::new(me, universe, PORT, &[address(999), address(0)], Time::ZERO, LIMIT))
            .collect();
        let mut rosters = vec![Vec::new(); universe as usize];
        let mut now = Time::ZERO;
        while rosters.iter().any(Vec::is_empty) {
            assert!(now < LIMIT);
            for caller in 1..universe as usize {
                let mut out = Vec::new();
                if rosters[caller].is_empty() {
                    nodes[caller].tick(now, &mut out);
                }
                for step in out {
                    let Step::Send(0, to, message) = step else { panic!("{step:?}") };
                    if to != address(0) || lost() {
                        continue;
                    }
                    let mut answers = Vec::new();
                    if rosters[0].is_empty() {
                        nodes[0].handle(caller as u32, address(caller), &message, &mut answers);
                    } else {
                        answers.extend(
                            roster_messages(&rosters[0])
                                .into_iter()
                                .map(|m| Step::Send(caller as u32, address(caller), m)),
                        );
                    }
                    for answer in answers {
                        match answer {
                            Step::Complete(roster) => rosters[0] = roster,
                            Step::Send(node, to, message) => {
                                let to = (1..).find(|n| address(*n) == to).unwrap();
                                assert_eq!(node as usize, to);
                                let mut done = Vec::new();
                                if !lost() && rosters[to].is_empty() {
                                    nodes[to].handle(0, address(0), &message, &mut done);
                                }
                                for step in done {
                                    let Step::Complete(roster) = step else { panic!("{step:?}") };
                                    rosters[to] = roster;
                                }
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            now += CALL_INTERVAL;
        }
        rosters
    }

    #[test]
    fn everybody_gets_the_roster_in_spite_of_losses() {
        for (universe, lost_of_8) in [(2, 4), (4, 3), (300, 1)] {
            let mut random = 1u32;
            let rosters = hold(universe, || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                random >> 29 < lost_of_8
            });
            let expected: Vec<_> = (0..universe as usize).map(address).collect();
            for roster in &rosters[1..] {
                assert_eq!(roster, &expected);
            }
            assert_eq!(rosters[0][1..], expected[1..]);
        }
    }

    #[test]
    fn the_leader_names_who_is_missing() {
        let mut leader = Rendezvous::new(0, 4, PORT, &[address(0)], Time::ZERO, LIMIT);
        let mut out = Vec::new();
        leader.handle(2, address(2), &hello(2), &mut out);
        assert_eq!(out, [Step::Send(2, address(2), Message::Hello { node: 0, port: 0 })]);
        out.clear();
        leader.handle(1, address(1), &hello(3), &mut out);
        leader.tick(LIMIT - Duration::from_nanos(1), &mut out);
        assert_eq!(out, []);
        assert_eq!(leader.deadline(), LIMIT);
        leader.tick(LIMIT, &mut out);
        assert_eq!(out, [Step::Missing(vec![1, 3])]);
    }

    #[test]
    fn the_leader_names_those_that_refuse_without_waiting_for_the_others() {
        let refusal = |node| Refusal::of_releases(node, format!("h{node}"), "9", "9");
        let mut leader = Rendezvous::new(0, 4, PORT, &[address(0)], Time::ZERO, LIMIT);
        let mut out = Vec::new();
        let soon = Duration::from_millis(5);
        leader.handle(2, address(2), &hello(2), &mut out);
        out.clear();
        leader.refused(soon, refusal(3), &mut out);
        leader.refused(soon * 2, refusal(3), &mut out);
        assert_eq!(out, []);
        assert_eq!(leader.deadline(), soon + LAST_REFUSALS);
        leader.tick(soon + LAST_REFUSALS, &mut out);
        assert_eq!(out, [Step::Refused(vec![refusal(3)])]);
        out.clear();
        // After all nodes have called there is no wait.
        leader.refused(soon * 3, refusal(1), &mut out);
        assert_eq!(out, [Step::Refused(vec![refusal(1), refusal(3)])]);
    }

    #[test]
    fn a_caller_gives_up_and_later_if_it_was_answered() {
        let mut silent = Rendezvous::new(1, 3, PORT, &[address(0)], Time::ZERO, LIMIT);
        let mut answered = Rendezvous::new(2, 3, PORT, &[address(0)], Time::ZERO, LIMIT);
        let mut out = Vec::new();
        answered.handle(0, address(0), &hello(0), &mut out);
        answered.handle(
            1,
            address(6),
            &Message::Roster { part: 0, parts: 1, addresses: vec![address(1); 3] },
            &mut out,
        );
        silent.tick(LIMIT, &mut out);
        assert_eq!(out, [Step::NoAnswer]);
        out.clear();
        answered.tick(LIMIT, &mut out);
        assert!(matches!(out[..], [Step::Send(..)]));
        answered.tick(LIMIT * 2, &mut out);
        assert_eq!(out[1..], [Step::NoAnswer]);
    }

    /// A scheduler may have stopped all nodes for a minute.
    #[test]
    fn time_in_which_a_node_did_not_run_is_nobodys_fault() {
        let late = LIMIT * 2;
        for me in [0, 1] {
            let mut node = Rendezvous::new(me, 3, PORT, &[address(0)], Time::ZERO, LIMIT);
            let mut out = Vec::new();
            node.forgive(late);
            node.tick(LIMIT + late - Duration::from_nanos(1), &mut out);
            assert!(out.iter().all(|step| matches!(step, Step::Send(..))), "{out:?}");
            out.clear();
            node.tick(LIMIT + late, &mut out);
            assert!(matches!(out.last(), Some(Step::Missing(_) | Step::NoAnswer)), "{out:?}");
        }
    }

    #[test]
    fn node_0_is_where_it_answers_from_first_and_nobody_else_answers_for_it() {
        let own = [address(7), address(8)];
        let roster = Message::Roster { part: 0, parts: 1, addresses: vec![address(1); 2] };
        let mut caller = Rendezvous::new(1, 2, PORT, &own, Time::ZERO, LIMIT);
        let mut out = Vec::new();
        for (from, message) in [(4, &hello(0)), (4, &roster), (8, &hello(0)), (4, &roster)] {
            caller.handle(0, address(from), message, &mut out);
            assert_eq!(out, [], "from {from}");
        }
        caller.handle(0, address(7), &roster, &mut out);
        assert_eq!(out, [Step::Complete(vec![address(8), address(1)])]);
    }

    #[test]
    fn a_call_from_another_port_than_its_own_is_not_heard() {
        let mut leader = Rendezvous::new(0, 2, PORT, &[address(0)], Time::ZERO, LIMIT);
        let mut out = Vec::new();
        let other = SocketAddr::new(address(1).ip(), PORT + 1);
        leader.handle(1, other, &hello(1), &mut out);
        assert_eq!(out, []);
        leader.handle(1, address(1), &hello(1), &mut out);
        assert_eq!(out[0], Step::Complete(vec![address(0), address(1)]));
    }

    #[test]
    fn a_wrong_roster_is_refused() {
        let mut caller = Rendezvous::new(1, 3, PORT, &[address(0)], Time::ZERO, LIMIT);
        let mut out = Vec::new();
        for (part, parts, count) in [(0, 1, 2), (1, 1, 3), (0, 9, 3), (0, 0, 0)] {
            caller.handle(
                0,
                address(0),
                &Message::Roster { part, parts, addresses: vec![address(1); count] },
                &mut out,
            );
        }
        assert_eq!(out, []);
        caller.handle(0, address(0), &Message::Roster { part: 0, parts: 1, addresses: vec![address(1); 3] }, &mut out);
        assert_eq!(out, [Step::Complete(vec![address(0), address(1), address(1)])]);
    }
}
