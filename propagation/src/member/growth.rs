//! Handles nodes that join, and nodes that leave in order: neither is a failure.
//!
//! **Joining.** New nodes get the next ids and the last places of the ring, so no other place changes. The node that
//! starts them, the arbiter or, without one, any member, calls its member ([`Member::grow`]), which broadcasts the
//! number of nodes. The new members take part in that broadcast and learn the dead nodes from it. Every notice contains
//! the number of nodes that its source knew, so all its participants compute the same graph, and a receiver that knew
//! fewer has learned of the others. A notice of a source that did not know the new nodes does not reach them: the
//! sponsor, the node that announced them, repeats its subject for all. If the sponsor dies before that, the list in the
//! notice of its death covers nodes; reports about ranks at that moment are lost to the new nodes, unless there is an
//! arbiter, which must live anyway.
//!
//! **Leaving.** A leaving node requests its own death like a resigning one, and is removed from the ring and from later
//! broadcasts in the same way. But all nodes learn that it [left](crate::NodeReason::Left), also nodes that only get
//! the list of a later notice, because that list contains it, too. Its id is not reused.

use crate::action::{Action, Fact};
use crate::message::{Message, NodeReason, Notice, Subject};
use crate::units::{NodeId, Time};

use super::Member;

impl Member {
    /// Adds nodes: the job has `universe` nodes from now on. Their members, made with that number, must start within
    /// `timeout`. Without an arbiter that probes suspects the heartbeat of a new node may be late by as much.
    ///
    /// For the arbiter, or for any node if there is none; no effect elsewhere, and if there are as many already.
    pub fn grow(&mut self, now: Time, universe: u32, out: &mut Vec<Action>) {
        if self.wake(now) && self.may_declare() && universe > self.config.universe {
            self.is_sponsor = true;
            let source = self.config.me;
            self.expand(now, universe, source, out);
            self.broadcast(now, Subject::Grown, out);
        }
    }

    /// Leaves the job in order. The request is repeated; the member stops once it is answered, or after `confirm`. No
    /// effect at the arbiter, which [ends](Self::end) the job instead.
    pub fn leave(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.config.is_arbiter() && self.wake(now) {
            self.say_farewell(now, Message::Leave, out);
        }
    }

    /// Handles a node that leaves, at the node that declares it.
    pub(super) fn on_leave(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        if self.may_declare() {
            self.pronounce(now, from, NodeReason::Left, None, out);
            self.tell_verdict(now, from, &Message::Leave, out);
        }
    }

    /// Handles nodes that joined.
    pub(super) fn expand(&mut self, now: Time, universe: u32, source: NodeId, out: &mut Vec<Action>) {
        if universe > self.config.universe {
            self.config.universe = universe;
            out.push(Action::Deliver(Fact { subject: Subject::Grown, source, suspector: None }));
            self.make_room(now, out);
        }
    }

    /// Repeats for all nodes a notice whose source did not know the nodes that this member announced.
    pub(super) fn repeat_for_newcomers(&mut self, now: Time, notice: &Notice, out: &mut Vec<Action>) {
        let is_sponsor = self.is_sponsor || self.config.is_arbiter();
        if !is_sponsor || notice.universe >= self.config.universe {
            return;
        }
        match notice.subject {
            Subject::Node { node, .. } => self.broadcast_death(now, node, None, out),
            subject @ Subject::Rank { .. } => _ = self.broadcast(now, subject, out),
            Subject::End { .. } | Subject::Doubt | Subject::Grown => {}
        }
    }
}
