//! How counters change (A5, A6).
//!
//! Only those count who are members, or were so when the present interval began here, or the one before: two processes
//! that accuse each other then both leave, whichever accusation comes first. A process outside is believed that it is outside, and
//! nothing else.
//!
//! In a whole network there may be two groups for a moment: a slow process has evicted all others, and they have evicted
//! it. As soon as one hears of the other, the smaller one gives up.

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
            Message::Test(asked) => {
                self.tested_at = now;
                out.push(Action::Answer { to: from, asked });
            }
            Message::Reply { asked, answer, digest, counters } => {
                self.replied(now, from, Reply { asked, answer, digest, counters }, out);
            }
            Message::Syndrome(values) => self.hear(from, &values, out),
            Message::Event(event) => self.event(&event, out),
            Message::Request { target, counter } => self.requested(from, target, counter, out),
            Message::Propose { target, counter, digest } => self.proposed(from, target, counter, digest, out),
            Message::Vote { target, digest, agrees } => self.voted(from, target, digest, agrees, out),
            Message::Abort { target } => self.aborted(from, target),
            Message::Welcome { counters, view } => {
                self.hear(from, &counters, out);
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
        self.weigh(&event.news);
        self.raise(&event.news, out);
    }

    /// If news leave half of the group or less, the others may be about to say the same of it: their accusations are
    /// awaited before the program goes on.
    fn weigh(&mut self, news: &[(Rank, Counter)]) {
        let leaves = |rank: &Rank| news.iter().any(|(other, counter)| other == rank && !is_recommended(*counter));
        let rest = self.counters.group().iter().filter(|rank| !leaves(rank)).count();
        let is_smaller = rest < self.counters.group().len();
        if is_smaller && 2 * rest <= self.trials.frozen.len() {
            self.barrier.hold();
        }
    }

    fn pass_on(&self, event: &Arc<Event>, out: &mut Vec<Action>) {
        let receivers = receivers(event, self.config.count, self.config.me);
        out.extend(receivers.into_iter().map(|to| Action::Send { to, message: Message::Event(event.clone()) }));
    }

    fn event(&mut self, event: &Arc<Event>, out: &mut Vec<Action>) {
        let is_founding = self.counters.group().is_empty()
            && matches!(event.news[..], [(rank, counter)] if rank == event.origin && is_recommended(counter));
        let is_member = self.counters.group().contains(event.origin);
        let counts = is_founding || is_member || self.trials.was_member(event.origin);
        if counts && self.heard.note(event) {
            self.pass_on(event, out);
            // Whoever comes back needs all counters of the group: these come with the welcome, or with the next test.
            let is_return = |news: &(Rank, Counter)| news.0 == self.config.me && is_recommended(news.1);
            let news: Vec<_> = event.news.iter().copied().filter(|news| !is_return(news)).collect();
            self.weigh(&news);
            self.raise(&news, out);
        }
    }

    /// All counters of another process.
    pub(super) fn hear(&mut self, from: Rank, values: &[Counter], out: &mut Vec<Action>) {
        let theirs = Counters::of(values);
        let (old, new) = (self.counters.get(self.config.me), theirs.get(self.config.me));
        let has_group = theirs.group().contains(from);
        let is_mine = match (is_recommended(old), is_recommended(new)) {
            (true, _) => has_group && theirs.group().outweighs(self.counters.group()),
            // It has brought this process back.
            (false, true) => new > old,
            // What this process has found by itself outside does not count.
            (false, false) => has_group && new >= old,
        };
        if is_mine {
            self.replace(theirs, out);
        } else if !self.is_member() {
            let changed = self.counters.merge(values);
            self.changed(changed, out);
        } else if self.counters.group().contains(from) || self.trials.frozen.contains(from) {
            let changed = match theirs.get(from) {
                counter if is_recommended(counter) => self.counters.merge(values),
                counter if self.counters.raise(from, counter) => vec![from],
                _ => vec![],
            };
            self.changed(changed, out);
        }
    }

    fn replace(&mut self, theirs: Counters, out: &mut Vec<Action>) {
        let old = std::mem::replace(&mut self.counters, theirs);
        for rank in self.dead.iter() {
            let counter = self.counters.get(rank);
            if is_recommended(counter) {
                self.counters.raise(rank, counter + 1);
            }
        }
        let changed: Vec<_> =
            (0..self.config.count).filter(|rank| old.get(*rank) != self.counters.get(*rank)).collect();
        self.changed(changed, out);
        self.trials.abandon(self.counters.group().clone());
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
        if ranks.contains(&self.config.me) {
            // It has seen nothing of what happens while it is outside.
            self.targets.iter_mut().for_each(|target| target.streak = 0);
            if !self.is_member() {
                self.trials.abandon(Group::clone(&self.trials.frozen));
            }
        }
        if !self.counters.group().is_empty() {
            self.vacancy.ends();
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

    /// Makes a new group if there is none, and this process is the smallest of those that answer, rightly or not.
    pub(super) fn found(&mut self, out: &mut Vec<Action>) {
        let (me, count) = (self.config.me, self.config.count);
        if self.config.founds && self.counters.group().is_empty() && self.vacancy.is_for(me, count, &self.dead) {
            self.broadcast(Arc::new(Group::all(count)), vec![(me, self.counters.get(me) + 1)], out);
            // Who has founded one at the same moment is to know at once which of the two goes on.
            let others = (0..count).filter(|rank| *rank != me && !self.dead.contains(*rank));
            let counters = self.counters.shared();
            out.extend(others.map(|to| Action::Send { to, message: Message::Syndrome(counters.clone()) }));
        }
    }
}
