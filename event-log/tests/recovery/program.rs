//! A program that follows its script: what it sends depends on all that it has seen.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::protocol::call::{Call, Outcome};
use event_log::protocol::units::{Channel, Envelope, Pattern, Payload, Request};
use serde::{Deserialize, Serialize};

use crate::plan::{Kind, Op, members};
use crate::random::mix;

/// One rank's program between two calls. It is what a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    rank: Rank,
    ranks: u32,
    /// All that it has seen.
    pub hash: u64,
    /// The piece of the script.
    at: usize,
    /// What the last probe found, until it is received.
    found: Option<Envelope>,
    /// Where in the piece.
    stage: Stage,
    /// Posted and not finished.
    posted: Vec<Request>,
    /// Calls in this piece that found nothing.
    polls: u32,
    /// Messages sent in this piece while polling.
    sent: usize,
    /// How many calls have returned.
    pub calls: usize,
    /// Whether a receive has got another message than the one that was probed for it.
    pub got_another: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    Begin,
    /// A probe has found this: it is received.
    Found(Envelope),
    /// A blocking receive has started.
    Waiting(Request),
    /// A message is sent between two polls.
    Between,
    /// A receive is cancelled: it is posted again.
    Again,
    /// Messages that were not sent while polling are sent now.
    Flush,
}

/// What was received with an outcome.
pub type Received<'a> = &'a dyn Fn(Request) -> Payload;

impl Program {
    pub fn new(rank: Rank, ranks: u32) -> Self {
        Self {
            rank,
            ranks,
            hash: mix(1, rank.into()),
            at: 0,
            found: None,
            stage: Stage::Begin,
            posted: Vec::new(),
            polls: 0,
            sent: 0,
            calls: 0,
            got_another: false,
        }
    }

    fn payload(&self, extra: u64) -> Payload {
        let value = mix(self.hash, extra);
        let length = 8 + value as usize % 24;
        value.to_le_bytes().into_iter().cycle().take(length).collect()
    }

    fn absorb(&mut self, value: u64) {
        self.hash = mix(self.hash, value);
    }

    fn send(&self, (to, channel): (Rank, Channel)) -> Call {
        Call::Send { to, channel, payload: self.payload(u64::from(to) << 32 | channel.tag as u64) }
    }

