//! Classic Paxos: one sequence of commands for all ranks. Four delays, 2f + 2 messages.
//!
//! There are 2f + 1 replicas, each an acceptor and a [`Ledger`](crate::logger::ledger::Ledger) of what is decided. One
//! of them coordinates: it takes the commands of the ranks, and its own acceptance is one of the f + 1. Another one
//! that takes over ([`Replica::take_over`], when a failure detector says so) prepares a higher round for all instances
//! that it does not know, proposes again what it finds, and fills gaps with nothing. Two coordinators at a time are
//! slow, and safe.
//!
//! A replica forgets an instance as soon as it has carried it out. Whoever needs it later gets the ledger.

pub mod between;
mod undecided;

use crate::logger::acceptor::{Acceptor, Instance, MOST_IN_A_PROMISE, Reply, Request};
use crate::logger::group::Group;
use crate::logger::message::Message;
use crate::logger::promises::{Found, Next, Promises};
use crate::logger::round::{Address, Round};
use crate::logger::{Action, Holding};
use between::{Between, Proposal, State};
use undecided::Undecided;

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    me: Address,
    group: Group,
    acceptor: Acceptor<Proposal>,
    state: State,
    role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Follower,
    Preparing(Round, Promises<Proposal>),
    Coordinator(Round, Undecided),
}

impl Replica {
    /// A replica and the others. The one that coordinates first has the lowest round, and nobody else may.
    #[must_use]
    pub fn new(me: Address, others: &[Address], is_first_coordinator: bool) -> Self {
        let role =
            if is_first_coordinator { Role::Coordinator(Round::first(me), Undecided::new(1)) } else { Role::Follower };
        let group = Group::with_own(me, others);
        Self { me, group, acceptor: Acceptor::default(), state: State::default(), role }
    }

    /// Whether it takes commands.
    #[must_use]
    pub fn is_coordinator(&self) -> bool {
        matches!(self.role, Role::Coordinator(..))
    }

