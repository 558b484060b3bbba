//! What a sender keeps until all replicas of the receiver have settled it: to send what a dead replica owed, and to
//! answer who asks.
//!
//! The program may change its buffer as soon as the send has returned, so what is kept is a copy.

use std::collections::{BTreeSet, VecDeque};

use event_log::determinant::Rank;
use event_log::protocol::units::Channel;

use crate::digest::Digest;
use crate::message::{Body, Data, Message};
use crate::method::{Duty, Method, duty};
use crate::replicas::{Indices, Living, MOST, Replica};
use crate::variant::{Rule, Variant};

#[derive(Clone, Debug)]
struct Kept<P> {
    number: u64,
    channel: Channel,
    payload: P,
    digest: Option<Digest>,
    sent: [Duty; MOST as usize],
}

#[derive(Clone, Debug)]
struct Line<P> {
    last: u64,
    kept: VecDeque<Kept<P>>,
    settled: [u64; MOST as usize],
}

/// What one replica keeps.
#[derive(Clone, Debug)]
pub struct Outbox<P> {
    method: Method,
    me: Replica,
    lines: Vec<Line<P>>,
    /// Who has asked for a message that was not sent yet.
    asked: BTreeSet<(Replica, u64)>,
    bytes: u64,
}

type Sends<P> = Vec<(Replica, Message<P>)>;

impl<P: Data> Outbox<P> {
    /// Of a replica among so many ranks.
    pub fn new(method: Method, me: Replica, ranks: u32) -> Self {
        let line = || Line { last: 0, kept: VecDeque::new(), settled: [0; MOST as usize] };
        Self { method, me, lines: (0..ranks).map(|_| line()).collect(), asked: BTreeSet::new(), bytes: 0 }
    }

    /// The program sends. Returns what goes out.
    pub fn send<V: Variant>(&mut self, to: Rank, channel: Channel, payload: P, living: &Living) -> Sends<P> {
        let line = &mut self.lines[to as usize];
        line.last += 1;
        self.bytes += payload.length();
        let sent = [Duty::Nothing; MOST as usize];
        line.kept.push_back(Kept { number: line.last, channel, payload, digest: None, sent });
        let place = line.kept.len() - 1;
        let sends = self.owed_of::<V>(to, place, living);
        if !V::keeps(Rule::KeptUntilSettled) {
            self.bytes -= self.lines[to as usize].kept.drain(..).map(|kept| kept.payload.length()).sum::<u64>();
        }
        // A slow sender's message may be settled before it is sent.
        self.drop_settled(to, living);
        sends
    }

    /// What one kept message needs beyond what was sent of it.
    fn owed_of<V: Variant>(&mut self, to: Rank, place: usize, living: &Living) -> Sends<P> {
        let line = &mut self.lines[to as usize];
        let kept = &mut line.kept[place];
        let mut sends = Vec::new();
        for index in living.of(to).iter().filter(|index| line.settled[usize::from(*index)] < kept.number) {
            let replica = Replica { rank: to, index };
            let owed = if self.asked.remove(&(replica, kept.number)) {
                Duty::Full
            } else {
                owed::<V>(self.method, living.of(self.me.rank), self.me.index, index)
            };
            if owed > kept.sent[usize::from(index)] {
                kept.sent[usize::from(index)] = owed;
                let (channel, payload) = (kept.channel, &kept.payload);
                let body = match owed {
                    Duty::Full => Body::Full(payload.clone()),
                    _ => Body::Digest(*kept.digest.get_or_insert_with(|| payload.digest(channel))),
                };
                sends.push((replica, Message::Copy { number: kept.number, channel, body }));
            }
        }
        sends
    }

    /// Somebody has died: what is owed now beyond what was sent, in the order of sending.
    pub fn owed<V: Variant>(&mut self, living: &Living) -> Sends<P> {
        let mut sends = Vec::new();
        for to in 0..living.ranks() {
            let count = self.lines[to as usize].kept.len();
            (0..count).for_each(|place| sends.extend(self.owed_of::<V>(to, place, living)));
        }
        sends
    }

    /// A receiver asks for a message. Returns the answer, now or when the message is sent.
    pub fn ask<V: Variant>(&mut self, from: Replica, number: u64) -> Option<Message<P>> {
        let line = &mut self.lines[from.rank as usize];
        if number > line.last {
            if V::keeps(Rule::LaterSendAnswers) {
                self.asked.insert((from, number));
            }
            return None;
        }
        let kept = line.kept.iter_mut().find(|kept| kept.number == number)?;
        kept.sent[usize::from(from.index)] = Duty::Full;
        Some(Message::Copy { number, channel: kept.channel, body: Body::Full(kept.payload.clone()) })
    }

    /// A receiver needs nothing more of messages up to this one.
    pub fn settle(&mut self, from: Replica, up_to: u64, living: &Living) {
        let settled = &mut self.lines[from.rank as usize].settled[usize::from(from.index)];
        *settled = up_to.max(*settled);
        self.drop_settled(from.rank, living);
    }

    /// Drops what all living replicas of a receiver have settled.
    pub fn drop_settled(&mut self, to: Rank, living: &Living) {
        let line = &mut self.lines[to as usize];
        let least = living.of(to).iter().map(|index| line.settled[usize::from(index)]).min().unwrap_or(u64::MAX);
        while line.kept.front().is_some_and(|kept| kept.number <= least) {
            self.bytes -= line.kept.pop_front().map_or(0, |kept| kept.payload.length());
        }
    }

    /// Data that is kept, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that are kept.
    pub fn messages(&self) -> usize {
        self.lines.iter().map(|line| line.kept.len()).sum()
    }

    /// Replicas that have not settled what is kept for them.
    pub fn waiting_for(&self, living: &Living) -> Vec<Replica> {
        let of_line = |(rank, line): (Rank, &Line<P>)| {
            let last = line.kept.back().map_or(0, |kept| kept.number);
            let unsettled: Vec<u8> =
                living.of(rank).iter().filter(|index| line.settled[usize::from(*index)] < last).collect();
            unsettled.into_iter().map(move |index| Replica { rank, index })
        };
        (0..).zip(&self.lines).flat_map(of_line).collect()
    }
}

/// [`duty`], or what a test has in its place.
fn owed<V: Variant>(method: Method, senders: Indices, me: u8, to: u8) -> Duty {
    if !V::keeps(Rule::DigestOfAnother) && method.sends_digests() {
        let is_own =
            usize::from(to) % senders.len().max(1) == senders.iter().position(|sender| sender == me).unwrap_or(9);
        return if is_own { Duty::Full } else { Duty::Nothing };
    }
    duty(method, senders, me, to)
}
