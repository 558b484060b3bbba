//! The machine of one replica.

mod calls;
mod verification;

use std::marker::PhantomData;

use event_log::determinant::Rank;

use crate::action::{Action, Input};
use crate::call::{Call, Outcome};
use crate::decisions::{Decision, Decisions, What};
use crate::inbox::Inbox;
use crate::matching::Matching;
use crate::message::{Data, Message};
use crate::method::Method;
use crate::outbox::Outbox;
use crate::replicas::{Degrees, Living, Replica};
use crate::variant::{Rule, Sound, Variant};

/// How much may wait for verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Messages that the program has got and that are not verified: at the bound a receive waits until one is.
    pub unverified: u64,
    /// Bytes of sent messages that receivers have not verified: above the bound a send waits. One message is always
    /// taken.
    pub kept: u64,
}

/// What happens when copies differ and no majority settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMismatch {
    /// The job ends.
    End,
    /// It is reported, and the copy of the lowest sender counts.
    Report,
}

/// What a replica is set up with. The same at all but for `me`.
#[derive(Clone, Debug)]
pub struct Config {
    /// This replica.
    pub me: Replica,
    /// The replicas of all ranks.
    pub degrees: Degrees,
    /// How messages are compared.
    pub method: Method,
    /// How much may wait for verification.
    pub bound: Bound,
    /// What happens where no majority settles it.
    pub on_mismatch: OnMismatch,
    /// A receiver tells its senders what is verified after so many messages.
    pub report_every: u64,
    /// Calls that find nothing are told to the other replicas after so many, or before the next send.
    pub polls_together: u32,
}

impl Config {
    /// With the usual bounds.
    pub fn new(me: Replica, degrees: Degrees, method: Method) -> Self {
        let bound = Bound { unverified: 4096, kept: 64 << 20 };
        Self { me, degrees, method, bound, on_mismatch: OnMismatch::End, report_every: 64, polls_together: 32 }
    }
}

/// A call that has not returned.
#[derive(Clone, Debug)]
struct Pending<P> {
    call: Call<P>,
    /// The last decision that this replica knew when it was made.
    since: u64,
}

/// The machine of one replica.
#[derive(Clone, Debug)]
pub struct Machine<P, V = Sound> {
    config: Config,
    living: Living,
    inbox: Inbox<P>,
    outbox: Outbox<P>,
    matching: Matching,
    decisions: Decisions,
    pending: Option<Pending<P>>,
    out: Vec<Action<P>>,
    /// Whether the others of the rank are to be told what this replica knows. A decision that it has made tells that by
    /// itself.
    has_learnt: bool,
    /// Those that were asked for a report and have not sent one since.
    pressed: Vec<Replica>,
    is_ending: bool,
    has_ended: bool,
    has_told_taint: bool,
    reported: Vec<Replica>,
    variant: PhantomData<V>,
}

impl<P: Data, V: Variant> Machine<P, V> {
    /// A replica at the start of the job, when all live.
    pub fn new(config: Config) -> Self {
        let ranks = config.degrees.ranks();
        Self {
            living: Living::new(&config.degrees),
            inbox: Inbox::new(ranks),
            outbox: Outbox::new(config.method, config.me, ranks),
            matching: Matching::default(),
            decisions: Decisions::new(config.me.index),
            pending: None,
            out: Vec::new(),
            has_learnt: false,
            pressed: Vec::new(),
            is_ending: false,
            has_ended: false,
            has_told_taint: false,
            reported: Vec::new(),
            config,
            variant: PhantomData,
        }
    }

    /// Something has happened. What is to be done is appended to `actions`.
    pub fn step(&mut self, input: Input<P>, actions: &mut Vec<Action<P>>) {
        if self.has_ended {
            return;
        }
        match input {
            Input::Call(call) => {
                if matches!(call, Call::Send { .. } | Call::Finalize) && V::keeps(Rule::PollsAreTold) {
                    self.tell_polls();
                }
                self.pending = Some(Pending { call, since: self.decisions.last() });
            }
            Input::Peer { from, message } => {
                if self.living.contains(from) || !V::keeps(Rule::DeadAreNotHeard) {
                    self.hear(from, message);
                }
            }
            Input::Died(replica) => self.bury(replica),
        }
        self.go_on();
        actions.append(&mut self.out);
    }

    fn me(&self) -> Replica {
        self.config.me
    }

    fn send(&mut self, to: Replica, message: Message<P>) {
        self.out.push(Action::Transmit { to, message });
    }

    /// The other living replicas of this rank.
    fn siblings(&self) -> Vec<Replica> {
        let Replica { rank, index: me } = self.me();
        let others = self.living.of(rank).iter().filter(|index| *index != me);
        others.map(|index| Replica { rank, index }).collect()
    }

