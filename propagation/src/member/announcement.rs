//! Starts, forwards and believes broadcasts.

use std::sync::Arc;

use crate::action::{Action, Fact, StopReason};
use crate::broadcast;
use crate::dead::Death;
use crate::graph;
use crate::message::BroadcastId;
use crate::message::{EndReason, Message, Notice, RankReason, Route, Subject};
use crate::units::{NodeId, Time};

use super::Member;

/// Number of timeouts for which a copy is repeated. Its receiver will either answer or be declared dead; this bounds
/// the memory if neither happens.
const PATIENCE: u32 = 10;

impl Member {
    /// Announces that a rank of this node is dead, and the node is not.
    pub fn announce_rank(&mut self, now: Time, rank: u32, reason: RankReason, out: &mut Vec<Action>) {
        let me = self.config.me;
        let subject = Subject::Rank { rank, node: me, reason };
        if self.wake(now) && self.dead_ranks.insert(rank) {
            self.say(now, subject, out);
            out.push(Action::Deliver(Fact { subject, source: me, suspector: None }));
        }
    }

    /// Ends the job for all nodes. For the arbiter; no effect elsewhere.
    pub fn end(&mut self, now: Time, reason: EndReason, out: &mut Vec<Action>) {
        if self.wake(now) && self.config.is_arbiter() {
            let id = self.broadcast(now, Subject::End { reason }, out);
            self.conclude(now, id, reason, out);
        }
    }

    /// Announces a death that this member has recorded. `asker` waits for it, so it gets a copy from here even if it is
    /// no neighbour.
    pub(super) fn broadcast_death(&mut self, now: Time, node: NodeId, asker: Option<NodeId>, out: &mut Vec<Action>) {
        let Some(&Death { reason, suspector, .. }) = self.dead.get(node) else {
            return;
        };
        self.dead.set_announced(node, self.next_seq, self.config.universe);
        let notice = self.new_notice(Subject::Node { node, reason }, suspector);
        let mut targets = self.targets(&notice);
        let extra = asker.filter(|asker| *asker != self.config.me && !targets.contains(asker));
        if notice.route == Route::Tree {
            broadcast::send(&notice, extra.as_slice(), out);
            self.plant(now, notice, None, out);
        } else {
            targets.extend(extra);
            self.spread(now, notice, targets, out);
        }
    }

    /// Repeats deaths that an earlier incarnation has declared: it may have died with copies that no other node had
    /// yet. One notice lists all of them.
    pub(super) fn repeat_deaths(&mut self, now: Time, out: &mut Vec<Action>) {
        if std::mem::take(&mut self.owes_deaths) {
            let latest = self.dead.iter().last().map(|death| death.node);
            latest.into_iter().for_each(|node| self.broadcast_death(now, node, None, out));
        }
    }

    /// Starts a broadcast of anything but a death, among all nodes not known to be dead.
    pub(super) fn broadcast(&mut self, now: Time, subject: Subject, out: &mut Vec<Action>) -> BroadcastId {
        let notice = self.new_notice(subject, None);
        let id = notice.id();
        if notice.route == Route::Tree {
            self.plant(now, notice, None, out);
        } else {
            let targets = self.targets(&notice);
            self.spread(now, notice, targets, out);
        }
        id
    }

    fn new_notice(&mut self, subject: Subject, suspector: Option<NodeId>) -> Arc<Notice> {
        let dead = self.dead.list();
        let notice = Notice {
            source: self.config.me,
            incarnation: self.config.incarnation,
            seq: self.next_seq,
            subject,
            suspector,
            reasons: self.dead.reasons_of(&dead),
            dead,
            universe: self.config.universe,
            route: match subject {
                // A doubting source is cut off from some nodes, and an ending source does not stay until the tree is
                // complete.
                Subject::Doubt | Subject::End { .. } => Route::Circulant,
                _ => self.config.strategy.into(),
            },
        };
        self.next_seq += 1;
        self.broadcasts.first_time(notice.id());
        Arc::new(notice)
    }

    pub(super) fn targets(&self, notice: &Notice) -> Vec<NodeId> {
        graph::targets(&self.config.order, notice, self.config.me)
    }

    pub(super) fn spread(&mut self, now: Time, notice: Arc<Notice>, targets: Vec<NodeId>, out: &mut Vec<Action>) {
        if self.config.lossless {
            broadcast::send(&notice, &targets, out);
            return;
        }
        self.broadcasts.spread(now, self.config.resend, self.patience_ends(now), notice, targets, out);
    }

    /// Extends the time of pending copies, unless the job has ended.
    pub(super) fn forgive_broadcasts(&mut self, now: Time) {
        if !self.is_stopped() {
            self.broadcasts.forgive(self.patience_ends(now));
        }
    }

    fn patience_ends(&self, now: Time) -> Time {
        now.saturating_add(self.config.timeout.saturating_mul(PATIENCE))
    }

    /// T5: acknowledges every copy (unless none gets lost); forwards the first one and believes it.
    ///
    /// The source may be dead: its earlier broadcasts must reach all survivors or none.
    pub(super) fn on_notice(&mut self, now: Time, from: NodeId, notice: Arc<Notice>, out: &mut Vec<Action>) {
        if notice.route != Route::Tree {
            self.acknowledge(from, &notice, out);
        }
        if !self.is_credible(&notice) {
            return;
        }
        if !self.broadcasts.first_time(notice.id()) {
            self.on_known(now, from, &notice, out);
            return;
        }
        if notice.dead.binary_search(&self.config.me).is_ok() {
            self.stop_as_dead(out);
            return;
        }
        self.forward(now, from, Arc::clone(&notice), out);
        self.believe(now, &notice, out);
        if !self.is_stopped() {
            self.repeat_for_newcomers(now, &notice, out);
        }
    }

