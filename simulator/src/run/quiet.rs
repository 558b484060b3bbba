//! Quiet nodes: neither they nor their neighbours on the ring die in the run, so all they do is to pass notices on.
//!
//! What a member does on a notice then follows from the notice, from the deaths it knows of, and, in the tree, from who
//! has reported to it. That is worked out here, without a member; the tests compare it with the members' own doing.

use propagation::graph::targets;
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
    /// Per node who its copy came from.
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
        let tracked = self.elision.copies || self.elision.members;
        let first = !tracked || self.spreads[broadcast as usize].take(node, self.now);
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
        let targets = targets(&RingOrder::default(), notice, node);
        let mut sent = 0;
        for to in targets {
            if to != from && to != source && !(knows_more && self.knows_dead(node, to)) {
                self.report(node, to, "notice");
                self.send_copy(node, to, broadcast);
                sent += 1;
            }
        }
        if route == Route::Tree {
            let relays = self.relays(broadcast);
            relays.waiting[node as usize] = sent;
            relays.above[node as usize] = from;
            if sent == 0 {
                let complete = relays.complete;
                self.send_quietly(node, from, complete);
            }
        }
        for subject in learned {
            self.note(Entry::KnownByAll(self.truth.subjects()[subject].node));
        }
    }

    /// Takes note of the dead that a notice names: the last to learn of which it is, and whether it knows of more.
    fn learn(&mut self, node: NodeId, broadcast: u32) -> (Vec<usize>, bool) {
        let place = node as usize * self.words;
        let (mut last_of, mut knows_more) = (Vec::new(), false);
        for (word, &names) in self.spreads[broadcast as usize].names.iter().enumerate() {
            let knows = &mut self.knows[place + word];
            let mut news = names & !*knows;
            *knows |= names;
            knows_more |= *knows != names;
            while news != 0 {
                let subject = word * 64 + news.trailing_zeros() as usize;
                news &= news - 1;
                if self.truth.learn(self.now, subject) {
                    last_of.push(subject);
                }
            }
        }
        (last_of, knows_more)
    }

    fn knows_dead(&self, node: NodeId, dead: NodeId) -> bool {
        let knows = &self.knows[node as usize * self.words..][..self.words];
        self.truth.number(dead).is_some_and(|subject| knows[subject / 64] >> (subject % 64) & 1 == 1)
    }

    fn relays(&mut self, broadcast: u32) -> &mut Relays {
        let nodes = self.scenario.nodes as usize;
        let Notice { source, incarnation, seq, .. } = *self.spreads[broadcast as usize].notice;
        let messages = &mut self.messages;
        self.relays.entry(broadcast).or_insert_with(|| {
            let complete = messages.len() as u32;
            messages
                .extend([Message::Complete { source, incarnation, seq }, Message::Done { source, incarnation, seq }]);
            Relays { waiting: vec![0; nodes], above: vec![0; nodes], complete, done: complete + 1 }
        })
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
                self.send_quietly(node, above, complete);
            }
        } else {
            let done = relays.done;
            for to in targets(&RingOrder::default(), &self.spreads[broadcast as usize].notice, node) {
                self.send_quietly(node, to, done);
            }
        }
    }

    /// Of which broadcast a message to a quiet node speaks, and whether it is a report.
    fn meaning(&self, number: u32) -> (u32, bool) {
        // Nearly all are from other quiet nodes.
        for (&broadcast, relays) in &self.relays {
            if number == relays.complete || number == relays.done {
                return (broadcast, number == relays.complete);
            }
        }
        match self.messages[number as usize] {
            Message::Complete { source, incarnation, seq } => (self.by_name[&(source, incarnation, seq, false)], true),
            Message::Done { source, incarnation, seq } => (self.by_name[&(source, incarnation, seq, false)], false),
            _ => unreachable!("a quiet node gets nothing else"),
        }
    }

    fn send_quietly(&mut self, from: NodeId, to: NodeId, number: u32) {
        self.relayed[usize::from(!self.meaning(number).1)] += 1;
        if self.log.messages() {
            self.report(from, to, kind(&self.messages[number as usize]));
        }
        let delay = self.network.delay();
        self.transmit(Transfer { from, to, what: What::Message { from, number }, delay });
    }
}
