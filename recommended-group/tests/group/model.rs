//! Every interleaving of small groups (stateright): messages come late, twice, in any order or never; processes die,
//! the leader among them, and the others hear of it one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use recommended_group::action::Action;
use recommended_group::config::Config;
use recommended_group::counters::is_recommended;
use recommended_group::event::Event;
use recommended_group::group::Group;
use recommended_group::member::Member;
use recommended_group::message::Message;
use recommended_group::test::{Primes, Test};
use recommended_group::units::Rank;
use recommended_group::view::View;
use stateright::{Checker, Model, Property};

use crate::world::{MS, SECOND};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Every vote says yes.
    AllAgree,
    /// The leader does not wait until a view is accepted.
    NoAcceptance,
}

/// What is explored.
#[derive(Clone, Debug)]
struct Job {
    count: u32,
    /// A process outside, that has just begun to pass the tests; none: barriers.
    outside: Option<Rank>,
    deaths: u32,
    /// Intervals of each member.
    intervals: u32,
    mutation: Option<Mutation>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    members: Vec<Member<Primes>>,
    is_dead: Vec<bool>,
    /// Who has heard of whose death.
    heard: BTreeSet<(Rank, Rank)>,
    /// Everything that was ever sent: it may come at any time.
    sent: BTreeSet<(Rank, Rank, Message)>,
    intervals: Vec<u32>,
    /// Members that have seen the process outside pass.
    has_seen: BTreeSet<Rank>,
    views: BTreeMap<u64, Arc<View>>,
    /// Whether a leader that is not the first one has brought the process back, or made a view.
    by_another: bool,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Deliver(Rank, Rank, Message),
    Die(Rank),
    Hear(Rank, Rank),
    Interval(Rank),
}

impl State {
    fn carry_out(&mut self, job: &Job, me: Rank, before: &Member<Primes>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { message: Message::Test(_) | Message::Reply { .. } | Message::Syndrome(_), .. } => {}
                Action::Send { to, message } => {
                    if let (Some(Mutation::NoAcceptance), Message::Install { attempt, view }) = (job.mutation, &message)
                    {
                        let accepted = Message::Accepted { attempt: *attempt, number: view.number };
                        self.sent.insert((to, me, accepted));
                    }
                    self.sent.insert((me, to, message));
                }
                Action::Round(view) => {
                    let known = self.views.entry(view.number).or_insert_with(|| view.clone());
                    if *known != view {
                        self.broken = Some("two views of one round");
                    }
                    self.by_another |= view.attempt.1 != 0;
                }
                Action::Changed { rank, counter } if Some(rank) == job.outside => {
                    let group = before.counters().group();
                    let leads = before.counters().leader() == Some(me) && !is_recommended(before.counters().get(rank));
                    let is_decided = leads
                        && !self.sent.iter().any(|(_, to, message)| {
                            *to == me && matches!(message, Message::Event(event) if event.news == [(rank, 2)])
                        });
                    let seen = group.iter().filter(|member| self.has_seen.contains(member)).count();
                    if is_decided && 2 * seen <= group.len() {
                        self.broken = Some("it came back without a majority");
                    }
                    if counter != 2 {
                        self.broken = Some("it came back twice");
                    }
                    self.by_another |= is_decided && me != 0;
                }
                _ => {}
            }
        }
    }

    fn act(&mut self, job: &Job, me: Rank, act: impl FnOnce(&mut Member<Primes>, &mut Vec<Action>)) {
        let before = self.members[me as usize].clone();
        let mut out = vec![];
        act(&mut self.members[me as usize], &mut out);
        self.carry_out(job, me, &before, out);
    }

    /// An interval in which everybody passes.
    fn interval(&mut self, job: &Job, me: Rank) {
        self.intervals[me as usize] += 1;
        let now = SECOND * self.intervals[me as usize];
        self.has_seen.insert(me);
        let known = |member: &Member<Primes>| (member.counters().digest(), member.counters().shared());
        let others: Vec<_> = self.members.iter().map(known).collect();
        self.act(job, me, |member, out| {
            member.timer(now, out);
            let asked: Vec<_> = out
                .iter()
                .filter_map(|action| match action {
                    Action::Send { to, message: Message::Test(asked) } => Some((*to, *asked)),
                    _ => None,
                })
                .collect();
            for (to, asked) in asked {
                let answer = member.test().answer(asked.question);
                let (digest, counters) = others[to as usize].clone();
                let counters = (digest != asked.digest).then_some(counters);
                member.receive(now + MS, to, Message::Reply { asked, answer, digest, counters }, out);
            }
            member.timer(now + MS, out);
        });
    }
}

