//! One run: takes the events in their order and hands them to the members.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use propagation::{Action, Member, Message, NodeId};

mod quiet;
mod sending;

use crate::failures;
use crate::log::{Entry, Log, NoLog};
use crate::network::Network;
use crate::outcome::{Death, Outcome, Work};
use crate::queue::{Event, Queue, What};
use crate::random::{Purpose, Stream};
use crate::scenario::{Elision, Failures, Scenario, ScenarioError, nanos};
use crate::spread::{LONGEST, Spread};
use crate::truth::Truth;
use quiet::Relays;

/// Runs a scenario.
///
/// # Errors
///
/// If the scenario is not [valid](Scenario::validate).
pub fn run(scenario: &Scenario) -> Result<Outcome, ScenarioError> {
    run_logged(scenario, &mut NoLog)
}

/// Runs a scenario and reports what happens.
///
/// # Errors
///
/// If the scenario is not [valid](Scenario::validate).
pub fn run_logged(scenario: &Scenario, log: &mut impl Log) -> Result<Outcome, ScenarioError> {
    scenario.validate()?;
    let mut run = Run::new(scenario, log);
    run.play();
    Ok(run.outcome())
}

struct Run<'a, L> {
    scenario: &'a Scenario,
    log: &'a mut L,
    elision: Elision,
    queue: Queue,
    network: Network,
    truth: Truth,
    phases: Stream,
    /// Nodes with a member. A node is quiet if neither it nor its neighbours on the ring die in this run: all it does
    /// is to pass notices on. It gets a member when it has to, and one without a ring.
    members: HashMap<NodeId, Node>,
    /// Which nodes are in `members`.
    has_member: Bits,
    /// Per quiet node which subjects it knows, one bit each in so many bytes: a small table stays in the cache.
    knows: Vec<u8>,
    knows_len: usize,
    spreads: Vec<Spread>,
    /// The numbers in `spreads`, by the names of the broadcasts and whether it is their rescue.
    by_name: HashMap<(NodeId, u32, u64, bool), u32>,
    /// What quiet nodes have still to do in trees, with the number of the broadcast.
    relays: Vec<(u32, Relays)>,
    /// How many reports they have sent, and how often the word that all is done.
    relayed: [u64; 2],
    messages: Vec<Message>,
    counts: BTreeMap<&'static str, u64>,
    notices: u64,
    broadcasts: u64,
    heartbeats: u64,
    false_deaths: u32,
    work: Work,
    /// When the run's time 0 is on the queue's clock.
    origin: u64,
    now: u64,
    deaths_to_come: usize,
    closed: Option<u64>,
    stable: Option<u64>,
    actions: Vec<Action>,
    targets: Vec<NodeId>,
}

/// A node with a member.
struct Node {
    member: Member,
    alive: bool,
    /// Whether its place in the ring is simulated, too: not for a quiet node.
    in_ring: bool,
    starts: u64,
    /// When its next tick is in the queue.
    tick_at: u64,
}

