//! Asks the nodes behind a silent emitter whether they live, before its death is certain.
//!
//! If neighbours on the ring die together, their observer would otherwise find one after the other: the next one has a
//! timeout to report when the death of the one before it is known. So the nearest nodes behind a silent emitter, of
//! which one is the next emitter, are asked in the meantime, in parallel. Those that have not answered after a timeout
//! are suspected together: f neighbours cost about two timeouts instead of f.
//!
//! A candidate takes no more risk than an emitter. It has a whole timeout, in which the question is repeated as often
//! as that to a new emitter, it is suspected only together with the emitter, and the arbiter tries it like any suspect.
//! A pause of this member and the end of a hold begin that timeout anew, for the silence may have been this member's
//! own. Without an arbiter that tries suspects there are no candidates: the paper's protocol declares at once.
//!
//! A candidate only answers. It does not learn who asks, and sends no heartbeats. Once one has answered, no node behind
//! it is a candidate: that one has its own observer. The arbiter is none, because nobody declares it dead, and nor is
//! a node behind it.

use crate::action::Action;
use crate::config::Config;
use crate::message::Message;
use crate::units::{NodeId, Time};

use super::Member;

/// The nodes behind an emitter that has been silent for some time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidates {
    /// Nodes that were asked and have not answered, nearest first.
    silent: Vec<NodeId>,
    /// Whether one behind them has answered, or there is none: no further nodes are asked.
    is_complete: bool,
    /// When to ask, first or again; `None` until the emitter has reported.
    next: Option<Time>,
    /// When those that have not answered are suspected.
    until: Time,
}

/// The share of the timeout that is left when the candidates are asked first. Of four heartbeats in a timeout, as while
/// the ranks start, the emitter has missed two then.
const EARLIER: u32 = 4;

impl Candidates {
    pub fn none() -> Candidates {
        Candidates { silent: Vec::new(), is_complete: false, next: None, until: Time::MAX }
    }

    /// The candidates behind an emitter that is suspected at `suspect_at`, if there is one. None is asked yet.
    pub fn new(config: &Config, suspect_at: Option<Time>) -> Candidates {
        let suspect_at = suspect_at.filter(|_| config.candidates > 0 && config.asks_suspects());
        let next = suspect_at.map(|at| at.saturating_sub(config.timeout / EARLIER));
        Candidates { next, ..Candidates::none() }
    }

    /// When to ask.
    pub fn next(&self) -> Option<Time> {
        self.next
    }

    /// The nodes that are suspected together with the emitter, nearest first.
    pub fn silent(&self, now: Time) -> &[NodeId] {
        if now >= self.until { &self.silent } else { &[] }
    }

    /// Notes that `node` is alive.
    pub fn heard(&mut self, node: NodeId) {
        if let Some(place) = self.silent.iter().position(|silent| *silent == node) {
            self.silent.truncate(place);
            self.is_complete = true;
        }
    }

    /// Forgets `node`, which is dead.
    pub fn forget(&mut self, node: NodeId) {
        self.silent.retain(|silent| *silent != node);
    }

    /// Makes `node` the emitter. Returns when it is suspected, if it was asked and has not answered; else there are no
    /// candidates any more.
    pub fn promote(&mut self, node: Option<NodeId>) -> Option<Time> {
        let place = self.silent.iter().position(|silent| Some(*silent) == node)?;
        self.silent.drain(..=place);
        Some(self.until)
    }
}

impl Member {
    pub(super) fn tick_candidates(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.links.candidates.next.is_none_or(|at| now < at) {
            return;
        }
        if !self.links.candidates.is_complete {
            self.add_candidates(now);
        }
        let candidates = &mut self.links.candidates;
        let has_any = !candidates.silent.is_empty();
        candidates.next = has_any.then(|| now.saturating_add(self.config.resend_after()));
        out.extend(candidates.silent.iter().map(|&to| Action::Send { to, message: Message::Probe }));
    }

    /// Adds the next nodes behind the emitter. All candidates have a timeout from now: one time is enough, because more
    /// follow only with the next copies of the question.
    fn add_candidates(&mut self, now: Time) {
        let Config { me, arbiter, candidates: count, timeout, .. } = self.config;
        let ends = |node: &NodeId| *node == me || Some(*node) == arbiter;
        let known = self.links.candidates.silent.len();
        let mut last = self.links.candidates.silent.last().copied().or(self.links.emitter()).filter(|node| !ends(node));
        for _ in 0..count {
            last = last.and_then(|last| self.predecessor(last)).filter(|node| !ends(node));
            self.links.candidates.silent.extend(last);
        }
        self.links.candidates.is_complete = last.is_none();
        if self.links.candidates.silent.len() > known {
            self.links.candidates.until = now.saturating_add(timeout);
        }
    }
}
