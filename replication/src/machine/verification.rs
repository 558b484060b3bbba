//! Copies are compared as soon as they come, and what they say is carried out.

use event_log::determinant::Rank;
use event_log::protocol::units::Channel;

use crate::action::Action;
use crate::copies::Judgement;
use crate::finding::{Finding, Which};
use crate::machine::{Machine, OnMismatch};
use crate::message::{Data, Message};
use crate::replicas::{Indices, Replica};
use crate::variant::{Rule, Variant};

impl<P: Data, V: Variant> Machine<P, V> {
    pub(super) fn verify_all(&mut self, source: Rank) {
        for number in self.inbox.open(source) {
            self.verify(source, number);
        }
    }

    pub(super) fn verify(&mut self, source: Rank, number: u64) {
        // Senders that count: those that live, as far as is known here.
        let living =
            if V::keeps(Rule::DeadAreNotAwaited) { self.living.of(source) } else { self.config.degrees.of(source) };
        let method = self.config.method;
        let Some(copies) = self.inbox.copies(source, number) else { return };
        if copies.is_settled() {
            return;
        }
        let channel = copies.channel();
        match copies.judge::<V>(method, living) {
            Judgement::Open => {}
            Judgement::Ask(index) => {
                copies.note_asked(index);
                self.send(Replica { rank: source, index }, Message::Ask { number });
            }
            Judgement::Settled { right, corrupt } => {
                let is_tainted = copies.settle::<V>(right);
                self.inbox.note_settled(source, number);
                let which = self.which(source, number, channel);
                self.report_corrupt(corrupt, which);
                if is_tainted && !self.has_told_taint {
                    self.has_told_taint = true;
                    self.out.push(Action::Report(Finding::Tainted { replica: self.me(), which }));
                }
            }
            Judgement::Undecided { one, others } => {
                let is_used = copies.is_used();
                copies.settle_anyhow();
                self.inbox.note_settled(source, number);
                let which = self.which(source, number, channel);
                let finding = Finding::Undecided { which, one, others, is_used };
                match self.config.on_mismatch {
                    OnMismatch::End => {
                        self.has_ended = true;
                        self.out.push(Action::End(finding));
                    }
                    OnMismatch::Report => self.out.push(Action::Report(finding)),
                }
            }
        }
    }

    fn which(&self, source: Rank, number: u64, channel: Channel) -> Which {
        Which { source, to: self.me().rank, number, channel }
    }

    /// Each replica is reported once.
    fn report_corrupt(&mut self, corrupt: Indices, which: Which) {
        for index in corrupt.iter() {
            let replica = Replica { rank: which.source, index };
            if !self.reported.contains(&replica) {
                self.reported.push(replica);
                self.out.push(Action::Report(Finding::Corrupt { replica, which }));
            }
        }
    }

    /// Messages of a source that receives and probes may find now.
    pub(super) fn make_ready(&mut self, source: Rank) {
        let (method, me) = (self.config.method, self.me());
        let (senders, receivers) = (self.living.of(source), self.living.of(me.rank));
        let usable = |copies: &crate::copies::Copies<P>| copies.usable::<V>(method, senders, receivers, me.index);
        while let Some(ready) = self.inbox.next_ready::<V>(source, usable) {
            self.matching.arrive(ready);
        }
    }
}
