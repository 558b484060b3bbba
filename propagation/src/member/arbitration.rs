//! Declares deaths and answers suspicions.
//!
//! A suspicion is tried first (see `trial`); a resignation and a report of the runtime are proof.

use std::sync::Arc;

use crate::action::Action;
use crate::dead::Death;
use crate::message::{Message, NodeReason, Notice, Subject};
use crate::units::{NodeId, Time};

use super::Member;

impl Member {
    /// Declares a node dead on an outside report, for example because the runtime saw its connection break.
    ///
    /// For the arbiter, or for any node if there is none; no effect elsewhere, and no effect on this node itself, which
    /// [`resign`](Self::resign)s.
    pub fn declare(&mut self, now: Time, node: NodeId, reason: NodeReason, out: &mut Vec<Action>) {
        let known = node < self.config.universe && node != self.config.me;
        if self.wake(now) && self.may_declare() && known {
            self.pronounce(now, node, reason, None, out);
        }
    }

    /// Whether this member may declare deaths: the arbiter may, and every node if there is none.
    pub(super) fn may_declare(&self) -> bool {
        self.config.arbiter.is_none_or(|arbiter| arbiter == self.config.me)
    }

    /// Declares a death, unless it is known. The suspector gets its copy at once, as the expected answer.
    pub(super) fn pronounce(
        &mut self,
        now: Time,
        node: NodeId,
        reason: NodeReason,
        suspector: Option<NodeId>,
        out: &mut Vec<Action>,
    ) {
        let death = Death { node, reason, at: now, announcer: self.config.me, suspector };
        if self.bury(death, out) {
            self.close_gap(now, out);
            self.broadcast_death(now, node, suspector, out);
            self.say_again(now, out);
        }
    }

    /// Handles a suspicion, or a resignation if `node` is the sender itself. Without an arbiter only resignations
    /// arrive, from the node that this one observes.
    pub(super) fn on_suspect(&mut self, now: Time, from: NodeId, node: NodeId, out: &mut Vec<Action>) {
        let resigns = node == from;
        if !self.may_declare() || node >= self.config.universe {
            return;
        }
        if resigns {
            self.pronounce(now, node, NodeReason::Resigned, None, out);
            self.tell_verdict(now, from, &Message::Suspect { node }, out);
        } else if self.config.is_arbiter() {
            if node == self.config.me {
                // This node is alive. It answers all the same, because the answer proves contact.
                out.push(Action::Send { to: from, message: Message::ProbeReply });
            } else if self.dead.contains(node) {
                self.answer_with_death(now, from, node, out);
            } else {
                self.try_suspect(now, node, from, out);
            }
        }
    }

    /// Sends a missed copy about the known death of `node` to `to`.
    fn answer_with_death(&mut self, now: Time, to: NodeId, node: NodeId, out: &mut Vec<Action>) {
        let Some(death) = self.dead.get(node).cloned() else {
            return;
        };
        let Some((seq, universe, dead)) = self.dead.announcement(node) else {
            // No announcement exists, or one of an earlier incarnation: it is repeated to all nodes.
            self.broadcast_death(now, node, Some(to), out);
            return;
        };
        let notice = Notice {
            source: self.config.me,
            incarnation: self.config.incarnation,
            seq,
            subject: Subject::Node { node, reason: death.reason },
            suspector: death.suspector,
            reasons: self.dead.reasons_of(&dead),
            dead,
            universe,
            route: self.config.strategy.into(),
        };
        out.push(Action::Send { to, message: Message::Notice(Arc::new(notice)) });
    }

    /// Answers a dead node's message, at most once in `resend`, and not an answer.
    pub(super) fn tell_verdict(&mut self, now: Time, to: NodeId, message: &Message, out: &mut Vec<Action>) {
        let is_answer = matches!(message, Message::Ack { .. } | Message::Verdict);
        if !is_answer && self.dead.may_tell(to, now, self.config.resend_after()) {
            out.push(Action::Send { to, message: Message::Verdict });
        }
    }

    /// Handles a report that a node's ranks are ready. Answered every time, delivered once.
    pub(super) fn on_ready(&mut self, from: NodeId, out: &mut Vec<Action>) {
        if self.config.is_arbiter() {
            // In this order: an acknowledged report is not repeated, and the caller may die in between.
            self.note_ready(from, out);
            out.push(Action::Send { to: from, message: Message::ReadyAck });
        }
    }

    pub(super) fn note_ready(&mut self, node: NodeId, out: &mut Vec<Action>) {
        if self.ready.insert(node) {
            out.push(Action::NodeReady(node));
        }
    }
}
