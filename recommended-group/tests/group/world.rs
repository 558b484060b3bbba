//! Processes with a clock and a network. A message takes a millisecond; an answer takes what its process takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use recommended_group::action::Action;
use recommended_group::config::Config;
use recommended_group::member::Member;
use recommended_group::message::{Asked, Message};
use recommended_group::test::{Primes, Test};
use recommended_group::units::{Rank, Time};
use recommended_group::view::View;

pub const MS: Time = Duration::from_millis(1);
pub const SECOND: Time = Duration::from_secs(1);

/// What happens to a process.
#[derive(Clone, Debug)]
enum Event {
    Message { from: Rank, message: Message },
    Answered { to: Rank, asked: Asked, answer: u64 },
    Timer,
}

/// Whether a message gets lost: sender, receiver, message.
pub type Loses = dyn FnMut(Rank, Rank, &Message) -> bool;

pub struct World {
    pub members: Vec<Member<Primes>>,
    pub now: Time,
    /// How long each process takes to answer.
    pub service: Vec<Time>,
    /// How much later each process handles what has arrived.
    pub lag: Vec<Time>,
    /// Whose answers are wrong.
    pub is_wrong: Vec<bool>,
    pub is_dead: Vec<bool>,
    stopped: BTreeMap<Rank, Vec<Event>>,
    queue: BinaryHeap<Reverse<(Time, u64, Rank)>>,
    events: BTreeMap<u64, Event>,
    count: u64,
    /// Messages that get lost.
    pub loses: Box<Loses>,
    /// All messages that were sent.
    pub sent: Vec<(Rank, Rank, Message)>,
    /// What else the processes have said, and when.
    pub told: Vec<(Time, Rank, Action)>,
    /// By process: the views with which it has begun rounds.
    pub rounds: Vec<Vec<Arc<View>>>,
}

impl World {
    pub fn new(count: u32, change: impl Fn(&mut Config)) -> Self {
        Self::starting(count, change, |me| MS * (100 * me % 900 + me))
    }

    /// With the beginning of each process's first interval.
    pub fn starting(count: u32, change: impl Fn(&mut Config), start: impl Fn(Rank) -> Time) -> Self {
        let config = |me| {
            let mut config = Config::new(me, count);
            change(&mut config);
            config
        };
        let members = (0..count).map(|me| Member::new(config(me), Primes::below(100), start(me))).collect();
        let many = count as usize;
        let mut world = Self {
            members,
            now: Time::ZERO,
            service: vec![10 * MS; many],
            lag: vec![Time::ZERO; many],
            is_wrong: vec![false; many],
            is_dead: vec![false; many],
            stopped: BTreeMap::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            count: 0,
            loses: Box::new(|_, _, _| false),
            sent: Vec::new(),
            told: Vec::new(),
            rounds: vec![Vec::new(); many],
        };
        (0..count).for_each(|me| world.push(start(me), me, Event::Timer));
        world
    }

    fn push(&mut self, at: Time, to: Rank, event: Event) {
        self.count += 1;
        self.queue.push(Reverse((at, self.count, to)));
        self.events.insert(self.count, event);
    }

