//! The state of one process, without I/O: what the group's state machine does not know, which is the end.
//!
//! A process whose program is complete has left. It tells all, and whoever asks it later. For the state machine of the
//! others it is gone like a dead one, and its counter there is odd; but nobody has evicted it, so nobody who watches is
//! told so, and its counter is shown as it was. One that is outside asks: it
//! tests nobody, and what the others told it when they left may be lost. One that hears that the
//! program is complete in more rounds than it knows of has nothing left to do: it was outside, or has not heard of the
//! last view.

use std::collections::BTreeMap;
use std::sync::Arc;

use recommended_group::action::Action;
use recommended_group::config::Config;
use recommended_group::counters::is_recommended;
use recommended_group::member::Member;
use recommended_group::message::{Asked, Message};
use recommended_group::report::{Change, Row, Sight, Standing, Tested};
use recommended_group::units::{Counter, Rank, Time};
use recommended_group::view::View;

use crate::packet::Packet;
use crate::question::Question;

/// What is to be done with the network.
#[derive(Debug, Default)]
pub struct Work {
    /// Packets to send.
    pub packets: Vec<(Rank, Packet)>,
    /// Tests to answer, with [`Process::answered`]; of each tester the last one.
    pub tests: Vec<(Rank, Asked)>,
    /// What this process has decided, for those who watch.
    pub changes: Vec<Change>,
}

/// One process.
pub struct Process {
    member: Member<Question>,
    me: Rank,
    count: u32,
    /// The round that the program is in.
    round: Arc<View>,
    /// The last view of which this process knew before that.
    known: Arc<View>,
    returned: Vec<Rank>,
    waits: bool,
    /// Of those who have left, the counter that they had.
    left: BTreeMap<Rank, Counter>,
    /// The last test of each process by this one.
    tested: Vec<Option<Tested>>,
    /// After how many rounds the program is complete, if it is.
    ended: Option<u64>,
    has_left: bool,
    /// Whom this process has asked last whether the program is complete.
    asked: Rank,
    actions: Vec<Action>,
    work: Work,
}

impl Process {
    /// All are in the first round.
    #[must_use]
    pub fn new(config: Config, question: Question, now: Time) -> Self {
        let first = Arc::new(View::first(config.count));
        Self {
            me: config.me,
            count: config.count,
            member: Member::new(config, question, now),
            known: first.clone(),
            round: first,
            returned: Vec::new(),
            waits: false,
            left: BTreeMap::new(),
            tested: vec![None; config.count as usize],
            ended: None,
            has_left: false,
            asked: config.me,
            actions: Vec::new(),
            work: Work::default(),
        }
    }