    /// Acknowledges a copy. It also shows that its sender needs none.
    fn acknowledge(&mut self, from: NodeId, notice: &Notice, out: &mut Vec<Action>) {
        if self.config.lossless {
            return;
        }
        let BroadcastId { source, incarnation, seq } = notice.id();
        out.push(Action::Send { to: from, message: Message::Ack { source, incarnation, seq } });
        self.broadcasts.acknowledged(notice.id(), from);
    }

    pub(super) fn on_ack(&mut self, from: NodeId, source: NodeId, incarnation: u32, seq: u64) {
        self.broadcasts.acknowledged(BroadcastId { source, incarnation, seq }, from);
    }

    /// Whether a notice could have been made by a member of this job in this mode.
    fn is_credible(&self, notice: &Notice) -> bool {
        let Notice { source, dead, reasons, universe, .. } = notice;
        let lists = |node| dead.binary_search(&node).is_ok();
        let by_arbiter = self.config.arbiter == Some(*source);
        source < universe
            && dead.is_sorted_by(|a, b| a < b)
            && dead.last().is_none_or(|last| last < universe)
            && reasons.iter().map(|&(_, count)| count as usize).sum::<usize>() == dead.len()
            && !lists(*source)
            && !self.config.arbiter.is_some_and(lists)
            && match notice.subject {
                Subject::Node { node, .. } => lists(node) && (by_arbiter || self.config.arbiter.is_none()),
                Subject::Rank { node, .. } => node < *universe,
                Subject::End { .. } => by_arbiter,
                Subject::Grown => by_arbiter || self.config.arbiter.is_none(),
                Subject::Doubt => true,
            }
    }

    /// Forwards along the graph of the list in the notice, except to nodes that need no copy: dead ones, and ones that
    /// have it.
    fn forward(&mut self, now: Time, from: NodeId, notice: Arc<Notice>, out: &mut Vec<Action>) {
        match notice.route {
            Route::Tree => return self.plant(now, notice, Some(from), out),
            Route::Rescue => self.note_rescue(notice.id()),
            Route::Circulant => {}
        }
        // In a rescue the source may wait for the completion like any other node.
        let has_it = |node| node == from || (node == notice.source && notice.route == Route::Circulant);
        let mut targets = self.targets(&notice);
        targets.retain(|&node| !has_it(node) && !self.dead.contains(node));
        self.spread(now, notice, targets, out);
    }

    fn believe(&mut self, now: Time, notice: &Notice, out: &mut Vec<Action>) {
        let &Notice { source, subject, suspector, .. } = notice;
        self.expand(now, notice.universe, source, out);
        let death = |node, reason, suspector| Death { node, reason, at: now, announcer: source, suspector };
        if let Subject::Node { node, reason } = subject {
            self.bury(death(node, reason, suspector), out);
        }
        // A declaration is final everywhere, so the whole list is true. The suspectors of the other entries come with
        // their own notices.
        for (node, reason) in notice.dead_with_reasons() {
            self.bury(death(node, reason, None), out);
        }
        self.close_gap(now, out);
        self.say_again(now, out);
        match subject {
            Subject::Node { .. } | Subject::Grown => {}
            Subject::Rank { rank, .. } => {
                if self.dead_ranks.insert(rank) {
                    out.push(Action::Deliver(Fact { subject, source, suspector: None }));
                }
            }
            Subject::End { reason } => {
                self.conclude(now, notice.id(), reason, out);
            }
            Subject::Doubt => self.on_doubt(now, source, out),
        }
    }

    /// Records a death and delivers it; false if it was known. The ring is [closed](Self::close_gap) later, when all
    /// deaths that arrived together are recorded.
    pub(super) fn bury(&mut self, death: Death, out: &mut Vec<Action>) -> bool {
        let Death { node, reason, announcer: source, suspector, at } = death;
        let is_new = self.dead.insert(death);
        if is_new {
            self.broadcasts.forget(node);
            self.trials.forget(node);
            self.links.candidates.forget(node);
            let subject = Subject::Node { node, reason };
            out.push(Action::Deliver(Fact { subject, source, suspector }));
            self.repair_trees(at, node, out);
        }
        is_new
    }

    /// Handles the end of the job: forwards only that, for one more `timeout`.
    fn conclude(&mut self, now: Time, id: BroadcastId, reason: EndReason, out: &mut Vec<Action>) {
        self.broadcasts.keep_only(id, now.saturating_add(self.config.timeout));
        let subject = Subject::End { reason };
        out.push(Action::Deliver(Fact { subject, source: id.source, suspector: None }));
        self.stop(StopReason::Ended(reason), out);
    }

    /// After the end of the job: handles only messages that other nodes need in order to learn of it.
    pub(super) fn drain(&mut self, from: NodeId, message: &Message, out: &mut Vec<Action>) {
        if !matches!(self.stopped, Some(StopReason::Ended(_))) || self.dead.contains(from) {
            return;
        }
        match *message {
            Message::Notice(ref notice) => self.acknowledge(from, notice, out),
            Message::Ack { source, incarnation, seq } => {
                self.on_ack(from, source, incarnation, seq);
            }
            _ => {}
        }
    }
}
