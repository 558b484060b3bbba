//! Tests and verdicts (A2, A3).

use std::sync::Arc;
use std::time::Duration;

use super::state::{Member, Repeat};
use crate::action::Action;
use crate::assignment::Assignment;
use crate::config::Config;
use crate::counters::is_recommended;
use crate::estimator::Estimator;
use crate::group::Group;
use crate::message::{Asked, Message};
use crate::test::Test;
use crate::trials::Trial;
use crate::units::{Counter, Rank, Time};

/// After this time, or an interval if that is shorter, the first words of a barrier are said again.
const SOON: Time = Duration::from_millis(250);
/// The longest pause between repetitions.
const RARELY: Time = Duration::from_secs(4);

impl<T: Test> Member<T> {
    /// When [`Member::timer`] is to be called next.
    #[must_use]
    pub fn deadline(&self) -> Time {
        if !self.differ.is_empty() || self.accepted().is_some() {
            return Time::ZERO;
        }
        let ends = [self.trials.deadline(), self.repeat.map(|repeat| repeat.at), self.release_at];
        ends.into_iter().flatten().fold(self.next_interval, Time::min)
    }

    /// Time has passed. All messages that have come are to be handed over before: a verdict is taken here, others are told
    /// of counters, and one of the messages may say that this process has left.
    pub fn timer(&mut self, now: Time, out: &mut Vec<Action>) {
        self.tell(out);
        self.decide(out);
        if self.trials.is_due(now) || (self.trials.is_open() && now >= self.next_interval) {
            self.conclude(now, out);
        }
        if now >= self.next_interval {
            // What was missed while the process was stopped is not made up for.
            self.next_interval = now.max(self.next_interval) + self.config.interval;
            self.begin(now, out);
        }
        self.release(now, out);
        self.repeat(now, out);
    }

    /// Lets a barrier go on that was held when the group became small.
    fn release(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.barrier.is_held() {
            return;
        }
        let at = *self.release_at.get_or_insert(now + self.config.interval.min(SOON));
        if now >= at {
            self.release_at = None;
            self.barrier.release(&self.counters, out);
        }
    }

    /// Tells all counters to those who know others.
    fn tell(&mut self, out: &mut Vec<Action>) {
        if self.differ.is_empty() {
            return;
        }
        if self.is_member() || self.counters.group().is_empty() {
            let counters = self.counters.shared();
            out.extend(self.differ.iter().map(|to| Action::Send { to, message: Message::Syndrome(counters.clone()) }));
        }
        self.differ.clear();
    }

    /// A process outside that nobody tests any more has lost its group.
    fn miss_group(&mut self, now: Time, out: &mut Vec<Action>) {
        let longest = self.config.tolerance.initial.max(self.config.interval * (self.config.passes + 1));
        if self.config.founds && !self.is_member() && now.saturating_sub(self.tested_at) > longest {
            let group = self.counters.group().iter();
            let lost: Vec<_> = group.map(|rank| (rank, self.counters.get(rank) + 1)).collect();
            self.raise(&lost, out);
        }
    }

    /// Says again at the barrier what may be lost: soon, then more and more rarely.
    fn repeat(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.barrier.is_under_way() {
            self.repeat = None;
            return;
        }
        let view = self.barrier.view().number;
        let longest = self.config.interval.min(RARELY);
        let pause = match self.repeat.filter(|last| last.view == view) {
            None => SOON.min(longest),
            Some(last) if now < last.at => return,
            Some(last) => {
                self.barrier.retry(&self.counters, out);
                longest.min(2 * last.pause)
            }
        };
        self.repeat = Some(Repeat { view, at: now + pause, pause });
    }

    /// Begins an interval.
    fn begin(&mut self, now: Time, out: &mut Vec<Action>) {
        self.miss_group(now, out);
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
        let conclude_at = (now + longest.saturating_mul(self.config.patience)).min(self.next_interval);
        self.trials.begin(now, group, question, &targets, conclude_at);
        let asked = Asked { interval: self.trials.number, sent: now, question, digest: self.counters.digest() };
        out.extend(self.trials.asked().map(|to| Action::Send { to, message: Message::Test(asked) }));
        if targets.is_empty() {
            self.found(out);
        }
        self.propose_again(out);
    }

