//! Hands the events to the machines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use recommended_group::action::Action;
use recommended_group::config::Config;
use recommended_group::counters::is_recommended;
use recommended_group::member::Member;
use recommended_group::message::{Asked, Message};
use recommended_group::test::{Primes, Test};
use recommended_group::units::{Counter, Rank};
use recommended_group::view::View;

use crate::random::{Purpose, Stream};
use crate::recommended::load::{Host, time};
use crate::recommended::scenario::{Fate, Scenario};

/// What happens to the program of a process.
#[derive(Debug)]
pub enum Input<P> {
    /// A round begins.
    Round(Arc<View>),
    /// A process has left the group or come back.
    Changed(Rank, Counter),
    /// A message of the program.
    Message(P),
}

/// What a program asks for.
#[derive(Debug)]
pub enum Call<P> {
    /// It is at the barrier; whether its round went well.
    Arrive(bool),
    /// A message to a process, itself or another, so many nanoseconds from now; the network takes its time, too.
    Send(Rank, P, u64),
}

/// What a run is told as it goes on, and the programs of all processes. `now` is in nanoseconds.
pub trait Observer<P = ()> {
    /// Something happens to the program of a process.
    fn program(&mut self, _now: u64, _me: Rank, _input: Input<P>, _calls: &mut Vec<Call<P>>) {}
    /// A process sends a message.
    fn sent(&mut self, _now: u64, _from: Rank, _message: &Message) {}
    /// A process says something else.
    fn said(&mut self, _now: u64, _who: &Member<Primes>, _action: &Action) {}
    /// A process leaves or comes back, as the first one learns it.
    fn changed(&mut self, _now: u64, _rank: Rank, _counter: Counter) {}
}

enum Event<P> {
    Program(P),
    Message { from: Rank, message: Message },
    Answered { to: Rank, asked: Asked },
    Timer,
    Fate(Fate),
}

#[derive(Clone, Copy, PartialEq)]
enum Condition {
    Runs,
    Stopped,
    Dead,
}

/// A run.
pub struct Run<P = ()> {
    members: Vec<Member<Primes>>,
    hosts: Vec<Host>,
    conditions: Vec<Condition>,
    /// By process: what came while it was stopped.
    waiting: Vec<Vec<Event<P>>>,
    /// When the timer of each process is set to.
    timers: Vec<u64>,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<(Rank, Event<P>)>>,
    unused: Vec<usize>,
    number: u64,
    network: u64,
    chance: Stream,
    /// The highest counters that anybody knows.
    known: Vec<Counter>,
    now: u64,
}

