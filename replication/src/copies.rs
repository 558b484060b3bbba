//! The copies of one message at a receiver, and what they say together (figures 4.1 and 4.3 of the thesis).
//!
//! A copy or a digest is the *vote* of its sender. What is right is what most of the senders have sent, of those that
//! live or have voted. All votes are compared, also those that come after the message is confirmed.

use event_log::protocol::units::Channel;

use crate::digest::Digest;
use crate::message::{Body, Data};
use crate::method::Method;
use crate::replicas::{Indices, MOST};
use crate::variant::{Rule, Variant};

/// What the copies say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Some are to come.
    Open,
    /// They differ, and this sender has to be asked for its copy.
    Ask(u8),
    /// Nothing more is needed.
    Settled {
        /// What is right.
        right: Digest,
        /// Who has sent something else.
        corrupt: Indices,
    },
    /// They differ, all are there, and there is no majority.
    Undecided {
        /// Those that have sent the same as the lowest.
        one: Indices,
        /// The others.
        others: Indices,
    },
}

/// The copies of one message.
#[derive(Clone, Debug)]
pub struct Copies<P> {
    votes: [Option<Digest>; MOST as usize],
    /// Who has sent two different things under one number.
    contradicting: Indices,
    /// Who was asked.
    asked: Indices,
    data: Vec<(Digest, Channel, P)>,
    /// The channel on which the program may have seen it.
    shown: Option<Channel>,
    /// The copy of which a probe has told the length.
    probed: Option<Digest>,
    /// What the program has got.
    used: Option<Digest>,
    settled: Option<Digest>,
}

impl<P> Default for Copies<P> {
    fn default() -> Self {
        let (votes, contradicting, asked) = Default::default();
        Self { votes, contradicting, asked, data: Vec::new(), shown: None, probed: None, used: None, settled: None }
    }
}

impl<P: Data> Copies<P> {
    /// A copy or a digest has come from this sender.
    pub fn arrive<V: Variant>(&mut self, from: u8, channel: Channel, body: Body<P>) {
        let digest = match &body {
            Body::Full(data) => data.digest(channel),
            Body::Digest(digest) => *digest,
        };
        let vote = &mut self.votes[usize::from(from)];
        if vote.is_some_and(|earlier| earlier != digest) && V::keeps(Rule::CopiesAreCompared) {
            self.contradicting.insert(from);
            return;
        }
        *vote = Some(digest);
        if let (Body::Full(data), false) = (body, self.has(digest)) {
            self.data.push((digest, channel, data));
        }
    }

    fn voted(&self) -> Indices {
        let mut voted = Indices::default();
        (0..MOST).filter(|index| self.votes[usize::from(*index)].is_some()).for_each(|index| voted.insert(index));
        voted
    }

    /// How many senders have voted.
    pub fn votes(&self) -> usize {
        self.voted().len()
    }

    /// Each digest with those that have voted for it, in the order of the lowest of them.
    fn groups(&self) -> Vec<(Digest, Indices)> {
        let mut groups: Vec<(Digest, Indices)> = Vec::with_capacity(1);
        for (index, vote) in (0..).zip(&self.votes) {
            let Some(vote) = vote else { continue };
            match groups.iter_mut().find(|(digest, _)| digest == vote) {
                Some((_, who)) => who.insert(index),
                None => {
                    let mut who = Indices::default();
                    who.insert(index);
                    groups.push((*vote, who));
                }
            }
        }
        groups
    }

    fn has(&self, digest: Digest) -> bool {
        self.used == Some(digest) || self.data.iter().any(|(other, ..)| *other == digest)
    }

    fn datum(&self, digest: Digest) -> Option<(Digest, Channel)> {
        self.data.iter().find(|(other, ..)| *other == digest).map(|(digest, channel, _)| (*digest, *channel))
    }

    /// What the copies say while these senders live.
    pub fn judge<V: Variant>(&self, method: Method, living: Indices) -> Judgement {
        let voted = self.voted();
        let (open, all) = (living.without(voted), living.union(voted));
        let groups = self.groups();
        let agree = groups.len() <= 1 && self.contradicting.is_empty() || !V::keeps(Rule::CopiesAreCompared);
        let Some((first, one)) = groups.first().copied() else { return Judgement::Open };
        if agree {
            let is_enough = open.is_empty() || method.sends_digests() && voted.len() >= 2;
            let is_settled = is_enough && self.has(first);
            return if is_settled {
                Judgement::Settled { right: first, corrupt: Indices::default() }
            } else {
                Judgement::Open
            };
        }
        let honest = |who: Indices| who.without(self.contradicting);
        let majority = groups.iter().find(|(_, who)| 2 * honest(*who).len() > all.len());
        let ask = |among: Indices| among.without(self.asked).lowest().map_or(Judgement::Open, Judgement::Ask);
        match majority {
            Some((right, who)) if self.has(*right) => {
                Judgement::Settled { right: *right, corrupt: voted.without(honest(*who)) }
            }
            Some((_, who)) => {
                let mut alive = *who;
                who.iter().filter(|index| !living.contains(*index)).for_each(|index| _ = alive.remove(index));
                ask(alive)
            }
            None if !open.is_empty() && V::keeps(Rule::ThirdIsAsked) => {
                if method.sends_digests() {
                    ask(open)
                } else {
                    Judgement::Open
                }
            }
            None => Judgement::Undecided { one, others: voted.without(one) },
        }
    }

