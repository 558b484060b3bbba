//! Quiet nodes: neither they nor their neighbours on the ring die in the run, so all they do is to pass notices on.
//!
//! What a member does on a notice then follows from the notice, from the deaths it knows of, and, in the tree, from who
//! has reported to it. That is worked out here, without a member; the tests compare it with the members' own doing.

use propagation::graph::append_targets;
use propagation::{Message, NodeId, Notice, RingOrder, Route};

use crate::log::{Entry, Log, kind};
use crate::network::Transfer;
use crate::queue::What;

use super::Run;

/// What the quiet nodes have still to do in the tree of one broadcast.
#[derive(Debug)]
pub struct Relays {
    /// Per node how many of its children have not reported.
    waiting: Vec<u8>,
    /// Per node who its copy came from; of no interest for a leaf, which reports at once.
    above: Vec<NodeId>,
    /// The number of the message by which they report.
    complete: u32,
    /// The number of the message that says that all is done.
    done: u32,
}

impl<L: Log> Run<'_, L> {
    /// Whether a node needs no member.
    pub(super) fn is_quiet(&self, node: NodeId) -> bool {
        self.elision.members && !self.has_member.contains(node)
    }

    pub(super) fn on_copy(&mut self, node: NodeId, from: NodeId, broadcast: u32) {
        let first = self.spreads[broadcast as usize].take(node, self.now);
        if self.is_quiet(node) {
            if first {
                self.pass_on(node, from, broadcast);
            }
        } else if first || !self.elision.copies {
            let (now, notice) = (super::time(self.now), self.spreads[broadcast as usize].notice.clone());
            self.drive(node, |member, out| member.handle(now, from, Message::Notice(notice), out));
        }
    }

    /// The first copy of a notice: it is forwarded to all who may need it, and the dead are taken note of.
    fn pass_on(&mut self, node: NodeId, from: NodeId, broadcast: u32) {
        let (learned, knows_more) = self.learn(node, broadcast);
        let notice = &self.spreads[broadcast as usize].notice;
        let (source, route) = (notice.source, notice.route);
        let mut targets = std::mem::take(&mut self.targets);
        append_targets(&RingOrder::default(), notice, node, &mut targets);
        let mut sent = 0;
        for to in targets.drain(..) {
            if to != from && to != source && !(knows_more && self.knows_dead(node, to)) {
                self.report(node, to, "notice");
                self.send_copy(node, to, broadcast);
                sent += 1;
            }
        }
        self.targets = targets;
        if route == Route::Tree {
            let relays = self.relays(broadcast);
            if sent == 0 {
                let complete = relays.complete;
                self.send_quietly(node, from, complete, true);
            } else {
                relays.waiting[node as usize] = sent;
                relays.above[node as usize] = from;
            }
        }
        for subject in learned {
            self.note(Entry::KnownByAll(self.truth.subjects()[subject].node));
        }
    }

    /// Takes note of the dead that a notice names: the last to learn of which it is, and whether it knows of more.
    fn learn(&mut self, node: NodeId, broadcast: u32) -> (Vec<usize>, bool) {
        let place = node as usize * self.knows_len;
        let (mut last_of, mut knows_more) = (Vec::new(), false);
        for (byte, &names) in self.spreads[broadcast as usize].names.iter().enumerate() {
            let knows = &mut self.knows[place + byte];
            let mut news = names & !*knows;
            *knows |= names;
            knows_more |= *knows != names;
            while news != 0 {
                let subject = byte * 8 + news.trailing_zeros() as usize;
                news &= news - 1;
                if self.truth.learn(self.now, subject) {
                    last_of.push(subject);
                }
            }
        }
        (last_of, knows_more)
    }

    fn knows_dead(&self, node: NodeId, dead: NodeId) -> bool {
        let knows = &self.knows[node as usize * self.knows_len..][..self.knows_len];
        self.truth.number(dead).is_some_and(|subject| knows[subject / 8] >> (subject % 8) & 1 == 1)
    }

    fn relays(&mut self, broadcast: u32) -> &mut Relays {
        // There are few.
        let place = self.relays.iter().position(|&(number, _)| number == broadcast).unwrap_or_else(|| {
            let nodes = self.scenario.nodes as usize;
            let Notice { source, incarnation, seq, .. } = *self.spreads[broadcast as usize].notice;
            let complete = self.messages.len() as u32;
            self.messages
                .extend([Message::Complete { source, incarnation, seq }, Message::Done { source, incarnation, seq }]);
            let relays = Relays { waiting: vec![0; nodes], above: vec![0; nodes], complete, done: complete + 1 };
            self.relays.push((broadcast, relays));
            self.relays.len() - 1
        });
        &mut self.relays[place].1
    }

    /// A report from below, or the word from above that all is done.
    pub(super) fn on_quiet_message(&mut self, node: NodeId, number: u32) {
        let (broadcast, is_report) = self.meaning(number);
        let relays = self.relays(broadcast);
        if is_report {
            let waiting = &mut relays.waiting[node as usize];
            *waiting -= 1;
            if *waiting == 0 {
                let (above, complete) = (relays.above[node as usize], relays.complete);
                self.send_quietly(node, above, complete, true);
            }
        } else {
            let done = relays.done;
            let mut targets = std::mem::take(&mut self.targets);
            append_targets(&RingOrder::default(), &self.spreads[broadcast as usize].notice, node, &mut targets);
            for to in targets.drain(..) {
                self.send_quietly(node, to, done, false);
            }
            self.targets = targets;
        }
    }

    /// Of which broadcast a message to a quiet node speaks, and whether it is a report.
    fn meaning(&self, number: u32) -> (u32, bool) {
        // Nearly all are from other quiet nodes.
        for (broadcast, relays) in &self.relays {
            if number == relays.complete || number == relays.done {
                return (*broadcast, number == relays.complete);
            }
        }
        match self.messages[number as usize] {
            Message::Complete { source, incarnation, seq } => (self.by_name[&(source, incarnation, seq, false)], true),
            Message::Done { source, incarnation, seq } => (self.by_name[&(source, incarnation, seq, false)], false),
            _ => unreachable!("a quiet node gets nothing else"),
        }
    }

    fn send_quietly(&mut self, from: NodeId, to: NodeId, number: u32, is_report: bool) {
        self.relayed[usize::from(!is_report)] += 1;
        if self.log.messages() {
            self.report(from, to, kind(&self.messages[number as usize]));
        }
        let delay = self.network.delay();
        self.transmit(Transfer { from, to, what: What::Message { from, number }, delay });
    }
}