impl<'a, L: Log> Run<'a, L> {
    fn new(scenario: &'a Scenario, log: &'a mut L) -> Run<'a, L> {
        let mut elision = scenario.elision();
        if nanos(scenario.tau).saturating_mul(64) > LONGEST {
            elision = Elision { copies: false, members: false, ..elision };
        }
        let failures = failures::draw(scenario);
        let mut run = Run {
            scenario,
            log,
            elision,
            queue: Queue::new(nanos(scenario.tau), scenario.nodes as usize),
            network: Network::new(scenario),
            truth: Truth::new(scenario.nodes, scenario.order.clone()),
            phases: Stream::new(scenario.seed, Purpose::Phases),
            members: HashMap::new(),
            has_member: Bits::new(scenario.nodes),
            knows: Vec::new(),
            knows_len: failures.len().div_ceil(8),
            spreads: Vec::new(),
            by_name: HashMap::new(),
            relays: Vec::new(),
            relayed: [0; 2],
            messages: Vec::new(),
            counts: BTreeMap::new(),
            notices: 0,
            broadcasts: 0,
            heartbeats: 0,
            false_deaths: 0,
            work: Work::default(),
            origin: scenario.warm_up(),
            now: 0,
            deaths_to_come: failures.len(),
            closed: None,
            stable: None,
            actions: Vec::new(),
            targets: Vec::new(),
        };
        run.start(&failures);
        run
    }

    /// Creates the members with timers and puts the deaths into the queue.
    fn start(&mut self, failures: &[(u64, NodeId)]) {
        let nodes = self.scenario.nodes;
        for &(at, node) in failures {
            self.truth.subject(node);
            self.queue.push(Event { at: self.origin + at, node, what: What::Death });
        }
        if self.elision.members {
            self.knows = vec![0; nodes as usize * self.knows_len];
        }
        if !self.elision.heartbeats {
            (0..nodes).for_each(|node| self.create(node, true));
            return;
        }
        for &(_, node) in failures {
            for at in [node, ahead(node, 1, nodes), ahead(node, nodes - 1, nodes)] {
                if !self.has_member.contains(at) {
                    self.create(at, true);
                }
            }
        }
        // Their emitters may be quiet.
        let mut emitters: Vec<_> = self.members.values().filter_map(|node| node.member.emitter()).collect();
        emitters.retain(|&node| !self.has_member.contains(node));
        for node in emitters {
            let at = self.start_of(node);
            self.queue.push(Event { at, node, what: What::Beat });
        }
    }

    /// When a node starts: within the first period.
    fn start_of(&self, node: NodeId) -> u64 {
        self.phases.nth_below(u128::from(node), nanos(self.scenario.period))
    }

    fn create(&mut self, node: NodeId, in_ring: bool) {
        let starts = self.start_of(node);
        let (config, tick_at) = (self.scenario.config(node), if in_ring { starts } else { u64::MAX });
        let member = if in_ring {
            self.queue.push(Event { at: starts, node, what: What::Tick });
            Member::new(config, [], time(starts))
        } else {
            Member::without_ring(config, time(starts))
        };
        self.has_member.insert(node);
        self.members.insert(node, Node { member, alive: true, in_ring, starts, tick_at });
        self.work.members += 1;
    }

    fn play(&mut self) {
        let end = self.origin.saturating_add(self.scenario.horizon());
        while let Some(event) = self.queue.pop() {
            if event.at > end {
                self.now = end;
                break;
            }
            self.now = event.at;
            self.work.events += 1;
            self.happen(event);
            if self.is_over() {
                break;
            }
        }
    }

    fn happen(&mut self, Event { at: now, node, what }: Event) {
        match what {
            What::Death => self.die(node),
            What::Copy { broadcast, from } => self.on_copy(node, from, broadcast),
            What::Heartbeat { from, count } => {
                let count = u64::from(count);
                self.drive(node, |member, out| member.handle(time(now), from, Message::Heartbeat { count }, out));
            }
            What::Message { number, .. } if self.is_quiet(node) => self.on_quiet_message(node, number),
            What::Message { from, number } => {
                let message = self.messages[number as usize].clone();
                self.drive(node, |member, out| member.handle(time(now), from, message, out));
            }
            What::Tick => self.on_tick(node),
            What::Beat => self.on_beat(node),
            What::PortFree => self.on_port_free(node),
        }
    }

    /// Whether the run has come to its end: stable, and nobody left who is to die. Under the exponential law there
    /// always is somebody, so there the first stable state ends it.
    fn is_over(&mut self) -> bool {
        let open_end = matches!(self.scenario.failures, Failures::Exponential { .. });
        let begun = self.closed.is_some();
        if !begun || !self.truth.is_stable() || (self.deaths_to_come > 0 && !open_end) {
            return false;
        }
        self.stable = Some(self.now);
        self.note(Entry::Stable);
        true
    }

    fn die(&mut self, node: NodeId) {
        self.deaths_to_come -= 1;
        if self.members.get(&node).is_some_and(|slot| slot.alive) {
            self.note(Entry::Died(node));
            self.bury(node);
        }
    }

    /// The node takes no further part: it died, or its member stopped.
    fn bury(&mut self, node: NodeId) {
        let Some(slot) = self.members.get_mut(&node) else { return };
        slot.alive = false;
        let left = self.truth.die(self.now, node, slot.member.dead().map(|death| death.node));
        if let Some(ports) = self.network.ports() {
            ports.clear(node);
        }
        for neighbour in left {
            if let Some(slot) = self.members.get(&neighbour).filter(|slot| slot.alive) {
                self.truth.check(neighbour, &slot.member);
            }
        }
        self.closed = self.truth.is_closed().then_some(self.now).or(self.closed).or(Some(self.now));
    }

    /// Hands something to a node's member and does what it asks for.
    fn drive(&mut self, node: NodeId, input: impl FnOnce(&mut Member, &mut Vec<Action>)) {
        let now = self.now;
        if !self.has_member.contains(node) {
            self.create(node, false);
        }
        let Some(slot) = self.members.get_mut(&node).filter(|slot| slot.alive && slot.starts <= now) else {
            return;
        };
        let mut actions = std::mem::take(&mut self.actions);
        input(&mut slot.member, &mut actions);
        let in_ring = slot.in_ring;
        let due = slot.member.next_deadline().as_nanos().min(u128::from(u64::MAX)) as u64;
        if due < slot.tick_at {
            slot.tick_at = due;
            self.queue.push(Event { at: due.max(now), node, what: What::Tick });
        }
        if !actions.is_empty() {
            for action in actions.drain(..) {
                self.act(node, action);
            }
            if in_ring {
                self.check(node);
            }
        }
        self.actions = actions;
    }

    fn check(&mut self, node: NodeId) {
        let Some(slot) = self.members.get(&node).filter(|slot| slot.alive) else { return };
        let was_closed = self.truth.is_closed();
        self.truth.check(node, &slot.member);
        if !was_closed && self.truth.is_closed() {
            self.closed = Some(self.now);
            self.note(Entry::RingClosed);
        }
    }

    fn on_tick(&mut self, node: NodeId) {
        let now = self.now;
        let Some(slot) = self.members.get_mut(&node) else { return };
        if slot.tick_at != now || !slot.alive {
            return;
        }
        // The next one is put into the queue once it is known.
        slot.tick_at = u64::MAX;
        self.drive(node, |member, out| {
            if member.next_deadline() <= time(now) {
                member.tick(time(now), out);
            }
        });
    }

    /// A quiet node's heartbeat to an observer with a member.
    fn on_beat(&mut self, node: NodeId) {
        let period = nanos(self.scenario.period);
        let count = ((self.now - self.start_of(node)) / period) as u32 + 1;
        let observer = ahead(node, 1, self.scenario.nodes);
        self.send_heartbeat(node, observer, count);
        self.queue.push(Event { at: self.now + period, node, what: What::Beat });
    }

    fn note(&mut self, entry: Entry) {
        self.log.enter(self.now as i64 - self.origin as i64, entry);
    }

    #[inline]
    fn report(&mut self, from: NodeId, to: NodeId, kind: &'static str) {
        if self.log.messages() {
            self.note(Entry::Sent { from, to, kind });
        }
    }

    fn outcome(mut self) -> Outcome {
        let origin = self.origin;
        let since = |at: u64| time(at.saturating_sub(origin));
        let [complete, done] = self.relayed;
        for (kind, count) in [("notice", self.notices), ("complete", complete), ("done", done)] {
            if count > 0 {
                *self.counts.entry(kind).or_default() += count;
            }
        }
        let mut deaths: Vec<_> =
            self.truth.subjects().iter().filter(|s| s.died.or(s.declared.map(|d| d.0)).is_some()).collect();
        deaths.sort_by_key(|subject| subject.died.unwrap_or(u64::MAX));
        let deaths = deaths.into_iter().map(|subject| Death {
            node: subject.node,
            at: subject.died.map(since),
            declared: subject.declared.map(|(at, by)| (since(at), by)),
            known_by_all: subject.known_by_all.map(since),
        });
        Outcome {
            deaths: deaths.collect(),
            stable: self.stable.map(since),
            closed: self.closed.filter(|_| self.truth.is_closed()).map(since),
            broadcasts: self.broadcasts,
            messages: self.counts,
            heartbeats: self.heartbeats,
            false_deaths: self.false_deaths,
            alive: self.truth.alive(),
            end: since(self.now),
            work: self.work,
        }
    }
}

/// A set of nodes.
struct Bits(Vec<u64>);

impl Bits {
    fn new(nodes: u32) -> Bits {
        Bits(vec![0; (nodes as usize).div_ceil(64)])
    }

    #[inline]
    fn contains(&self, node: NodeId) -> bool {
        self.0[node as usize / 64] >> (node % 64) & 1 == 1
    }

    fn insert(&mut self, node: NodeId) {
        self.0[node as usize / 64] |= 1 << (node % 64);
    }
}

/// The node that many places ahead on the ring.
fn ahead(node: NodeId, places: u32, nodes: u32) -> NodeId {
    ((u64::from(node) + u64::from(places)) % u64::from(nodes)) as NodeId
}

fn time(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}