    /// This sender was asked for its copy.
    pub fn note_asked(&mut self, index: u8) {
        self.asked.insert(index);
    }

    /// The message is settled, and this is right. Returns whether the program has seen something else: data, length or
    /// tag.
    pub fn settle<V: Variant>(&mut self, right: Digest) -> bool {
        self.settled = Some(right);
        self.data.retain(|(digest, ..)| *digest == right);
        let is_shown_elsewhere =
            self.shown.is_some_and(|shown| self.datum(right).is_some_and(|(_, channel)| channel != shown));
        let is_another = |seen: Option<Digest>| seen.is_some_and(|seen| seen != right);
        (is_shown_elsewhere || is_another(self.probed) || is_another(self.used)) && V::keeps(Rule::UsedCopyIsCompared)
    }

    /// No majority settles it and the job goes on: the lowest sender's copy that is here counts as right.
    pub fn settle_anyhow(&mut self) {
        let order = self.votes.iter().flatten().find_map(|vote| self.datum(*vote));
        self.settled = order.map(|(digest, _)| digest).or(self.used).or(self.votes.iter().flatten().next().copied());
    }

    /// A channel on which a copy has come; that of no message if only digests have.
    pub fn channel(&self) -> Channel {
        self.shown.or(self.data.first().map(|(_, channel, _)| *channel)).unwrap_or(Channel { communicator: 0, tag: -1 })
    }

    /// Whether nothing more is needed.
    pub fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Whether the program has got a copy.
    pub fn is_used(&self) -> bool {
        self.used.is_some()
    }

    /// The channel of the copy that the program may get now.
    ///
    /// A method that is not lazy gives what is settled. A lazy one gives an early copy, unless copies differ already.
    /// With three senders that is the copy of the receiver's own number `me`, or one on which two agree: so a corrupt
    /// sender gets to one replica of the receiver at most, and the two others outvote it. Where the receiver has fewer
    /// than three replicas nobody would outvote it, and it waits.
    pub fn usable<V: Variant>(&self, method: Method, living: Indices, receivers: Indices, me: u8) -> Option<Channel> {
        self.choose::<V>(method, living, receivers, me).map(|(_, channel)| channel)
    }

    fn choose<V: Variant>(
        &self,
        method: Method,
        living: Indices,
        receivers: Indices,
        me: u8,
    ) -> Option<(Digest, Channel)> {
        if let Some(right) = self.settled {
            return self.datum(right);
        }
        let senders = living.union(self.voted()).len();
        let waits = senders >= 3 && receivers.len() < 3 && V::keeps(Rule::FewReceiversWait);
        let groups = self.groups();
        if !method.is_lazy() || waits || groups.len() != 1 || !self.contradicting.is_empty() {
            return None;
        }
        let (digest, who) = groups[0];
        let is_first_enough = senders < 3 || method.sends_digests() || !V::keeps(Rule::OwnCopyOrTwo);
        if is_first_enough || who.contains(me) || who.len() >= 2 { self.datum(digest) } else { None }
    }

    /// Receives and probes may find it on this channel from now on.
    pub fn show(&mut self, channel: Channel) {
        self.shown = Some(channel);
    }

    /// Whether receives and probes may find it.
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// The program gets a copy: that of [`usable`](Self::usable).
    pub fn take<V: Variant>(&mut self, method: Method, living: Indices, receivers: Indices, me: u8) -> Option<P> {
        let (digest, _) = self.choose::<V>(method, living, receivers, me)?;
        let place = self.data.iter().position(|(other, ..)| *other == digest)?;
        self.used = Some(digest);
        Some(self.data.swap_remove(place).2)
    }

    /// Data that is here, in bytes.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|(.., data)| data.length()).sum()
    }

    /// A probe finds the message: the length of the copy of [`usable`](Self::usable), in bytes.
    pub fn probe<V: Variant>(&mut self, method: Method, living: Indices, receivers: Indices, me: u8) -> Option<u64> {
        let (digest, _) = self.choose::<V>(method, living, receivers, me)?;
        self.probed = Some(digest);
        self.data.iter().find(|(other, ..)| *other == digest).map(|(.., data)| data.length())
    }
}
