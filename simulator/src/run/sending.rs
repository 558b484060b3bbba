//! What a member asks for: mostly to send a message.

use std::sync::Arc;

use propagation::{Action, Fact, Message, NodeId, Notice, Route, StopReason, Subject};

use crate::log::{Entry, Log, kind};
use crate::network::Transfer;
use crate::queue::{Event, What};
use crate::spread::Spread;

use super::Run;

impl<L: Log> Run<'_, L> {
    pub(super) fn act(&mut self, node: NodeId, action: Action) {
        match action {
            Action::Send { to, message: Message::Heartbeat { count } } => self.send_heartbeat(node, to, count as u32),
            Action::Send { to, message: Message::Notice(notice) } => {
                let broadcast = self.number_of(&notice);
                self.report(node, to, "notice");
                self.send_copy(node, to, broadcast);
            }
            Action::Send { to, message } => {
                let kind = kind(&message);
                *self.counts.entry(kind).or_default() += 1;
                if let Message::Suspect { node: suspect } = message {
                    self.note(Entry::Suspected { node: suspect, by: node });
                }
                self.report(node, to, kind);
                let number = self.messages.len() as u32;
                self.messages.push(message);
                let delay = self.network.delay();
                self.transmit(Transfer { from: node, to, what: What::Message { from: node, number }, delay });
            }
            Action::Deliver(Fact { subject: Subject::Node { node: dead, .. }, source, .. }) => {
                let subject = self.truth.subject(dead);
                let alive = self.truth.is_alive(dead);
                if source == node && self.truth.declare(self.now, subject, node) {
                    self.false_deaths += u32::from(alive);
                    self.note(Entry::Declared { node: dead, by: node, alive });
                }
                if self.truth.learn(self.now, subject) {
                    self.note(Entry::KnownByAll(dead));
                }
            }
            Action::Stop(reason) => self.on_stop(node, reason),
            Action::Deliver(_) | Action::Hold | Action::Release | Action::NodeReady(_) => {}
        }
    }

    pub(super) fn on_stop(&mut self, node: NodeId, reason: StopReason) {
        self.note(Entry::Stopped(node, reason));
        self.bury(node);
    }

    pub(super) fn send_heartbeat(&mut self, from: NodeId, to: NodeId, count: u32) {
        self.heartbeats += 1;
        // A quiet observer never has a reason to doubt its emitter.
        if !self.elision.heartbeats || self.has_member.contains(to) {
            let delay = self.network.heartbeat_delay(from, count);
            self.transmit(Transfer { from, to, what: What::Heartbeat { from, count }, delay });
        }
    }

    /// The number of a broadcast in this run: a new one if this is its first copy.
    pub(super) fn number_of(&mut self, notice: &Arc<Notice>) -> u32 {
        let rescue = notice.route == Route::Rescue;
        let name = (notice.source, notice.incarnation, notice.seq, rescue);
        if let Some(&number) = self.by_name.get(&name) {
            return number;
        }
        let number = self.spreads.len() as u32;
        let mut names = vec![0; self.knows_len];
        if self.elision.members {
            for &dead in &notice.dead {
                let subject = self.truth.subject(dead);
                names[subject / 8] |= 1 << (subject % 8);
            }
        }
        // In the tree each copy is the only one.
        let tracked = (self.elision.copies || self.elision.members) && notice.route != Route::Tree;
        let nodes = if tracked { self.scenario.nodes as usize } else { 0 };
        self.spreads.push(Spread::new(Arc::clone(notice), names, self.now, nodes));
        self.by_name.insert(name, number);
        self.broadcasts += u64::from(!rescue);
        self.note(Entry::Broadcast { number, source: notice.source, dead: notice.dead.clone(), rescue });
        number
    }

    pub(super) fn send_copy(&mut self, from: NodeId, to: NodeId, broadcast: u32) {
        self.notices += 1;
        let delay = self.network.delay();
        let first = self.spreads[broadcast as usize].offer(to, self.now + delay);
        if first || !self.elision.copies {
            self.transmit(Transfer { from, to, what: What::Copy { broadcast, from }, delay });
        } else {
            self.work.elided += 1;
        }
    }

    /// Sends a message on its way, unless it gets lost there.
    pub(super) fn transmit(&mut self, transfer: Transfer) {
        for again in 0..self.network.arrivals() {
            let delay = if again == 0 { transfer.delay } else { self.network.delay() };
            match self.network.ports() {
                None => self.queue.push(Event { at: self.now + delay, node: transfer.to, what: transfer.what }),
                Some(_) => self.send_by_port(Transfer { delay, ..transfer }),
            }
        }
    }

    /// Kept out of the path of the platforms without ports, which are the large ones.
    #[cold]
    fn send_by_port(&mut self, transfer: Transfer) {
        let message = match transfer.what {
            What::Copy { broadcast, .. } => Message::Notice(Arc::clone(&self.spreads[broadcast as usize].notice)),
            What::Message { number, .. } => self.messages[number as usize].clone(),
            What::Heartbeat { count, .. } => Message::Heartbeat { count: u64::from(count) },
            other => unreachable!("{other:?} is not sent"),
        };
        if self.network.ports().is_some_and(|ports| ports.enqueue(self.now, transfer, message)) {
            self.on_port_free(transfer.from);
        }
    }

    pub(super) fn on_port_free(&mut self, node: NodeId) {
        let now = self.now;
        if let Some((together, arrival)) = self.network.ports().and_then(|ports| ports.next(now, node)) {
            for transfer in together {
                self.queue.push(Event { at: arrival, node: transfer.to, what: transfer.what });
            }
            self.queue.push(Event { at: arrival, node, what: What::PortFree });
        }
    }
}
