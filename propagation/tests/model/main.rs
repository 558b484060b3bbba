//! Every interleaving of small jobs, with the real members as the model's actors.
//!
//! Time is abstract: a member suspects its emitter at any moment after that has crashed and never before, which is what
//! a timeout longer than a period and a message time amounts to; whoever waits for a tree loses patience at any
//! moment, with the broadcast that it was to wait for the shortest time or with all. No clock goes on, so that states
//! that differ only in when things happened are one. Messages take any time and overtake each other, none gets lost. A
//! node crashes at any moment, and any part of what it has under way then was not sent. Heartbeats have no other effect
//! than that abstraction, so they are left out.
//!
//! With an arbiter, node 0, which lives as long as the job, a suspicion is a message to it. That it tries the
//! suspect first, and that the suspector holds its ranks and doubts, are matters of time and left out.

use stateright::{Checker, Model, Property};

use propagation::{Action, Config, Member, Message, NodeId, NodeReason, Route, Strategy, Subject, Time};

/// Timers of the ring never run out by themselves.
const NEVER: Time = Time::from_secs(1_000_000);

struct Job {
    nodes: u32,
    crashes: u32,
    strategy: Strategy,
    arbiter: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: Vec<Node>,
    /// Sender, receiver, message: in a fixed order, because it has no meaning.
    in_flight: Vec<(NodeId, NodeId, Message)>,
    crashed: u32,
    /// Somebody was told twice, or of the death of a node that lives, or was stopped.
    broken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    member: Member,
    alive: bool,
    told: Vec<NodeId>,
    /// About whom it has asked the arbiter last.
    asked: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Deliver(usize),
    /// The node crashes; those of its messages under way whose bit is set were not sent.
    Crash(NodeId, u32),
    Suspect(NodeId),
    /// The node rescues the broadcasts for which it has waited until this time.
    LosePatience(NodeId, Time),
}

impl State {
    fn act(&mut self, me: NodeId, input: impl FnOnce(&mut Member, &mut Vec<Action>)) {
        let mut out = vec![];
        input(&mut self.nodes[me as usize].member, &mut out);
        for action in out {
            match action {
                Action::Send { message: Message::Heartbeat { .. }, .. } => {}
                Action::Send { to, message } => self.in_flight.push((me, to, message)),
                Action::Deliver(fact) => {
                    let Subject::Node { node, .. } = fact.subject else { panic!("unexpected {fact:?}") };
                    let told = &mut self.nodes[me as usize].told;
                    self.broken |= told.contains(&node);
                    told.push(node);
                    told.sort_unstable();
                    self.broken |= self.nodes[node as usize].alive;
                }
                Action::Stop(_) | Action::Hold | Action::Release | Action::NodeReady(_) => self.broken = true,
            }
        }
    }

    /// Leaves out what has no effect now and never will: messages to the dead, messages of those whom the receiver
    /// knows to be dead (it would tell them so), and copies of what is known.
    fn tidy(&mut self) {
        let State { nodes, in_flight, .. } = self;
        in_flight.retain(|(from, to, message)| {
            let node = &nodes[*to as usize];
            let is_final = match message {
                Message::Notice(notice) => notice.route != Route::Tree,
                message => matches!(message, Message::Done { .. }),
            };
            node.alive
                && !node.told.contains(from)
                && !(is_final && {
                    let (mut member, mut out) = (node.member.clone(), vec![]);
                    member.handle(Time::ZERO, *from, message.clone(), &mut out);
                    out.is_empty() && member == node.member
                })
        });
        in_flight.sort_unstable();
    }

    fn emitter(&self, node: &Node) -> Option<&Node> {
        node.member.emitter().map(|emitter| &self.nodes[emitter as usize])
    }
}