    /// The piece of its script that it is in.
    pub fn op<'a>(&self, script: &'a [Op]) -> Option<&'a Op> {
        script.get(self.at)
    }

    /// The next call; `None` at the end.
    pub fn next(&self, script: &[Op]) -> Option<Call> {
        let named = |envelope: Envelope| {
            let Envelope { source, channel: Channel { communicator, tag } } = envelope;
            Pattern { communicator, source: Some(source), tag: Some(tag) }
        };
        let requests = self.posted.clone();
        let last = self.posted.last().copied();
        Some(match (self.stage, script.get(self.at)?) {
            (Stage::Found(_), Op::Probe(pattern, true)) => Call::Receive { pattern: *pattern },
            (Stage::Found(envelope), _) => Call::Receive { pattern: named(envelope) },
            (Stage::Waiting(request), _) => Call::Wait { request },
            (Stage::Between | Stage::Flush, Op::Iprobe(_, _, owed) | Op::Test(_, owed)) => self.send(owed[self.sent]),
            (_, Op::AddCommunicator(communicator, members)) => {
                Call::AddCommunicator { communicator: *communicator, members: members.clone() }
            }
            (_, Op::Send(to, channel)) => self.send((*to, *channel)),
            (_, Op::Receive(pattern) | Op::Post(pattern)) => Call::Receive { pattern: *pattern },
            (_, Op::Probe(pattern, _)) => Call::Probe { pattern: *pattern },
            (_, Op::Iprobe(pattern, polls, _)) if self.polls < *polls => Call::Iprobe { pattern: *pattern },
            (_, Op::Iprobe(pattern, _, _)) => Call::Probe { pattern: *pattern },
            (_, Op::Test(polls, _)) if self.polls < *polls => Call::Test { requests },
            (_, Op::WaitAny | Op::Test(_, _)) => Call::WaitAny { requests },
            (_, Op::TestAll(polls)) if self.polls < *polls => Call::TestAll { requests },
            (_, Op::WaitEach | Op::TestAll(_)) => Call::Wait { request: last? },
            (Stage::Again, Op::Cancel(pattern)) => Call::Receive { pattern: *pattern },
            (_, Op::Cancel(_)) => Call::Cancel { request: last? },
            (_, Op::Clock) => Call::Clock { now: 0 },
            (_, Op::Collective(communicator, kind)) => {
                let (needs, alike) = self.needs(members(self.ranks, *communicator), *kind);
                Call::Collective { communicator: *communicator, contribution: self.payload(7), needs, alike }
            }
        })
    }

    fn needs(&self, members: Vec<Rank>, kind: Kind) -> (Vec<Rank>, bool) {
        match kind {
            Kind::Allreduce => (members, true),
            Kind::Bcast(root) => (vec![root], true),
            Kind::Gather(root) if root == self.rank => (members, false),
            Kind::Gather(_) => (Vec::new(), false),
            Kind::Alltoall => (members, false),
        }
    }

    /// Its call has returned. What is in the messages of an outcome is in its memory.
    pub fn returned(&mut self, script: &[Op], outcome: &Outcome, received: Received) {
        self.calls += 1;
        let op = &script[self.at];
        match outcome {
            Outcome::Done => self.sent(op),
            Outcome::Posted(request) => match op {
                Op::Post(_) | Op::Cancel(_) => {
                    self.posted.push(*request);
                    self.go_on();
                }
                _ => self.stage = Stage::Waiting(*request),
            },
            Outcome::Received { request, envelope } => {
                self.take(*request, *envelope, received);
                self.after_receive(op);
            }
            Outcome::ReceivedAll(all) => {
                all.iter().for_each(|&(request, envelope)| self.take(request, envelope, received));
                self.after_receive(op);
            }
            Outcome::Nothing => {
                self.polls += 1;
                self.absorb(11);
                let (Op::Iprobe(_, _, owed) | Op::Test(_, owed)) = op else { return };
                if self.sent < owed.len() && self.hash % 2 == 0 {
                    self.stage = Stage::Between;
                }
            }
            Outcome::Found(envelope) => {
                self.absorb(u64::from(envelope.source) << 8);
                self.found = Some(*envelope);
                self.stage = Stage::Found(*envelope);
            }
            Outcome::Cancelled(true) => {
                self.absorb(12);
                self.posted.pop();
                self.stage = Stage::Again;
            }
            Outcome::Cancelled(false) => self.go_on(),
            Outcome::Clock(shown) => {
                self.absorb(*shown);
                self.go_on();
            }
            Outcome::Collective(_) => {
                self.absorb(value(&received(0)));
                self.go_on();
            }
            Outcome::CheckpointTaken(_) | Outcome::CheckpointRefused(_) | Outcome::Restored { .. } => {
                unreachable!("a program of these tests does not ask for that")
            }
        }
    }

    fn take(&mut self, request: Request, envelope: Envelope, received: Received) {
        let is_other = self.found.take().is_some_and(|found| found != envelope);
        self.got_another |= is_other;
        self.posted.retain(|&posted| posted != request);
        self.absorb(mix(value(&received(request)), u64::from(envelope.source) << 32 | envelope.channel.tag as u64));
    }

    fn sent(&mut self, op: &Op) {
        match self.stage {
            Stage::Between => {
                self.sent += 1;
                self.stage = Stage::Begin;
            }
            Stage::Flush => {
                self.sent += 1;
                self.flush(op);
            }
            _ => self.go_on(),
        }
    }

    fn after_receive(&mut self, op: &Op) {
        if self.posted.is_empty() || !matches!(op, Op::WaitAny | Op::WaitEach | Op::Test(..) | Op::TestAll(_)) {
            self.flush(op);
        }
    }

    fn flush(&mut self, op: &Op) {
        let owed = if let Op::Iprobe(_, _, owed) | Op::Test(_, owed) = op { owed.len() } else { 0 };
        if self.sent < owed { self.stage = Stage::Flush } else { self.go_on() }
    }

    fn go_on(&mut self) {
        (self.at, self.stage, self.polls, self.sent) = (self.at + 1, Stage::Begin, 0, 0);
    }
}

/// What a program computes of a message.
pub fn value(payload: &[u8]) -> u64 {
    payload.iter().fold(payload.len() as u64, |value, &byte| mix(value, byte.into()))
}

/// The result of a collective operation at a rank, of the contributions that it needs.
pub fn combine(kind: Kind, rank: Rank, contributions: &BTreeMap<Rank, Payload>) -> Payload {
    let fold = |start: u64| contributions.values().fold(start, |folded, payload| mix(folded, value(payload)));
    let bytes = |value: u64| value.to_le_bytes().into_iter().collect();
    match kind {
        Kind::Allreduce => bytes(fold(3)),
        Kind::Bcast(root) => contributions[&root].clone(),
        Kind::Gather(root) if root == rank => bytes(fold(4)),
        Kind::Gather(_) => bytes(0),
        Kind::Alltoall => bytes(fold(5 + u64::from(rank))),
    }
}