impl<P> Run<P> {
    /// The beginning. Each process starts at a random moment of the first interval.
    ///
    /// # Panics
    /// If there is no process.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let Scenario { count, seed, .. } = *scenario;
        let mut phases = Stream::new(seed, Purpose::Phases);
        let mut failures = Stream::new(seed, Purpose::Failures);
        let interval = scenario.config.interval.as_nanos() as u64;
        let starts: Vec<u64> = (0..count).map(|_| phases.below(interval)).collect();
        let test = Primes::below(10);
        let member = |me: Rank| Member::new(Config { me, count, ..scenario.config }, test, time(starts[me as usize]));
        let jobs = |me: Rank| scenario.jobs.get(me as usize).copied().unwrap_or(0);
        let mut run = Self {
            members: (0..count).map(member).collect(),
            hosts: (0..count).map(|me| Host::new(scenario.load, jobs(me), scenario.end, &mut failures)).collect(),
            conditions: vec![Condition::Runs; count as usize],
            waiting: (0..count).map(|_| Vec::new()).collect(),
            timers: starts.clone(),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            unused: Vec::new(),
            number: 0,
            network: scenario.network,
            chance: Stream::new(seed, Purpose::Messages),
            known: vec![0; count as usize],
            now: 0,
        };
        starts.iter().zip(0..).for_each(|(start, me)| run.push(*start, me, Event::Timer));
        scenario.fates.iter().for_each(|(at, who, fate)| run.push(*at, *who, Event::Fate(*fate)));
        run
    }

    /// All processes.
    #[must_use]
    pub fn members(&self) -> &[Member<Primes>] {
        &self.members
    }

    /// The processes that run.
    pub fn running(&self) -> impl Iterator<Item = &Member<Primes>> {
        self.members.iter().zip(&self.conditions).filter(|(_, is)| **is == Condition::Runs).map(|(member, _)| member)
    }

    /// The highest counters that anybody knows.
    #[must_use]
    pub fn known(&self) -> &[Counter] {
        &self.known
    }

    /// How many processes are in the group, by these.
    #[must_use]
    pub fn group_size(&self) -> usize {
        self.known.iter().filter(|counter| is_recommended(**counter)).count()
    }

    /// Goes on until this time, in nanoseconds.
    pub fn until(&mut self, end: u64, observer: &mut impl Observer<P>) {
        while let Some(&Reverse((at, _, place))) = self.queue.peek() {
            if at > end {
                break;
            }
            self.queue.pop();
            self.now = at;
            let (me, event) = self.events[place].take().expect("it is in the queue");
            self.unused.push(place);
            self.take(me, event, observer);
        }
        self.now = end;
    }

    fn push(&mut self, at: u64, me: Rank, event: Event<P>) {
        let place = self.unused.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some((me, event));
        self.number += 1;
        self.queue.push(Reverse((at, self.number, place)));
    }

    fn take(&mut self, me: Rank, event: Event<P>, observer: &mut impl Observer<P>) {
        let condition = &mut self.conditions[me as usize];
        match (event, *condition) {
            (_, Condition::Dead) => {}
            (Event::Fate(Fate::Kill), _) => *condition = Condition::Dead,
            (Event::Fate(Fate::Stop), _) => *condition = Condition::Stopped,
            (Event::Fate(Fate::Resume), _) => {
                *condition = Condition::Runs;
                // What has come is taken before time passes.
                for event in std::mem::take(&mut self.waiting[me as usize]) {
                    match event {
                        Event::Message { from, message } => {
                            let mut out = Vec::new();
                            self.members[me as usize].receive(time(self.now), from, message, &mut out);
                            out.into_iter().for_each(|action| self.carry_out(me, action, observer));
                        }
                        event => self.push(self.now, me, event),
                    }
                }
                self.timers[me as usize] = self.now;
                self.push(self.now, me, Event::Timer);
            }
            (event, Condition::Stopped) => self.waiting[me as usize].push(event),
            // A timer that was set anew.
            (Event::Timer, _) if self.timers[me as usize] != self.now => {}
            (event, Condition::Runs) => self.happen(me, event, observer),
        }
    }

    fn happen(&mut self, me: Rank, event: Event<P>, observer: &mut impl Observer<P>) {
        let (now, mut out) = (time(self.now), Vec::new());
        let member = &mut self.members[me as usize];
        match event {
            Event::Message { from, message } => member.receive(now, from, message, &mut out),
            Event::Answered { to, asked } => {
                let answer = member.test().answer(asked.question);
                member.answered(to, asked, answer, &mut out);
            }
            Event::Program(message) => return self.program(me, Input::Message(message), observer),
            Event::Timer | Event::Fate(_) => {}
        }
        member.timer(now, &mut out);
        self.settle(me, out, observer);
    }

    /// Carries the actions of a process out, and sets its timer.
    fn settle(&mut self, me: Rank, out: Vec<Action>, observer: &mut impl Observer<P>) {
        let member = &mut self.members[me as usize];
        let deadline = member.deadline().as_nanos() as u64;
        if self.timers[me as usize] != deadline {
            self.timers[me as usize] = deadline;
            self.push(deadline, me, Event::Timer);
        }
        out.into_iter().for_each(|action| self.carry_out(me, action, observer));
    }

    fn carry_out(&mut self, me: Rank, action: Action, observer: &mut impl Observer<P>) {
        match action {
            Action::Send { to, message } => {
                observer.sent(self.now, me, &message);
                let arrives = self.now + self.chance.up_to(self.network);
                let at = arrives + self.hosts[to as usize].delay(arrives, &mut self.chance);
                self.push(at, to, Event::Message { from: me, message });
            }
            Action::Answer { to, asked } => {
                let takes = self.hosts[me as usize].answer(self.now, &mut self.chance);
                self.push(self.now + takes, me, Event::Answered { to, asked });
            }
            Action::Round(view) => self.program(me, Input::Round(view), observer),
            other => {
                observer.said(self.now, &self.members[me as usize], &other);
                if let Action::Changed { rank, counter } = other {
                    if counter > self.known[rank as usize] {
                        self.known[rank as usize] = counter;
                        observer.changed(self.now, rank, counter);
                    }
                    self.program(me, Input::Changed(rank, counter), observer);
                }
            }
        }
    }

    /// Something happens to a program.
    pub fn program(&mut self, me: Rank, input: Input<P>, observer: &mut impl Observer<P>) {
        let mut calls = Vec::new();
        observer.program(self.now, me, input, &mut calls);
        for call in calls {
            match call {
                Call::Arrive(went_well) => {
                    let mut out = Vec::new();
                    self.members[me as usize].arrive(went_well, &mut out);
                    self.settle(me, out, observer);
                }
                Call::Send(to, message, after) => {
                    let at = self.now + after + self.chance.up_to(self.network);
                    self.push(at, to, Event::Program(message));
                }
            }
        }
    }
}