impl Model for Job {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let node = |me| {
            let config = Config::new(me, self.nodes, NEVER, NEVER * 2);
            let (arbiter, lossless, strategy, trial) = (self.arbiter, true, self.strategy, Time::ZERO);
            let member = Member::new(Config { arbiter, lossless, strategy, trial, ..config }, [], Time::ZERO);
            let mut node = Node { member, alive: true, told: vec![], asked: None };
            node.member.tick(Time::ZERO, &mut vec![]);
            node
        };
        vec![State { nodes: (0..self.nodes).map(node).collect(), in_flight: vec![], crashed: 0, broken: false }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (index, message) in state.in_flight.iter().enumerate() {
            if index == 0 || *message != state.in_flight[index - 1] {
                steps.push(Step::Deliver(index));
            }
        }
        for (me, node) in (0..).zip(&state.nodes).filter(|(_, node)| node.alive) {
            if state.crashed < self.crashes && self.arbiter != Some(me) {
                let under_way = state.in_flight.iter().filter(|(from, ..)| *from == me).count();
                steps.extend((0..1 << under_way).map(|unsent| Step::Crash(me, unsent)));
            }
            let has_asked = node.asked.is_some() && node.asked == node.member.emitter();
            if state.emitter(node).is_some_and(|emitter| !emitter.alive) && !has_asked {
                steps.push(Step::Suspect(me));
            }
            let deadline = node.member.next_deadline();
            if deadline < NEVER / 2 {
                steps.extend([deadline, NEVER / 2].map(|until| Step::LosePatience(me, until)));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Deliver(index) => {
                let (from, to, message) = state.in_flight.remove(index);
                state.act(to, |member, out| member.handle(Time::ZERO, from, message, out));
            }
            Step::Crash(me, unsent) => {
                state.nodes[me as usize].alive = false;
                state.crashed += 1;
                let mut number = 0;
                state.in_flight.retain(|(from, ..)| {
                    number += u32::from(*from == me);
                    *from != me || unsent >> (number - 1) & 1 == 0
                });
            }
            Step::Suspect(me) => {
                let emitter = last.nodes[me as usize].member.emitter()?;
                match self.arbiter.filter(|arbiter| *arbiter != me) {
                    Some(arbiter) => {
                        state.nodes[me as usize].asked = Some(emitter);
                        state.in_flight.push((me, arbiter, Message::Suspect { node: emitter }));
                    }
                    None => state.act(me, |member, out| member.declare(Time::ZERO, emitter, NodeReason::Silent, out)),
                }
            }
            Step::LosePatience(me, until) => state.act(me, |member, out| member.tick(until, out)),
        }
        state.tidy();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nobody alive is held dead, and every death is told once", |_, state: &State| {
                !state.broken
            }),
            Property::always("in the end all know all deaths and form one ring", |job: &Job, state: &State| {
                let mut steps = vec![];
                job.actions(state, &mut steps);
                // What could still happen is nothing but crashes: then this may be the end.
                steps.iter().any(|step| !matches!(step, Step::Crash(..))) || is_settled(state)
            }),
            Property::sometimes("everybody who may crash does, and all is settled then", |job: &Job, state: &State| {
                state.crashed == job.crashes && is_settled(state)
            }),
        ]
    }
}

fn is_settled(state: &State) -> bool {
    let ids = |alive: bool| (0..).zip(&state.nodes).filter(move |(_, node)| node.alive == alive).map(|(id, _)| id);
    let (alive, dead): (Vec<NodeId>, Vec<NodeId>) = (ids(true).collect(), ids(false).collect());
    alive.iter().enumerate().all(|(place, &me)| {
        let node = &state.nodes[me as usize];
        let next = alive[(place + 1) % alive.len()];
        let ring = alive.len() == 1
            || (node.member.observer() == Some(next) && state.nodes[next as usize].member.emitter() == Some(me));
        node.told == dead && ring
    })
}

fn check(nodes: u32, crashes: u32, strategy: Strategy, arbiter: Option<NodeId>) {
    let checker = Job { nodes, crashes, strategy, arbiter }.checker().spawn_bfs().join();
    println!("{nodes} nodes, {crashes} crashes, {strategy:?}, {arbiter:?}: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn the_circulant_graph_for_every_interleaving_of_up_to_five_nodes() {
    for (nodes, crashes) in [(2, 1), (3, 1), (4, 1), (5, 1), (3, 2), (4, 2), (5, 2), (4, 3)] {
        check(nodes, crashes, Strategy::Circulant, None);
    }
}

#[test]
fn the_tree_for_every_interleaving_of_up_to_five_nodes() {
    for (nodes, crashes) in [(2, 1), (3, 1), (4, 1), (5, 1), (3, 2)] {
        check(nodes, crashes, Strategy::Tree, None);
    }
}

#[test]
fn the_tree_with_two_crashes_of_four_nodes() {
    check(4, 2, Strategy::Tree, None);
}

#[test]
fn both_with_an_arbiter_for_every_interleaving_of_up_to_five_nodes() {
    for (nodes, crashes) in [(2, 1), (3, 1), (4, 1), (5, 1), (3, 2), (4, 2)] {
        check(nodes, crashes, Strategy::Circulant, Some(0));
        check(nodes, crashes, Strategy::Tree, Some(0));
    }
    check(5, 2, Strategy::Circulant, Some(0));
    check(4, 3, Strategy::Circulant, Some(0));
}

#[test]
#[ignore = "minutes"]
fn both_with_three_crashes() {
    check(5, 3, Strategy::Circulant, None);
    check(4, 3, Strategy::Tree, None);
    check(4, 3, Strategy::Tree, Some(0));
    check(5, 3, Strategy::Circulant, Some(0));
}

#[test]
#[ignore = "minutes"]
fn both_for_every_interleaving_of_six_nodes() {
    check(6, 1, Strategy::Circulant, None);
    check(6, 1, Strategy::Tree, None);
    check(6, 2, Strategy::Circulant, None);
}
