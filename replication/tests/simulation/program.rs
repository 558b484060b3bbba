//! The program of a replica: it follows its script, and what it sends depends on all that it has seen.

use std::sync::Arc;

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Envelope, Pattern, Request};
use replication::call::{Call, Outcome};

use crate::plan::{Op, Target};
use crate::random::mix;

pub type Payload = Arc<[u8]>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Begin,
    Waiting(Request),
    /// Has started a receive that it cancels.
    Cancels(Request),
    /// Has cancelled it, and starts another one.
    Again,
    Found(Envelope),
    /// Sends one of those owed, then polls again.
    Between,
    /// Sends what is owed, then goes on.
    Flush,
}

/// One program.
#[derive(Clone, Debug)]
pub struct Program {
    at: usize,
    stage: Stage,
    posted: Vec<Request>,
    polls: u32,
    owed: usize,
    pub hash: u64,
    /// What its calls have returned.
    pub history: Vec<Outcome<Payload>>,
    /// What it has sent.
    pub sent: Vec<(Rank, Channel, Payload)>,
    has_finalized: bool,
}

impl Program {
    pub fn new(rank: Rank) -> Self {
        Self {
            at: 0,
            stage: Stage::Begin,
            posted: Vec::new(),
            polls: 0,
            owed: 0,
            hash: u64::from(rank) + 1,
            history: Vec::new(),
            sent: Vec::new(),
            has_finalized: false,
        }
    }

    pub fn is_over(&self) -> bool {
        self.has_finalized
    }

    fn payload(&self) -> Payload {
        let bytes = mix(self.hash, self.sent.len() as u64).to_le_bytes();
        let length = 1 + (bytes[0] % 24) as usize;
        bytes.iter().copied().cycle().take(length + 7).collect()
    }

    fn send(&self, (to, channel): Target) -> Call<Payload> {
        Call::Send { to, channel, payload: self.payload() }
    }

    fn owed<'a>(&self, op: &'a Op) -> &'a [Target] {
        if let Op::Iprobe(_, _, owed) | Op::Test(_, owed) = op { owed } else { &[] }
    }

    /// The next call; `own` is the clock of its process.
    pub fn next(&self, script: &[Op], own: u64) -> Call<Payload> {
        let Some(op) = script.get(self.at) else { return Call::Finalize };
        if matches!(self.stage, Stage::Between | Stage::Flush) {
            return self.send(self.owed(op)[self.owed]);
        }
        if let Stage::Waiting(request) = self.stage {
            return Call::Wait { request };
        }
        if let Stage::Found(envelope) = self.stage {
            let Channel { communicator, tag } = envelope.channel;
            return Call::Receive { pattern: Pattern { communicator, source: Some(envelope.source), tag: Some(tag) } };
        }
        if let Stage::Cancels(request) = self.stage {
            return Call::Cancel { request };
        }
        let requests = || self.posted.clone();
        match op {
            Op::Send(to, channel) => self.send((*to, *channel)),
            Op::Receive(pattern) | Op::Post(pattern) | Op::Race(pattern) => Call::Receive { pattern: *pattern },
            Op::Probe(pattern) => Call::Probe { pattern: *pattern },
            Op::Iprobe(pattern, most, _) if self.polls < *most => Call::Iprobe { pattern: *pattern },
            Op::Iprobe(pattern, ..) => Call::Probe { pattern: *pattern },
            Op::Test(most, _) if self.polls < *most => Call::Test { requests: requests() },
            Op::WaitAny | Op::Test(..) => Call::WaitAny { requests: requests() },
            Op::TestAll(most) if self.polls < *most => Call::TestAll { requests: requests() },
            // Request 0 is none: only a program that is shown what it has not seen has none posted.
            Op::WaitEach | Op::TestAll(_) => Call::Wait { request: self.posted.last().copied().unwrap_or(0) },
            Op::Clock => Call::Clock { own },
        }
    }

    fn absorb(&mut self, value: u64) {
        self.hash = mix(self.hash, value);
    }

    /// Its call has returned. `sent`: what the call has sent.
    pub fn returned(&mut self, script: &[Op], outcome: Outcome<Payload>, sent: Option<(Rank, Channel, Payload)>) {
        let nothing = Op::Clock;
        let op = script.get(self.at).unwrap_or(&nothing);
        match &outcome {
            Outcome::Done => {
                self.sent.extend(sent);
                match self.stage {
                    Stage::Between => (self.owed, self.stage) = (self.owed + 1, Stage::Begin),
                    Stage::Flush => {
                        self.owed += 1;
                        self.flush(op);
                    }
                    _ => self.go_on(),
                }
            }
            Outcome::Posted(request) => {
                if matches!(op, Op::Post(_)) {
                    self.posted.push(*request);
                    self.go_on();
                } else if matches!(op, Op::Race(_)) && self.stage == Stage::Begin {
                    self.stage = Stage::Cancels(*request);
                } else {
                    self.stage = Stage::Waiting(*request);
                }
            }
            Outcome::Received(all) => {
                for received in all {
                    self.posted.retain(|request| *request != received.request);
                    let bytes = received.payload.iter().fold(7, |value, byte| mix(value, u64::from(*byte)));
                    let place = received.envelope.channel.tag as u64;
                    self.absorb(mix(bytes, mix(received.request, u64::from(received.envelope.source) << 32 | place)));
                }
                let is_several = matches!(op, Op::WaitAny | Op::WaitEach | Op::Test(..) | Op::TestAll(_));
                if self.posted.is_empty() || !is_several {
                    self.flush(op);
                }
            }
            Outcome::Nothing => {
                self.polls += 1;
                self.absorb(11);
                if self.owed < self.owed(op).len() && self.hash % 2 == 0 {
                    self.stage = Stage::Between;
                }
            }
            Outcome::Found { envelope, length } => {
                self.absorb(u64::from(envelope.source) << 8 | length);
                self.stage = Stage::Found(*envelope);
            }
            Outcome::Cancelled(is_cancelled) => {
                self.absorb(u64::from(*is_cancelled));
                self.stage = match self.stage {
                    Stage::Cancels(request) if !is_cancelled => Stage::Waiting(request),
                    _ => Stage::Again,
                };
            }
            Outcome::Clock(time) => {
                self.absorb(*time);
                self.go_on();
            }
            Outcome::Finalized { .. } => self.has_finalized = true,
        }
        if !matches!(outcome, Outcome::Finalized { .. }) {
            self.history.push(outcome);
        }
    }

    fn flush(&mut self, op: &Op) {
        if self.owed < self.owed(op).len() { self.stage = Stage::Flush } else { self.go_on() }
    }

    fn go_on(&mut self) {
        (self.at, self.stage, self.polls, self.owed) = (self.at + 1, Stage::Begin, 0, 0);
    }
}