    /// What is to be done now.
    pub fn work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// Whether the program is complete, here or at others.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.has_left || self.ended.is_some()
    }

    /// When [`Process::timer`] is to be called next; None: not any more.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (!self.is_over()).then(|| self.member.deadline())
    }

    /// Time has passed.
    pub fn timer(&mut self, now: Time) {
        if !self.is_over() && now >= self.member.deadline() {
            self.member.timer(now, &mut self.actions);
            self.settle();
            if !self.member.is_member() {
                self.ask();
            }
        }
    }

    /// Asks one of the others after the other, one each time, whether the program is complete.
    fn ask(&mut self) {
        let mut others = (1..=self.count).map(|step| (self.asked + step) % self.count);
        let is_there = |rank: &Rank| *rank != self.me && !self.member.dead().contains(*rank);
        if let Some(to) = others.find(is_there) {
            self.asked = to;
            self.work.packets.push((to, Packet::Ask));
        }
    }

    /// A packet has come.
    pub fn receive(&mut self, now: Time, from: Rank, packet: Packet) {
        if from >= self.count || from == self.me {
            return;
        }
        match packet {
            Packet::Left { rounds, counter } => self.other_left(from, rounds, counter),
            // The end is told to whoever does not know it.
            Packet::Group(_) | Packet::Ask if self.is_over() => self.tell_end(from),
            Packet::Ask => {}
            Packet::Group(message) => {
                self.member.receive(now, from, message, &mut self.actions);
                self.settle();
            }
        }
    }

    fn other_left(&mut self, from: Rank, rounds: u64, counter: Counter) {
        self.left.insert(from, counter);
        if self.is_over() {
            return;
        }
        if rounds > self.member.view().round {
            self.ended = Some(rounds);
            self.waits = false;
            return;
        }
        self.member.died(from, &mut self.actions);
        self.settle();
    }

    fn tell_end(&mut self, to: Rank) {
        let rounds = self.ended.unwrap_or(self.round.round);
        self.work.packets.push((to, Packet::Left { rounds, counter: self.counter(self.me) }));
    }

    /// The answer to a test of [`Work`].
    pub fn answered(&mut self, to: Rank, asked: Asked, answer: u64) {
        if !self.is_over() {
            self.member.answered(to, asked, answer, &mut self.actions);
            self.settle();
        }
    }

    /// A process is known to be dead.
    pub fn died(&mut self, rank: Rank) {
        if rank < self.count && !self.is_over() {
            self.member.died(rank, &mut self.actions);
            self.settle();
        }
    }

    /// The program has done its part of the round, or has given the round up, and waits for the next.
    pub fn arrive(&mut self, went_well: bool) {
        if !self.is_over() {
            self.waits = true;
            self.member.arrive(went_well, &mut self.actions);
            self.settle();
        }
    }

    /// Whether the program waits for the next round.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Whether the program is complete at others.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The round that the program is in.
    #[must_use]
    pub fn round(&self) -> &Arc<View> {
        &self.round
    }

    /// Who takes part in this round, and did not in the one before.
    #[must_use]
    pub fn returned(&self) -> &[Rank] {
        &self.returned
    }

    /// How many members of this round have left the group since it began, whether they are back or not.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.round.lost(self.member.counters()).count()
    }

    /// What this process knows of one.
    #[must_use]
    pub fn standing(&self, rank: Rank) -> Standing {
        if self.left.contains_key(&rank) {
            Standing::Left
        } else if self.member.dead().contains(rank) {
            Standing::Dead
        } else if self.member.counters().group().contains(rank) {
            Standing::Member
        } else {
            Standing::Evicted
        }
    }

    /// How often a process was evicted or has come back; that its program is complete does not count.
    #[must_use]
    pub fn counter(&self, rank: Rank) -> Counter {
        self.left.get(&rank).copied().unwrap_or_else(|| self.member.counters().get(rank))
    }

    /// How this process sees the group.
    #[must_use]
    pub fn sight(&self) -> Sight {
        let row = |rank: Rank| Row {
            rank,
            standing: self.standing(rank),
            is_in_round: self.round.members.contains(rank),
            counter: self.counter(rank),
            streak: self.member.streak(rank),
            threshold: self.member.threshold(rank),
            tested: self.tested[rank as usize],
        };
        let (round, epoch) = (self.round.round, self.round.number);
        Sight { round, epoch, waits: self.waits, rows: (0..self.count).map(row).collect() }
    }

    /// The program is complete.
    pub fn leave(&mut self) {
        if !self.has_left {
            self.has_left = true;
            self.waits = false;
            self.left.insert(self.me, self.counter(self.me));
            let others: Vec<Rank> = (0..self.count).filter(|rank| *rank != self.me).collect();
            let others =
                others.into_iter().filter(|rank| matches!(self.standing(*rank), Standing::Member | Standing::Evicted));
            others.collect::<Vec<_>>().into_iter().for_each(|to| self.tell_end(to));
        }
    }

    fn settle(&mut self) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Send { to, message } => self.send(to, message),
                Action::Answer { to, asked } => {
                    // After a stop many wait. To answer them all would only tell each tester the same several times.
                    self.work.tests.retain(|(tester, _)| *tester != to);
                    self.work.tests.push((to, asked));
                }
                Action::Round(view) => self.begin(view),
                // Its program is complete: it answers no test, and nobody has decided anything.
                Action::Tested { target: other, .. } | Action::Decided { rank: other, .. }
                    if self.left.contains_key(&other) => {}
                Action::Tested { target, reply, threshold, passed } => {
                    self.tested[target as usize] = Some(Tested::of(reply, threshold, passed));
                }
                Action::Decided { rank, counter } => {
                    let has_failed = !is_recommended(counter) && !self.member.dead().contains(rank);
                    let tested = self.tested[rank as usize].filter(|_| has_failed);
                    self.work.changes.push(Change { rank, counter, tested });
                }
                Action::Changed { .. } | Action::Requested { .. } | Action::Voted { .. } | Action::Opened { .. } => {}
            }
        }
        self.known = self.member.view().clone();
    }

    fn send(&mut self, to: Rank, message: Message) {
        self.work.packets.push((to, Packet::Group(message)));
    }

    fn begin(&mut self, view: Arc<View>) {
        self.returned = view.members.iter().filter(|rank| !self.known.members.contains(*rank)).collect();
        self.waits = false;
        self.round = view;
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