    pub fn carry_out(&mut self, me: Rank, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    self.sent.push((me, to, message.clone()));
                    if !(self.loses)(me, to, &message) {
                        self.push(self.now + MS + self.lag[to as usize], to, Event::Message { from: me, message });
                    }
                }
                Action::Answer { to, asked } => {
                    let answer = self.members[me as usize].test().answer(asked.question);
                    let answer = answer + u64::from(self.is_wrong[me as usize]);
                    self.push(self.now + self.service[me as usize], me, Event::Answered { to, asked, answer });
                }
                Action::Round(view) => self.rounds[me as usize].push(view),
                other => self.told.push((self.now, me, other)),
            }
        }
    }

    fn happen(&mut self, me: Rank, event: Event) {
        let (now, mut out) = (self.now, vec![]);
        let member = &mut self.members[me as usize];
        match event {
            Event::Message { from, message } => member.receive(now, from, message, &mut out),
            Event::Answered { to, asked, answer } => member.answered(to, asked, answer, &mut out),
            Event::Timer => {}
        }
        member.timer(now, &mut out);
        let deadline = member.deadline();
        self.carry_out(me, out);
        self.push(deadline.max(now), me, Event::Timer);
    }

    /// Runs until this time. Timers that were left behind by newer ones do no harm.
    pub fn run_until(&mut self, end: Time) {
        while let Some(Reverse((at, number, me))) = self.queue.pop() {
            if at > end {
                self.queue.push(Reverse((at, number, me)));
                break;
            }
            let event = self.events.remove(&number).expect("it is in the queue");
            self.now = self.now.max(at);
            if self.is_dead[me as usize] {
                continue;
            }
            if let Some(waiting) = self.stopped.get_mut(&me) {
                waiting.push(event);
                continue;
            }
            let is_old = matches!(event, Event::Timer) && at < self.members[me as usize].deadline();
            if !is_old {
                self.happen(me, event);
            }
        }
        self.now = end;
    }

    pub fn run(&mut self, time: Time) {
        self.run_until(self.now + time);
    }

    pub fn kill(&mut self, rank: Rank) {
        self.is_dead[rank as usize] = true;
    }

    pub fn stop(&mut self, rank: Rank) {
        self.stopped.insert(rank, vec![]);
    }

    /// As a process of `group-client`: it takes all that has come, then time passes, then it answers each tester once.
    pub fn resume(&mut self, rank: Rank) {
        let waiting = self.stopped.remove(&rank).expect("it was stopped");
        let (now, mut tests) = (self.now, BTreeMap::new());
        for event in waiting {
            let mut out = vec![];
            match event {
                Event::Message { from, message } => {
                    self.members[rank as usize].receive(now, from, message, &mut out);
                }
                Event::Answered { to, asked, .. } => {
                    tests.insert(to, asked);
                }
                Event::Timer => {}
            }
            for action in out {
                match action {
                    Action::Answer { to, asked } => {
                        tests.insert(to, asked);
                    }
                    other => self.carry_out(rank, vec![other]),
                }
            }
        }
        self.happen(rank, Event::Timer);
        self.carry_out(rank, tests.into_iter().map(|(to, asked)| Action::Answer { to, asked }).collect());
    }

    /// A call of the program.
    pub fn arrive(&mut self, me: Rank, went_well: bool) {
        let mut out = vec![];
        self.members[me as usize].arrive(went_well, &mut out);
        self.carry_out(me, out);
    }

    /// Time passes for everybody at this moment.
    pub fn look(&mut self) {
        (0..self.members.len()).for_each(|me| self.happen(me as Rank, Event::Timer));
    }

    /// The counters on which all members agree.
    pub fn counters(&self) -> Vec<u32> {
        let alive =
            (0..self.members.len()).filter(|rank| !self.is_dead[*rank] && !self.stopped.contains_key(&(*rank as Rank)));
        let members: Vec<_> = alive.filter(|rank| self.members[*rank].is_member()).collect();
        let counters = self.members[members[0]].counters().values().to_vec();
        for member in members {
            assert_eq!(self.members[member].counters().values(), counters, "of process {member}");
        }
        counters
    }

    /// How many messages of a kind were sent since the last call of this function.
    pub fn count(&mut self, is_kind: impl Fn(&Message) -> bool) -> usize {
        std::mem::take(&mut self.sent).iter().filter(|(_, _, message)| is_kind(message)).count()
    }

    /// Who was told what.
    pub fn said(&self, is_it: impl Fn(&Action) -> bool) -> Vec<Rank> {
        self.told.iter().filter(|(_, _, action)| is_it(action)).map(|(_, who, _)| *who).collect()
    }
}
