//! How counters change (A5, A6).
//!
//! Only those count who were members when the present interval began here: two processes that accuse each other then
//! both leave, whichever accusation comes first.

use std::sync::Arc;

use super::intervals::Reply;
use super::state::Member;
use crate::action::Action;
use crate::counters::{Counters, is_recommended};
use crate::event::{Event, receivers};
use crate::group::Group;
use crate::message::Message;
use crate::test::Test;
use crate::units::{Counter, Rank, Time};

impl<T: Test> Member<T> {
    /// Takes a message.
    pub fn receive(&mut self, now: Time, from: Rank, message: Message, out: &mut Vec<Action>) {
        if from >= self.config.count || from == self.config.me || !message.is_for(self.config.count) {
            return;
        }
        match message {
            Message::Test(asked) => out.push(Action::Answer { to: from, asked }),
            Message::Reply { asked, answer, digest, counters } => {
                self.replied(now, from, Reply { asked, answer, digest, counters }, out);
            }
            Message::Syndrome(values) => self.told(from, &values, out),
            Message::Event(event) => self.event(&event, out),
            Message::Request { target, counter } => self.requested(from, target, counter, out),
            Message::Propose { target, counter, digest } => self.proposed(from, target, counter, digest, out),
            Message::Vote { target, digest, agrees } => self.voted(from, target, digest, agrees, out),
            Message::Abort { target } => self.aborted(from, target),
            Message::Welcome { counters, view } => {
                self.told(from, &counters, out);
                if self.counters.group().contains(from) && self.is_member() {
                    self.barrier.adopt(view, &self.counters, out);
                }
            }
            Message::Query(_)
            | Message::Report(_)
            | Message::Install { .. }
            | Message::Accepted { .. }
            | Message::Commit(_) => self.barrier.receive(from, message, &self.counters, out),
        }
    }

    /// The job knows that a process is dead, and tells all others.
    pub fn died(&mut self, rank: Rank, out: &mut Vec<Action>) {
        if rank != self.config.me && self.dead.insert(rank) {
            let counter = self.counters.get(rank);
            if is_recommended(counter) {
                out.push(Action::Decided { rank, counter: counter + 1 });
                self.raise(&[(rank, counter + 1)], out);
            }
        }
    }

    /// Begins a broadcast of news, and takes it.
    pub(super) fn broadcast(&mut self, group: Arc<Group>, news: Vec<(Rank, Counter)>, out: &mut Vec<Action>) {
        self.events += 1;
        out.extend(news.iter().map(|(rank, counter)| Action::Decided { rank: *rank, counter: *counter }));
        let event = Arc::new(Event { origin: self.config.me, number: self.events, group, news });
        self.pass_on(&event, out);
        self.raise(&event.news, out);
    }

    fn pass_on(&self, event: &Arc<Event>, out: &mut Vec<Action>) {
        let receivers = receivers(event, self.config.count, self.config.me);
        out.extend(receivers.into_iter().map(|to| Action::Send { to, message: Message::Event(event.clone()) }));
    }

    fn event(&mut self, event: &Arc<Event>, out: &mut Vec<Action>) {
        let is_founding = self.counters.group().is_empty()
            && matches!(event.news[..], [(rank, counter)] if rank == event.origin && is_recommended(counter));
        let counts = is_founding || self.trials.frozen.contains(event.origin);
        if counts && self.heard.note(event) {
            self.pass_on(event, out);
            self.raise(&event.news, out);
        }
    }

    /// Counters of a process that was tested.
    pub(super) fn learn(&mut self, from: Rank, values: &[Counter], out: &mut Vec<Action>) {
        if !self.trials.frozen.contains(from) {
            return;
        }
        let changed = self.counters.merge(values);
        self.changed(changed, out);
    }

    /// Counters that a process was not asked for.
    pub(super) fn told(&mut self, from: Rank, values: &[Counter], out: &mut Vec<Action>) {
        let me = self.config.me;
        let (old, new) = (self.counters.get(me), values[me as usize]);
        if !is_recommended(old) && is_recommended(new) && new > old {
            // The group has brought this process back. What it has found by itself outside does not count.
            self.replace(values, out);
        } else if self.counters.group().is_empty() {
            let changed = self.counters.merge(values);
            self.changed(changed, out);
        } else {
            self.learn(from, values, out);
        }
    }

    fn replace(&mut self, values: &[Counter], out: &mut Vec<Action>) {
        let old = std::mem::replace(&mut self.counters, Counters::of(values));
        let changed = (0..self.config.count).filter(|rank| old.get(*rank) != self.counters.get(*rank)).collect();
        self.changed(changed, out);
    }

    pub(super) fn raise(&mut self, news: &[(Rank, Counter)], out: &mut Vec<Action>) {
        let raised = news.iter().filter(|(rank, counter)| self.counters.raise(*rank, *counter));
        let changed = raised.map(|(rank, _)| *rank).collect();
        self.changed(changed, out);
    }

    fn changed(&mut self, ranks: Vec<Rank>, out: &mut Vec<Action>) {
        if ranks.is_empty() {
            return;
        }
        for rank in ranks {
            self.targets[rank as usize].streak = 0;
            out.push(Action::Changed { rank, counter: self.counters.get(rank) });
        }
        // No ballot goes on with other counters than it has begun with.
        self.ballots.clear();
        self.targets.iter_mut().for_each(|target| target.is_requested = false);
        self.barrier.regroup(&self.counters, out);
    }

    /// The group is empty: the smallest process of those that answer each other makes a new one.
    pub(super) fn found(&mut self, failed: &[Rank], out: &mut Vec<Action>) {
        let me = self.config.me;
        let is_silent = |rank: Rank| self.dead.contains(rank) || failed.contains(&rank);
        if self.config.founds && self.counters.group().is_empty() && (0..me).all(is_silent) {
            let everybody = Arc::new(Group::all(self.config.count));
            self.broadcast(everybody, vec![(me, self.counters.get(me) + 1)], out);
        }
    }
}
