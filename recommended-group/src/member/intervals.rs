//! Tests and verdicts (A2, A3).

use std::sync::Arc;

use super::state::Member;
use crate::action::Action;
use crate::counters::is_recommended;
use crate::message::{Asked, Message};
use crate::test::Test;
use crate::units::{Counter, Rank, Time};

impl<T: Test> Member<T> {
    /// When [`Member::timer`] is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.trials.deadline().map_or(self.next_interval, |give_up| give_up.min(self.next_interval))
    }

    /// Time has passed.
    pub fn timer(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.trials.is_due(now) || (self.trials.is_open() && now >= self.next_interval) {
            self.conclude(out);
        }
        if now >= self.next_interval {
            // What was missed while the process was stopped is not made up for.
            self.next_interval = now.max(self.next_interval) + self.config.interval;
            self.begin(now, out);
        }
    }

    /// Begins an interval.
    fn begin(&mut self, now: Time, out: &mut Vec<Action>) {
        let question = self.test.question(self.trials.number + 1);
        let group = self.counters.group().clone();
        let mut targets = Vec::new();
        if self.is_member() {
            targets = self.config.assignment.targets(self.config.me, self.config.count, &group);
        } else if self.config.founds && group.is_empty() {
            targets = (0..self.config.count).filter(|rank| *rank != self.config.me).collect();
        }
        targets.retain(|rank| !self.dead.contains(*rank));
        let longest = targets.iter().map(|rank| self.threshold(*rank)).max().unwrap_or_default();
        let give_up = (now + longest.saturating_mul(self.config.patience)).min(self.next_interval);
        self.trials.begin(group, question, self.config.count, &targets, give_up);
        let asked = Asked { interval: self.trials.number, sent: now, question, digest: self.counters.digest() };
        out.extend(targets.iter().map(|to| Action::Send { to: *to, message: Message::Test(asked) }));
        if targets.is_empty() && self.counters.group().is_empty() {
            self.found(&[], out);
        }
        self.propose_again(out);
        self.barrier.retry(&self.counters, out);
    }

    /// The answer to a test is there.
    pub fn answered(&mut self, to: Rank, asked: Asked, answer: u64, out: &mut Vec<Action>) {
        let digest = self.counters.digest();
        let counters = (digest != asked.digest && self.is_member()).then(|| self.counters.shared());
        out.push(Action::Send { to, message: Message::Reply { asked, answer, digest, counters } });
    }

    /// A process has answered.
    pub(super) fn replied(&mut self, now: Time, from: Rank, reply: Reply, out: &mut Vec<Action>) {
        let Reply { asked, answer, digest, counters } = reply;
        let (threshold, time) = (self.threshold(from), now.saturating_sub(asked.sent));
        // A late reply is one, too: else no threshold would ever reach a process that has become slow.
        self.targets[from as usize].estimator.observe(time, &self.config.tolerance);
        if let Some(values) = counters {
            self.learn(from, &values, out);
        }
        if digest != self.counters.digest() && self.is_member() && self.counters.group().contains(from) {
            out.push(Action::Send { to: from, message: Message::Syndrome(self.counters.shared()) });
        }
        let is_right = asked.question == self.trials.question && self.test.is_right(asked.question, answer);
        let passed = is_right && time <= threshold;
        if asked.interval == self.trials.number && self.trials.settle(from, passed) {
            out.push(Action::Tested { target: from, reply: Some(time), threshold, passed });
            if passed {
                self.passed(from, out);
            }
        }
        if self.trials.is_due(now) {
            self.conclude(out);
        }
    }

    /// A process outside has passed another test.
    fn passed(&mut self, rank: Rank, out: &mut Vec<Action>) {
        if is_recommended(self.counters.get(rank)) || !self.is_member() {
            return;
        }
        let needed = self.config.passes;
        let target = &mut self.targets[rank as usize];
        target.streak += 1;
        if target.streak % needed == 0 {
            // A request may be lost.
            target.is_requested = false;
        }
        if target.streak >= needed && !target.is_requested && self.config.returns {
            target.is_requested = true;
            self.request(rank, out);
        }
    }

    /// Takes the verdict of the interval, and tells it.
    fn conclude(&mut self, out: &mut Vec<Action>) {
        let unanswered: Vec<Rank> = self.trials.unanswered().collect();
        let given_up = |rank: &Rank| {
            let threshold = self.threshold(*rank);
            Action::Tested { target: *rank, reply: None, threshold, passed: false }
        };
        out.extend(unanswered.iter().map(given_up));
        let Some(failed) = self.trials.close(self.config.doubts) else { return };
        if self.trials.frozen.is_empty() {
            return self.found(&failed, out);
        }
        if !self.is_member() {
            return;
        }
        let mut news: Vec<(Rank, Counter)> = Vec::new();
        for rank in failed {
            self.targets[rank as usize].streak = 0;
            let counter = self.counters.get(rank);
            if is_recommended(counter) {
                news.push((rank, counter + 1));
            }
        }
        if !news.is_empty() {
            let group = Arc::clone(&self.trials.frozen);
            self.broadcast(group, news, out);
        }
    }
}

/// A reply, taken apart.
pub(super) struct Reply {
    pub asked: Asked,
    pub answer: u64,
    pub digest: u64,
    pub counters: Option<Arc<[Counter]>>,
}
