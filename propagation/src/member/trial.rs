//! How the arbiter gives a suspect the chance to answer.
//!
//! A suspicion may come from a node that was itself cut off and has just come back, about one that never was. So the
//! arbiter asks the suspect, several times, because datagrams get lost. If it answers within `trial`, it is spared and
//! its observer watches it for another timeout; if not, it is declared dead.
//!
//! A suspect that its observer accuses again soon after that timeout is declared at once: the link between two live
//! nodes is broken for good, their ranks cannot reach each other either, the ring would stay open there, and one of the
//! two has to go. What comes before the timeout has passed is no new accusation but a late copy of the old one, or its
//! answer got lost: it is answered again.
//!
//! Without an arbiter, and with a `trial` of zero, a suspicion is a declaration, as in the paper.

use crate::{Action, Message, NodeId, NodeReason, Time};

use super::Member;

/// For how many timeouts a suspect that was spared is declared at once if the same observer accuses it again.
const PROBATION: u32 = 4;

/// How often a suspect is asked during its trial, or more often if `resend` is shorter: where every seventh message is
/// lost, question or answer, one suspect in 40,000 is not heard; of four questions it would be one in 200.
const QUESTIONS: u32 = 8;

/// Suspicions before the arbiter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Trials {
    open: Vec<Trial>,
    spared: Vec<Spared>,
}

/// A suspect that is asked for a sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Trial {
    suspect: NodeId,
    observers: Vec<NodeId>,
    next: Time,
    until: Time,
}

/// A suspect that has given one.
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

    /// Starts all the waiting anew. Nobody is on probation any more: how old an accusation is that waited here cannot
    /// be told.
    pub fn forgive(&mut self, now: Time, trial: Time) {
        for open in &mut self.open {
            open.until = now.saturating_add(trial);
        }
        self.spared.clear();
    }

    /// `node` is dead: it needs no trial, and no answer.
    pub fn forget(&mut self, node: NodeId) {
        self.open.retain(|trial| trial.suspect != node);
        for trial in &mut self.open {
            trial.observers.retain(|&observer| observer != node);
        }
        self.spared.retain(|one| one.suspect != node && one.observer != node);
    }

    /// Whether this observer waits for an answer.
    pub fn is_open_for(&self, observer: NodeId) -> bool {
        self.open.iter().any(|trial| trial.observers.contains(&observer))
    }

    /// How long ago the suspect was spared to this observer.
    fn spared_for(&self, now: Time, suspect: NodeId, observer: NodeId) -> Option<Time> {
        let spared = self.spared.iter().find(|one| one.suspect == suspect && one.observer == observer)?;
        Some(now.saturating_sub(spared.at))
    }
}

impl Member {
    /// An observer suspects a node that is not known to be dead.
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
            // That it is heard; the answer proper comes later.
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

    /// A node answered: if it is a suspect, its observers are told.
    pub(super) fn on_sign_of_life(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        let Some(index) = self.trials.open.iter().position(|trial| trial.suspect == from) else {
            return;
        };
        let trial = self.trials.open.swap_remove(index);
        let probation = self.config.timeout.saturating_mul(PROBATION);
        self.trials.spared.retain(|one| now < one.at.saturating_add(probation));
        for observer in trial.observers {
            self.trials.spared.push(Spared { suspect: from, observer, at: now });
            self.spare(now, from, observer, out);
        }
    }

    fn spare(&mut self, now: Time, suspect: NodeId, observer: NodeId, out: &mut Vec<Action>) {
        if observer == self.config.me {
            self.watch_again(now, out);
        } else {
            out.push(Action::Send { to: observer, message: Message::Spared { node: suspect } });
        }
    }

    fn between_questions(&self) -> Time {
        self.config.resend_after().min(self.config.trial / QUESTIONS + Time::from_nanos(1))
    }

    /// The arbiter has heard of the node that this one suspects.
    pub(super) fn on_spared(&mut self, now: Time, from: NodeId, node: NodeId, out: &mut Vec<Action>) {
        if self.config.arbiter == Some(from) && self.links.emitter() == Some(node) && self.inquiries.suspects() {
            self.inquiries.suspicion_refuted();
            self.watch_again(now, out);
        }
    }

    pub(super) fn tick_trials(&mut self, now: Time, out: &mut Vec<Action>) {
        // One by one: the dead are no accusers that wait for an answer.
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
