//! Runs broadcasts over the tree: copies down, reports up, completion down, and the rescue without completion.
//! [`graph::tree`](crate::graph::tree) explains why all survivors are reached.
//!
//! Each message is answered by the next one, so nothing is acknowledged: if messages get lost, a copy is repeated until
//! the report arrives, and a report until the completion arrives.

use std::sync::Arc;

use crate::action::Action;
use crate::broadcast::{self, Ids};
use crate::graph::{self, tree};
use crate::message::BroadcastId;
use crate::message::{Message, Notice, Route};
use crate::units::{NodeId, Time};

use super::Member;

/// Broadcasts that this member does not know to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Trees {
    relays: Vec<Relay>,
    /// Broadcasts that this member rescued: it cannot report for its subtree, nor that they are done.
    rescued: Ids,
}

/// This member's part in one broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Relay {
    notice: Arc<Notice>,
    /// Nodes that sent a copy and wait for the report: the parent, a node that adopted this one, or one that answered
    /// its question.
    above: Vec<NodeId>,
    /// The children that have not reported.
    waiting: Vec<NodeId>,
    /// When to repeat unanswered messages.
    next: Time,
    /// When to rescue.
    until: Time,
}

impl Trees {
    pub fn deadline(&self) -> Time {
        self.relays.iter().map(|relay| relay.next.min(relay.until)).min().unwrap_or(Time::MAX)
    }

    pub fn clear(&mut self) {
        self.relays.clear();
    }

    fn find(&self, id: BroadcastId) -> Option<usize> {
        self.relays.iter().position(|relay| relay.notice.id() == id)
    }
}

impl Member {
    /// Sends the first copies of a broadcast of this member, or of one from `above`.
    pub(super) fn plant(&mut self, now: Time, notice: Arc<Notice>, above: Option<NodeId>, out: &mut Vec<Action>) {
        let waiting = self.children(&notice, self.config.me);
        broadcast::send(&notice, &waiting, out);
        let count = notice.universe - notice.dead.len() as u32;
        let until = now.saturating_add(tree::wait(count, self.config.tau));
        let next = now.saturating_add(self.config.resend_after());
        let above = above.into_iter().collect();
        self.trees.relays.push(Relay { notice, above, waiting, next, until });
        self.report(now, self.trees.relays.len() - 1, out);
    }

    /// The children of a node in the tree of a notice; dead children are replaced by their children.
    fn children(&self, notice: &Notice, of: NodeId) -> Vec<NodeId> {
        let mut found = graph::targets(&self.config.order, notice, of);
        while let Some(place) = found.iter().position(|&node| self.dead.contains(node)) {
            let orphans = graph::targets(&self.config.order, notice, found[place]);
            found.splice(place..=place, orphans);
        }
        found
    }

    /// Reports to nodes above, or the completion to all nodes below if this is the root, once no report from below is
    /// missing.
    fn report(&mut self, now: Time, index: usize, out: &mut Vec<Action>) {
        let relay = &mut self.trees.relays[index];
        if !relay.waiting.is_empty() {
            return;
        }
        if relay.notice.source == self.config.me {
            self.finish(index, out);
        } else {
            relay.next = now.saturating_add(self.config.resend_after());
            let BroadcastId { source, incarnation, seq } = relay.notice.id();
            let message = Message::Complete { source, incarnation, seq };
            out.extend(relay.above.iter().map(|&to| Action::Send { to, message: message.clone() }));
        }
    }

    fn finish(&mut self, index: usize, out: &mut Vec<Action>) {
        let relay = self.trees.relays.swap_remove(index);
        let children = self.children(&relay.notice, self.config.me);
        out.extend(children.into_iter().map(|to| Action::Send { to, message: done(relay.notice.id()) }));
    }