    fn hear(&mut self, from: Replica, message: Message<P>) {
        match message {
            Message::Copy { number, channel, body } => {
                if self.inbox.arrive::<V>(from.rank, from.index, number, channel, body) {
                    self.verify(from.rank, number);
                    self.make_ready(from.rank);
                }
            }
            Message::Ask { number } => {
                if let Some(answer) = self.outbox.ask::<V>(from, number) {
                    self.send(from, answer);
                }
            }
            Message::Settled { up_to } => {
                self.outbox.settle(from, up_to, &self.living);
                self.pressed.retain(|replica| *replica != from);
            }
            Message::PleaseReport => self.inbox.want_report(from.rank),
            Message::Decided(decision) => self.learn(from, &[decision]),
            Message::Known { up_to } => self.decisions.note_known(from.index, up_to),
            Message::Ledger(decisions) => {
                self.learn(from, &decisions);
                self.decisions.note_heard(from.index);
                self.succeed();
            }
        }
    }

    fn learn(&mut self, from: Replica, decisions: &[Decision]) {
        for decision in decisions {
            self.decisions.note_known(from.index, decision.id);
            if let Some(What::Match { request, source, number }) = self.decisions.learn(*decision) {
                self.matching.decide((request, source, number));
            }
        }
        self.has_learnt = true;
    }

    /// This replica decides from now on, if it does: it tells the others what it has learnt.
    fn succeed(&mut self) {
        let of_rank = self.living.of(self.me().rank);
        if of_rank.lowest() != Some(self.me().index) || !V::keeps(Rule::SuccessorTells) {
            return;
        }
        for sibling in self.siblings() {
            for decision in self.decisions.beyond(sibling.index) {
                self.send(sibling, Message::Decided(decision));
            }
        }
    }

    fn bury(&mut self, replica: Replica) {
        let before = self.living.of(self.me().rank).lowest();
        if !self.living.remove(replica) {
            return;
        }
        if self.living.of(replica.rank).is_empty() {
            self.out.push(Action::Lost(replica.rank));
        }
        if replica.rank == self.me().rank {
            self.lose_sibling(before);
        }
        self.outbox.drop_settled(replica.rank, &self.living);
        if V::keeps(Rule::DeadAreNotAwaited) {
            self.verify_all(replica.rank);
        }
        // Fewer receivers of this rank may mean that it has to wait, never that it may go on; fewer senders may.
        self.make_ready(replica.rank);
    }

    fn lose_sibling(&mut self, before: Option<u8>) {
        let rank = self.me().rank;
        let now = self.living.of(rank).lowest();
        match now {
            Some(index) if now != before && index != self.me().index => {
                let ledger = self.decisions.beyond(index);
                self.send(Replica { rank, index }, Message::Ledger(ledger));
            }
            _ => self.succeed(),
        }
        if V::keeps(Rule::OthersSendAfterDeath) {
            for (to, message) in self.outbox.owed::<V>(&self.living) {
                self.send(to, message);
            }
        }
    }

    /// Everything that may go on after an input.
    fn go_on(&mut self) {
        self.match_receives();
        if let Some(pending) = self.pending.take() {
            match self.attempt(&pending) {
                Some(outcome) => {
                    self.out.push(Action::Return(outcome));
                    self.match_receives();
                }
                None => self.pending = Some(pending),
            }
        }
        self.report();
        self.tell_known();
    }

    fn match_receives(&mut self) {
        let decides = self.decides();
        for (request, source, number) in self.matching.run::<V>(decides) {
            self.decide(What::Match { request, source, number });
        }
    }

    fn tell_polls(&mut self) {
        if let Some(decision) = self.decisions.tell_polls() {
            self.tell(decision);
        }
    }

    fn decides(&self) -> bool {
        self.decisions.decides::<V>(self.living.of(self.me().rank))
    }

    fn decide(&mut self, what: What) {
        let decision = self.decisions.decide(what);
        self.tell(decision);
    }

    fn tell(&mut self, decision: Decision) {
        for sibling in self.siblings() {
            self.send(sibling, Message::Decided(decision));
        }
    }

    fn tell_known(&mut self) {
        if std::mem::take(&mut self.has_learnt) {
            let up_to = self.decisions.last();
            for sibling in self.siblings() {
                self.send(sibling, Message::Known { up_to });
            }
        }
        self.decisions.drop_known(self.living.of(self.me().rank));
    }

    fn report(&mut self) {
        let every = if self.is_ending { 1 } else { self.config.report_every };
        for source in self.inbox.sources() {
            let Some(up_to) = self.inbox.report(source, every) else { continue };
            for index in self.living.of(source).iter() {
                self.send(Replica { rank: source, index }, Message::Settled { up_to });
            }
        }
    }

    /// Messages that were used and are not verified.
    pub fn unverified(&self) -> u64 {
        self.inbox.unverified()
    }

    /// Messages of which copies, digests or data are kept here: as a receiver, and as a sender.
    pub fn messages(&self) -> (usize, usize) {
        (self.inbox.messages(), self.outbox.messages())
    }

    /// Data that is kept, in bytes: of messages that have come, and of messages that were sent.
    pub fn bytes(&self) -> (u64, u64) {
        (self.inbox.bytes(), self.outbox.bytes())
    }

    /// Decisions that somebody may not know.
    pub fn decisions(&self) -> usize {
        self.decisions.kept()
    }

    /// Whether a rank has a replica that lives, as far as is known here.
    pub fn is_alive(&self, rank: Rank) -> bool {
        !self.living.of(rank).is_empty()
    }

    fn finalized(&self) -> Outcome<P> {
        let (compared, uncompared) = self.inbox.counts();
        Outcome::Finalized { compared, uncompared }
    }
}