impl Model for Job {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let config = |me| Config { passes: 1, ..Config::new(me, self.count) };
        let many = self.count as usize;
        let mut state = State {
            members: (0..self.count).map(|me| Member::new(config(me), Primes::below(3), SECOND)).collect(),
            is_dead: vec![false; many],
            heard: BTreeSet::new(),
            sent: BTreeSet::new(),
            intervals: vec![0; many],
            has_seen: BTreeSet::new(),
            views: BTreeMap::new(),
            by_another: false,
            broken: None,
        };
        for me in 0..self.count {
            match self.outside {
                Some(outside) => {
                    let origin = u32::from(me == 0);
                    let group = Arc::new(Group::of(self.count, [me, origin]));
                    let event = Arc::new(Event { origin, number: 9, group, news: vec![(outside, 1)] });
                    let mut out = vec![];
                    state.members[me as usize].receive(MS, origin, Message::Event(event), &mut out);
                }
                None => state.act(self, me, |member, out| member.arrive(true, out)),
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        let deaths = state.is_dead.iter().filter(|dead| **dead).count() as u32;
        for me in (0..self.count).filter(|me| !state.is_dead[*me as usize]) {
            // The smallest one leads: others die only in the barriers.
            let is_leader = (0..me).all(|smaller| state.is_dead[smaller as usize]);
            if deaths < self.deaths && (is_leader || self.outside.is_none()) {
                steps.push(Step::Die(me));
            }
            let dead = (0..self.count).filter(|rank| state.is_dead[*rank as usize]);
            steps.extend(dead.filter(|dead| !state.heard.contains(&(me, *dead))).map(|dead| Step::Hear(me, dead)));
            if Some(me) != self.outside && state.intervals[me as usize] < self.intervals {
                steps.push(Step::Interval(me));
            }
        }
        let arrives = state.sent.iter().filter(|(_, to, _)| !state.is_dead[*to as usize]);
        steps.extend(arrives.map(|(from, to, message)| Step::Deliver(*from, *to, message.clone())));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Deliver(from, to, mut message) => {
                if let (Some(Mutation::AllAgree), Message::Vote { agrees, .. }) = (self.mutation, &mut message) {
                    *agrees = true;
                }
                state.act(self, to, |member, out| {
                    member.receive(SECOND, from, message, out);
                    // It has taken all that has come; its next interval is not there yet.
                    member.timer(MS, out);
                });
            }
            Step::Die(who) => state.is_dead[who as usize] = true,
            Step::Hear(me, dead) => {
                state.heard.insert((me, dead));
                state.act(self, me, |member, out| member.died(dead, out));
            }
            Step::Interval(me) => state.interval(self, me),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("nobody comes back twice or without a majority; one view a round", |_, state: &State| {
                state.broken.is_none()
            }),
            Property::sometimes("it comes to an end everywhere", |job: &Job, state: &State| {
                let mut alive = (0..job.count as usize).filter(|rank| !state.is_dead[*rank]);
                alive.all(|rank| match job.outside {
                    Some(outside) => state.members[rank].counters().get(outside) == 2,
                    None => state.members[rank].view().number == 2,
                })
            }),
        ];
        if self.deaths > 0 {
            properties.push(Property::sometimes("another leader ends it", |_, state: &State| state.by_another));
        }
        properties
    }
}

impl Job {
    const fn returns(count: u32, deaths: u32, intervals: u32) -> Self {
        Self { count, outside: Some(count - 1), deaths, intervals, mutation: None }
    }

    const fn barrier(count: u32, deaths: u32) -> Self {
        Self { count, outside: None, deaths, intervals: 0, mutation: None }
    }

    fn check(self) -> impl Checker<Self> {
        let (name, started) = (format!("{self:?}"), std::time::Instant::now());
        let checker = self.checker().finish_when(stateright::HasDiscoveries::AnyFailures).spawn_bfs().join();
        println!("{name}: {} states, {:?}", checker.unique_state_count(), started.elapsed());
        checker
    }

    fn fails(self) {
        let found = self.check().discovery("nobody comes back twice or without a majority; one view a round");
        assert!(found.is_some(), "the model catches it");
    }
}

#[test]
fn a_return_while_the_leader_dies() {
    Job::returns(3, 1, 1).check().assert_properties();
    Job::returns(3, 1, 2).check().assert_properties();
}

#[test]
#[ignore = "minutes"]
fn a_return_of_four_while_the_leader_dies() {
    Job::returns(4, 1, 1).check().assert_properties();
}

#[test]
fn a_barrier_while_processes_die() {
    Job::barrier(3, 1).check().assert_properties();
    Job::barrier(3, 2).check().assert_properties();
}

#[test]
#[ignore = "minutes"]
fn a_barrier_of_four_while_processes_die() {
    Job::barrier(4, 1).check().assert_properties();
    Job::barrier(4, 2).check().assert_properties();
}

#[test]
fn votes_that_always_agree_are_caught() {
    Job { mutation: Some(Mutation::AllAgree), ..Job::returns(4, 0, 1) }.fails();
}

#[test]
fn a_leader_that_does_not_wait_for_acceptance_is_caught() {
    Job { mutation: Some(Mutation::NoAcceptance), ..Job::barrier(3, 1) }.fails();
}
