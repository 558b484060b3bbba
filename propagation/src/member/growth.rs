//! Nodes that join, and nodes that leave in order: neither is a failure.
//!
//! **Joining.** New nodes get the next ids and come last on the ring, so nobody else's place changes. Whoever starts
//! them, the arbiter or, without one, any member, tells its member ([`Member::grow`]), which broadcasts the
//! number of nodes; the new members take part in that broadcast and learn from it who is dead. Every notice says how many nodes its source knew of,
//! so all its participants compute the same graph, and whoever knew of fewer has learned of the others. A notice of a
//! source that had not heard yet does not reach the new nodes: the sponsor, that is whoever announced them, repeats its
//! subject for all. If the sponsor dies before it could, the list in the notice of its death does that for nodes; what
//! was said about ranks in that moment is lost to the new nodes unless there is an arbiter, which must live anyway.
//!
//! **Leaving.** A node that leaves asks for its own death like one that resigns, and is taken out of the ring and of
//! later broadcasts in the same way; but everybody learns that it [left](crate::NodeReason::Left), also those to whom
//! only the list of a later notice comes through, because that list says it, too. Its id is not used again.

use crate::{Action, Fact, Message, NodeId, NodeReason, Notice, Subject, Time};

use super::Member;

impl Member {
    /// Nodes join: the job has `universe` nodes from now on. Their members, made with that number, must start within
    /// `timeout`. Without an arbiter that asks suspects the heartbeat of a new node may be late by as much.
    ///
    /// For the arbiter, or for anybody if there is none; without effect elsewhere, and if there are as many already.
    pub fn grow(&mut self, now: Time, universe: u32, out: &mut Vec<Action>) {
        if self.wake(now) && self.may_declare() && universe > self.config.universe {
            self.is_sponsor = true;
            let source = self.config.me;
            self.expand(now, universe, source, out);
            self.broadcast(now, Subject::Grown, out);
        }
    }

    /// This node leaves the job in order. Said again and again; the member stops once it is answered, or after
    /// `confirm`. Without effect at the arbiter, which [ends](Self::end) the job instead.
    pub fn leave(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.config.is_arbiter() && self.wake(now) {
            self.say_farewell(now, Message::Leave, out);
        }
    }

    /// The judge of a node that leaves.
    pub(super) fn on_leave(&mut self, now: Time, from: NodeId, out: &mut Vec<Action>) {
        if self.may_declare() {
            self.pronounce(now, from, NodeReason::Left, None, out);
            self.tell_verdict(now, from, &Message::Leave, out);
        }
    }

    /// Takes note of nodes that joined.
    pub(super) fn expand(&mut self, now: Time, universe: u32, source: NodeId, out: &mut Vec<Action>) {
        if universe > self.config.universe {
            self.config.universe = universe;
            out.push(Action::Deliver(Fact { subject: Subject::Grown, source, suspector: None }));
            self.make_room(now, out);
        }
    }

    /// Says again for all what the source said without knowing of the nodes that this member announced.
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
