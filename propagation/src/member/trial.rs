//! Runs the arbiter's trial of a suspect.
//!
//! A suspicion may come from a node that was itself cut off and has just returned, about one that never was. So the
//! arbiter probes the suspect, several times, because datagrams get lost. If it answers within `trial`, it is spared
//! and its observer watches it for another timeout; otherwise it is declared dead.
//!
//! A suspect that its observer suspects again soon after that timeout is declared at once: the link between two live
//! nodes is permanently broken, their ranks cannot communicate either, the ring would stay open there, and one of the
//! two must be removed. A suspicion before the timeout has passed is a late copy of the old one, or its answer got
//! lost: it is answered again.
//!
//! This holds for the emitter of an observer. About candidates (see `candidates`) nothing is remembered: an observer
//! that does not hear its predecessors, though they live, must not have several of them declared together.
//!
//! Without an arbiter, and with a `trial` of zero, a suspicion is a declaration, as in the paper.

use crate::action::Action;
use crate::message::{Message, NodeReason};
use crate::units::{NodeId, Time};

use super::Member;

/// Number of timeouts in which a spared suspect is declared at once if the same observer suspects it again.
const PROBATION: u32 = 4;

/// Number of probes during a trial, or more if `resend` is shorter. If every seventh message is lost, probe or answer,
/// one live suspect in 40,000 goes unheard; with four probes it would be one in 200.
const QUESTIONS: u32 = 8;

/// The arbiter's pending suspicions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Trials {
    open: Vec<Trial>,
    spared: Vec<Spared>,
}

/// A suspect that is being probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Trial {
    suspect: NodeId,
    observers: Vec<NodeId>,
    next: Time,
    until: Time,
}

/// A suspect that has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spared {
    suspect: NodeId,
    observer: NodeId,
    at: Time,
}

impl Trials {
    pub fn deadline(&self) -> Time {
        self.open.iter().map(|trial| trial.next.min(trial.until)).min().unwrap_or(Time::MAX)
    }

    /// Restarts all waits. All probations end: the age of a suspicion that waited here is unknown.
    pub fn forgive(&mut self, now: Time, trial: Time) {
        for open in &mut self.open {
            open.until = now.saturating_add(trial);
        }
        self.spared.clear();
    }

    /// Forgets `node`, which is dead: it needs no trial, and no answer.
    pub fn forget(&mut self, node: NodeId) {
        self.open.retain(|trial| trial.suspect != node);
        for trial in &mut self.open {
            trial.observers.retain(|&observer| observer != node);
        }
        self.spared.retain(|one| one.suspect != node && one.observer != node);
    }

    /// Whether this suspect is probed.
    pub fn is_open(&self, suspect: NodeId) -> bool {
        self.open.iter().any(|trial| trial.suspect == suspect)
    }

    /// Whether this observer waits for the answer of this suspect.
    pub fn is_open_for(&self, suspect: NodeId, observer: NodeId) -> bool {
        self.open.iter().any(|trial| trial.suspect == suspect && trial.observers.contains(&observer))
    }

    /// Time since the suspect was spared to this observer.
    fn spared_for(&self, now: Time, suspect: NodeId, observer: NodeId) -> Option<Time> {
        let spared = self.spared.iter().find(|one| one.suspect == suspect && one.observer == observer)?;
        Some(now.saturating_sub(spared.at))
    }
}

impl Member {
    /// Handles an observer's suspicion of a node that is not known to be dead.
    pub(super) fn try_suspect(&mut self, now: Time, suspect: NodeId, observer: NodeId, out: &mut Vec<Action>) {
        let timeout = self.config.timeout;
        let tries = self.config.is_arbiter() && !self.config.trial.is_zero();
        match self.trials.spared_for(now, suspect, observer) {
            _ if !tries => return self.pronounce(now, suspect, NodeReason::Silent, Some(observer), out),
            Some(time) if time < timeout => return self.spare(now, suspect, observer, out),
            Some(time) if time < timeout.saturating_mul(PROBATION) => {
                return self.pronounce(now, suspect, NodeReason::Silent, Some(observer), out);
            }
            _ => {}
        }
        if observer != self.config.me {
            // Acknowledges the suspicion; the actual answer follows later.
            out.push(Action::Send { to: observer, message: Message::ProbeReply });
        }
        match self.trials.open.iter_mut().find(|trial| trial.suspect == suspect) {
            Some(trial) if trial.observers.contains(&observer) => {}
            Some(trial) => trial.observers.push(observer),
            None => {
                let until = now.saturating_add(self.config.trial);
                let next = now.saturating_add(self.between_questions());
                self.trials.open.push(Trial { suspect, observers: vec![observer], next, until });
                out.push(Action::Send { to: suspect, message: Message::Probe });
            }
        }
    }

    /// Handles an answer: a candidate is none any more, and if the node is a suspect, its observers are notified.
    pub(super) fn on_sign_of_life(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        self.links.candidates.heard(from);
        let Some(index) = self.trials.open.iter().position(|trial| trial.suspect == from) else {
            return;
        };
        let trial = self.trials.open.swap_remove(index);
        let probation = self.config.timeout.saturating_mul(PROBATION);
        self.trials.spared.retain(|one| now < one.at.saturating_add(probation));
        for observer in trial.observers {
            if self.predecessor(observer) == Some(from) {
                self.trials.spared.push(Spared { suspect: from, observer, at: now });
            }
            self.spare(now, from, observer, out);
        }
    }

    fn spare(&mut self, now: Time, suspect: NodeId, observer: NodeId, out: &mut Vec<Action>) {
        if observer != self.config.me {
            out.push(Action::Send { to: observer, message: Message::Spared { node: suspect } });
        } else if self.links.emitter() == Some(suspect) {
            self.watch_again(now, out);
        }
    }

    fn between_questions(&self) -> Time {
        self.config.resend_after().min(self.config.trial / QUESTIONS + Time::from_nanos(1))
    }

    /// Handles the arbiter's answer that the node suspected by this one is alive.
    pub(super) fn on_spared(&mut self, now: Time, from: NodeId, node: NodeId, out: &mut Vec<Action>) {
        if self.config.arbiter != Some(from) {
            return;
        }
        self.links.candidates.heard(node);
        if self.links.emitter() == Some(node) && self.inquiries.suspects() {
            self.inquiries.suspicion_refuted();
            self.watch_again(now, out);
        }
    }

    pub(super) fn tick_trials(&mut self, now: Time, out: &mut Vec<Action>) {
        // One by one: dead nodes do not wait for an answer as observers.
        while let Some(index) = self.trials.open.iter().position(|trial| now >= trial.until) {
            let trial = self.trials.open.swap_remove(index);
            let observer = trial.observers.first().copied();
            self.pronounce(now, trial.suspect, NodeReason::Silent, observer, out);
        }
        let next = now.saturating_add(self.between_questions());
        for trial in self.trials.open.iter_mut().filter(|trial| now >= trial.next) {
            trial.next = next;
            out.push(Action::Send { to: trial.suspect, message: Message::Probe });
        }
    }
}