    /// What it knows to be stable of each rank.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.state.ledger.holdings()
    }

    /// Becomes the coordinator, as soon as a quorum agrees.
    pub fn take_over(&mut self, out: &mut Vec<Action>) {
        let round = self.acceptor.promised().max(Round::first(self.me)).above(self.me);
        let after = self.state.applied;
        self.role = Role::Preparing(round, Promises::new(after, self.group.len(), self.group.quorum()));
        (0..self.group.len()).rev().for_each(|place| self.prepare(place, round, after, out));
    }

    /// Takes a message of a rank or of another replica.
    pub fn handle(&mut self, from: Address, message: Message, out: &mut Vec<Action>) {
        match message {
            Message::Command(command) => self.propose(vec![Some(command)], out),
            Message::Between(Between::Request { decided, request }) => self.request(from, decided, request, out),
            Message::Between(Between::Reply { reply, state }) => {
                if let Some(place) = self.group.place(from) {
                    self.reply(place, reply, state, out);
                }
            }
            Message::Between(Between::Behind(applied)) if self.state.applied > applied => {
                out.push(send(from, Between::State(self.state.clone())));
            }
            // A coordinator has its own list of what is not decided.
            Message::Between(Between::State(state)) if !self.is_coordinator() => self.learn(state),
            _ => {}
        }
    }

    /// Sends again what has had no answer.
    pub fn retry(&mut self, out: &mut Vec<Action>) {
        match &self.role {
            Role::Follower => {}
            Role::Preparing(round, promises) => {
                let (round, open) = (*round, promises.open().collect::<Vec<_>>());
                open.into_iter().for_each(|(place, after)| self.prepare(place, round, after, out));
            }
            Role::Coordinator(round, undecided) => {
                let (first, values) = undecided.first(MOST_IN_A_PROMISE);
                if values.is_empty() {
                    return;
                }
                let round = *round;
                let silent: Vec<bool> = (0..self.group.len()).map(|place| undecided.is_silent(place)).collect();
                self.group.were_silent(|place| silent[place]);
                for place in (1..self.group.len()).filter(|place| silent[*place]) {
                    self.ask(place, Request::Accept { round, first, values: values.clone() }, out);
                }
            }
        }
    }

    fn ask(&self, place: usize, request: Request<Proposal>, out: &mut Vec<Action>) {
        self.group.send(place, Message::Between(Between::Request { decided: self.state.applied, request }), out);
    }

    fn prepare(&mut self, place: usize, round: Round, after: Instance, out: &mut Vec<Action>) {
        let request = Request::Prepare { round, after };
        if place > 0 {
            self.ask(place, request, out);
        } else if let Some(reply) = self.acceptor.handle(request) {
            self.reply(place, reply, None, out);
        }
    }

    /// As the coordinator: proposes values in the next instances.
    fn propose(&mut self, values: Vec<Proposal>, out: &mut Vec<Action>) {
        let Role::Coordinator(round, undecided) = &mut self.role else { return };
        let (round, first) = (*round, undecided.next());
        let own = self.acceptor.handle(Request::Accept { round, first, values: values.clone() });
        if !matches!(own, Some(Reply::Accepted { .. })) {
            self.role = Role::Follower;
            return;
        }
        values.iter().for_each(|value| undecided.push(value.clone()));
        for place in self.group.preferred().filter(|place| *place > 0) {
            self.ask(place, Request::Accept { round, first, values: values.clone() }, out);
        }
        self.decide(out);
    }

    /// As the coordinator: carries out what is decided, and tells the ranks.
    fn decide(&mut self, out: &mut Vec<Action>) {
        let Role::Coordinator(_, undecided) = &mut self.role else { return };
        while let Some(proposal) = undecided.decided(self.group.quorum()) {
            if let Some(outcome) = self.state.apply(proposal.as_ref()) {
                out.push(Action::Send { to: outcome.writer.proposer, message: Message::Outcome(outcome) });
            }
        }
        self.acceptor.trim(self.state.applied);
    }

    /// As an acceptor.
    fn request(&mut self, from: Address, decided: Instance, request: Request<Proposal>, out: &mut Vec<Action>) {
        let Some(reply) = self.acceptor.handle(request) else { return };
        let state = match reply {
            Reply::Promise { after, .. } if self.state.applied > after => Some(self.state.clone()),
            _ => None,
        };
        let accepted = if let Reply::Accepted { round, .. } = reply { Some(round) } else { None };
        out.push(send(from, Between::Reply { reply, state }));
        if let Some(round) = accepted {
            self.follow(from, round, decided, out);
        }
    }

    /// Carries out what this coordinator has decided. What was accepted in another round may not be what was decided.
    fn follow(&mut self, coordinator: Address, round: Round, decided: Instance, out: &mut Vec<Action>) {
        self.role = Role::Follower;
        while self.state.applied < decided {
            let Some((accepted, proposal)) = self.acceptor.accepted(self.state.applied + 1) else { break };
            if *accepted != round {
                break;
            }
            self.state.apply(proposal.as_ref());
        }
        self.acceptor.trim(self.state.applied);
        if self.state.applied < decided {
            out.push(send(coordinator, Between::Behind(self.state.applied)));
        }
    }

    fn learn(&mut self, state: State) {
        if state.applied > self.state.applied {
            self.acceptor.trim(state.applied);
            self.state = state;
        }
    }

    fn reply(&mut self, place: usize, reply: Reply<Proposal>, state: Option<State>, out: &mut Vec<Action>) {
        match (reply, &mut self.role) {
            (Reply::Promise { round, after, accepted, is_part, .. }, Role::Preparing(mine, promises))
                if round == *mine =>
            {
                let next = promises.add(place, after, accepted, is_part);
                state.into_iter().for_each(|state| self.learn(state));
                match next {
                    Next::Wait => {}
                    Next::Ask(after) => self.prepare(place, round, after, out),
                    Next::Complete(found) => self.coordinate(round, found, out),
                }
            }
            (Reply::Accepted { round, first, last }, Role::Coordinator(mine, undecided)) if round == *mine => {
                undecided.accept(place, first, last);
                self.decide(out);
            }
            (Reply::Refused { round, .. }, Role::Preparing(mine, _) | Role::Coordinator(mine, _)) if round == *mine => {
                self.role = Role::Follower;
            }
            _ => {}
        }
    }

    /// Begins to coordinate: what was found is proposed again, and gaps are filled.
    fn coordinate(&mut self, round: Round, mut found: Found<Proposal>, out: &mut Vec<Action>) {
        let first = self.state.applied + 1;
        let last = found.keys().next_back().copied().unwrap_or(0);
        let values: Vec<_> =
            (first..=last).map(|instance| found.remove(&instance).and_then(|(_, value)| value)).collect();
        self.role = Role::Coordinator(round, Undecided::new(first));
        for part in values.chunks(MOST_IN_A_PROMISE) {
            self.propose(part.to_vec(), out);
        }
    }
}

fn send(to: Address, between: Between) -> Action {
    Action::Send { to, message: Message::Between(between) }
}