    /// Handles a copy of a broadcast that this member has already.
    pub(super) fn on_known(&mut self, now: Time, from: NodeId, notice: &Notice, out: &mut Vec<Action>) {
        let id = notice.id();
        match (notice.route, self.trees.find(id)) {
            (Route::Circulant, _) | (Route::Rescue, None) => {}
            (Route::Rescue, Some(index)) => self.rescue(now, index, out),
            (Route::Tree, Some(index)) => {
                let relay = &mut self.trees.relays[index];
                if !relay.above.contains(&from) {
                    relay.above.push(from);
                }
                self.report(now, index, out);
            }
            (Route::Tree, None) if self.trees.rescued.contains(id) => {
                let notice = Arc::new(Notice { route: Route::Rescue, ..notice.clone() });
                out.push(Action::Send { to: from, message: Message::Notice(notice) });
            }
            (Route::Tree, None) => {
                let BroadcastId { source, incarnation, seq } = id;
                out.push(Action::Send { to: from, message: Message::Complete { source, incarnation, seq } });
            }
        }
    }

    /// Handles a report: all nodes below `from` have the broadcast.
    pub(super) fn on_complete(&mut self, now: Time, from: NodeId, id: BroadcastId, out: &mut Vec<Action>) {
        if let Some(index) = self.trees.find(id) {
            let waiting = &mut self.trees.relays[index].waiting;
            let before = waiting.len();
            waiting.retain(|&node| node != from);
            if waiting.len() < before {
                self.report(now, index, out);
            }
        } else if self.broadcasts.knows(id) && !self.trees.rescued.contains(id) {
            out.push(Action::Send { to: from, message: done(id) });
        }
    }

    /// Handles the completion: all nodes have the broadcast.
    pub(super) fn on_done(&mut self, id: BroadcastId, out: &mut Vec<Action>) {
        if let Some(index) = self.trees.find(id) {
            self.finish(index, out);
        }
    }

    /// Takes part in a rescue from now on.
    pub(super) fn note_rescue(&mut self, id: BroadcastId) {
        self.trees.rescued.insert(id);
    }

    fn rescue(&mut self, now: Time, index: usize, out: &mut Vec<Action>) {
        let notice = Notice { route: Route::Rescue, ..(*self.trees.relays.swap_remove(index).notice).clone() };
        self.note_rescue(notice.id());
        let targets = self.targets(&notice);
        self.spread(now, Arc::new(notice), targets, out);
    }

    /// Removes a dead node from all trees: its children are adopted, and nodes that reported to it report to the
    /// nearest living ancestor.
    pub(super) fn repair_trees(&mut self, now: Time, dead: NodeId, out: &mut Vec<Action>) {
        for index in (0..self.trees.relays.len()).rev() {
            let notice = Arc::clone(&self.trees.relays[index].notice);
            let orphans = self.children(&notice, dead);
            let relay = &mut self.trees.relays[index];
            if let Some(place) = relay.waiting.iter().position(|&node| node == dead) {
                relay.waiting.swap_remove(place);
                relay.waiting.extend(&orphans);
                broadcast::send(&notice, &orphans, out);
                self.report(now, index, out);
            } else if relay.above.contains(&dead) {
                relay.above.retain(|&node| node != dead);
                self.find_ancestor(now, index, out);
            }
        }
    }

    fn find_ancestor(&mut self, now: Time, index: usize, out: &mut Vec<Action>) {
        if !self.trees.relays[index].above.is_empty() {
            return;
        }
        let ancestors = graph::ancestors(&self.config.order, &self.trees.relays[index].notice, self.config.me);
        match ancestors.into_iter().find(|&node| !self.dead.contains(node)) {
            Some(ancestor) => {
                self.trees.relays[index].above.push(ancestor);
                self.report(now, index, out);
            }
            // The root is dead: no completion will be sent.
            None => self.rescue(now, index, out),
        }
    }

    pub(super) fn tick_trees(&mut self, now: Time, out: &mut Vec<Action>) {
        while let Some(index) = self.trees.relays.iter().position(|relay| now >= relay.until) {
            self.rescue(now, index, out);
        }
        for index in 0..self.trees.relays.len() {
            let relay = &mut self.trees.relays[index];
            if now >= relay.next {
                relay.next = now.saturating_add(self.config.resend_after());
                broadcast::send(&relay.notice, &relay.waiting, out);
                // Not the root: it is finished as soon as no report is missing.
                self.report(now, index, out);
            }
        }
    }
}

fn done(BroadcastId { source, incarnation, seq }: BroadcastId) -> Message {
    Message::Done { source, incarnation, seq }
}