    /// The answer to a test is there.
    pub fn answered(&mut self, to: Rank, asked: Asked, answer: u64, out: &mut Vec<Action>) {
        let digest = self.counters.digest();
        // Also of a process outside: who takes it for a member hears that it is none.
        let counters = (digest != asked.digest).then(|| self.counters.shared());
        out.push(Action::Send { to, message: Message::Reply { asked, answer, digest, counters } });
    }

    /// A process has answered.
    pub(super) fn replied(&mut self, now: Time, from: Rank, reply: Reply, out: &mut Vec<Action>) {
        let Reply { asked, answer, digest, counters } = reply;
        let (threshold, time) = (self.threshold(from), now.saturating_sub(asked.sent));
        // A late reply is one, too: else no threshold would ever reach a process that has become slow.
        self.targets[from as usize].estimator.observe(time, &self.config.tolerance);
        let is_outside = counters.as_ref().map(|values| !is_recommended(values[from as usize]));
        if let Some(values) = counters {
            self.hear(from, &values, out);
        }
        let is_same = digest == self.counters.digest();
        if !is_same {
            self.differ.insert(from);
        }
        if self.counters.group().is_empty() && (is_same || is_outside == Some(true)) {
            self.vacancy.is_outside(from);
        }
        if let Some(trial) = self.trials.of(from).filter(|trial| trial.interval == asked.interval) {
            let is_right = asked.question == trial.question && self.test.is_right(asked.question, answer);
            let passed = is_right && time <= threshold;
            self.trials.settle(from, passed);
            out.push(Action::Tested { target: from, reply: Some(time), threshold, passed });
            if passed {
                self.passed(from, out);
            }
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
    fn conclude(&mut self, now: Time, out: &mut Vec<Action>) {
        let (config, targets, founds) = (&self.config, &self.targets, self.trials.frozen.is_empty());
        let awaited = |rank: Rank, trial: Trial| awaited(config, &targets[rank as usize].estimator, trial, founds);
        let is_given_up = |rank, trial: Trial| now.saturating_sub(trial.sent) >= awaited(rank, trial);
        let verdict = self.trials.close(config.doubts, is_given_up);
        let given_up = |(rank, trial): &(Rank, Trial)| Action::Tested {
            target: *rank,
            reply: None,
            threshold: awaited(*rank, *trial),
            passed: false,
        };
        out.extend(verdict.silent.iter().map(given_up));
        if self.counters.group().is_empty() {
            verdict.silent.iter().for_each(|(rank, _)| self.vacancy.is_silent(*rank));
            return self.found(out);
        }
        if verdict.is_doubted || !self.is_member() {
            return;
        }
        let mut news: Vec<(Rank, Counter)> = Vec::new();
        for rank in verdict.failed {
            self.targets[rank as usize].streak = 0;
            let counter = self.counters.get(rank);
            if is_recommended(counter) {
                news.push((rank, counter + 1));
            }
        }
        if !news.is_empty() {
            // Who was there when the interval began, and who has come back since.
            let mut group = Group::clone(&self.trials.frozen);
            group.extend(self.counters.group());
            self.broadcast(group.into(), news, out);
        }
    }
}

/// How long the answer to a test is awaited at least.
fn awaited(config: &Config, estimator: &Estimator, trial: Trial, founds: bool) -> Time {
    let threshold = estimator.threshold(&config.tolerance);
    let is_taken_over = config.assignment == Assignment::VCube && trial.interval > 1 && estimator.mean().is_none();
    if founds {
        // Whoever founds has no interval to keep, and waits for those that are only slow.
        threshold.max(config.tolerance.initial)
    } else if is_taken_over {
        // Another tester has known its threshold, and has left. In the worst case log2 N are lost one after the other.
        threshold.min(config.interval)
    } else {
        threshold
    }
}

/// A reply, taken apart.
pub(super) struct Reply {
    pub asked: Asked,
    pub answer: u64,
    pub digest: u64,
    pub counters: Option<Arc<[Counter]>>,
}
