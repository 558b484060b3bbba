//! Which input goes where.

use std::mem;

use super::super::action::{Action, Input};
use super::super::call::{Call, Outcome};
use super::super::collective_log::Share;
use super::super::error::Error;
use super::super::message::Message;
use super::super::sender_log::{Policy, Room};
use super::super::variant::Variant;
use super::state::{Operation, Pending, Process, Stage};
use crate::determinant::Rank;

impl<V: Variant> Process<V> {
    /// Takes an input and appends what is to be done about it.
    ///
    /// # Errors
    /// The rank cannot go on, and the machine is of no further use.
    pub fn step(&mut self, input: Input, out: &mut Vec<Action>) -> Result<(), Error> {
        if self.pending == Pending::Capture && !matches!(input, Input::Captured { .. }) {
            return Err(Error::OutOfTurn { what: "an input that is not the program's state" });
        }
        match input {
            Input::Call(call) => self.call(call, out)?,
            Input::Completed { request, envelope } => self.completed(request, envelope, out)?,
            Input::Seen(envelope) => self.seen(envelope, out)?,
            Input::Withdrawn(is_done) => self.withdrawn(is_done, out)?,
            Input::CollectiveDone { result } => self.collective_done(result, out)?,
            Input::Peer { from, message } => self.heard(from, message, out)?,
            Input::Stable { up_to } => self.outstanding.acknowledge(up_to),
            Input::Fetched(determinants) => self.fetched(determinants, out)?,
            Input::Captured { state } => self.captured(state, out)?,
            Input::Durable { checkpoint } => self.durable(checkpoint, out),
            Input::NotStored { checkpoint } => self.not_stored(checkpoint),
            Input::StopWaitingForRoom => self.config.limit.policy = Policy::EndProtection,
            Input::Repaired => self.repaired(out)?,
        }
        self.advance(out)
    }

    fn call(&mut self, call: Call, out: &mut Vec<Action>) -> Result<(), Error> {
        if self.pending != Pending::Nothing || self.is_fetching {
            return Err(Error::OutOfTurn { what: "a call" });
        }
        match call {
            Call::AddCommunicator { communicator, members } => {
                self.collectives.add_communicator(communicator, members);
                self.finish(Outcome::Done, out);
            }
            Call::Send { to, channel, payload } => {
                self.known_rank(to)?;
                self.leave(out)?;
                self.pending = Pending::Send { to, channel, payload, number: None };
            }
            Call::Receive { pattern } => self.receive(pattern, out),
            Call::Wait { request } => {
                self.known(&[request])?;
                self.pending = Pending::Wait { request };
            }
            Call::WaitAny { requests } => self.wait_any(requests)?,
            Call::Test { requests } => self.test(requests, false, out)?,
            Call::TestAll { requests } => self.test(requests, true, out)?,
            Call::Probe { pattern } => self.probe(pattern, out)?,
            Call::Iprobe { pattern } => self.iprobe(pattern, out)?,
            Call::Cancel { request } => self.cancel(request, out)?,
            Call::Clock { now } => self.clock(now, out)?,
            Call::Collective { communicator, contribution, needs, alike } => {
                if !self.collectives.knows(communicator) {
                    return Err(Error::UnknownCommunicator { communicator });
                }
                self.leave(out)?;
                let stage = Stage::Held;
                let operation = Operation { communicator, contribution, needs, alike, stage };
                self.pending = Pending::Collective(operation);
            }
            Call::Checkpoint => self.checkpoint(out),
            Call::CollectGarbage => self.collect_garbage(out),
        }
        Ok(())
    }

    fn heard(&mut self, from: Rank, message: Message, out: &mut Vec<Action>) -> Result<(), Error> {
        self.known_rank(from)?;
        match message {
            Message::Counters { received, completed } => self.counters_from(from, received, completed, out)?,
            Message::Garbage { received, completed } => {
                let before = self.log_bytes();
                self.log.collect(from, &received);
                self.collectives.collect(from, completed);
                // Where a checkpoint has made no room, another one would not either.
                if self.log_bytes() < before {
                    self.asked_at = Room::Enough;
                }
            }
            Message::PleaseCheckpoint => out.push(Action::CheckpointWanted { by: from }),
            Message::Want { communicator, sequence } => self.wanted(from, communicator, sequence, out),
            Message::Give { communicator, sequence, share } => {
                let share = match share {
                    Share::Contribution(bytes) => (bytes, false),
                    Share::Result(bytes) => (bytes, true),
                };
                self.given(from, communicator, sequence, share, out);
            }
        }
        Ok(())
    }

    /// Goes on with the program's call as far as it can.
    fn advance(&mut self, out: &mut Vec<Action>) -> Result<(), Error> {
        match mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => {}
            Pending::Held(outcome) => self.finish(outcome, out),
            Pending::Send { to, channel, payload, number } => self.advance_send(to, channel, payload, number, out),
            Pending::Wait { request } => self.advance_wait(request, out),
            Pending::WaitAny { requests } => self.advance_wait_any(requests, out),
            Pending::WaitAll { requests } => self.advance_wait_all(requests, out),
            Pending::Probe { asked, pattern, is_new, seen } => {
                self.advance_probe((asked, pattern), is_new, seen, out);
            }
            pending @ (Pending::Iprobe { .. } | Pending::Cancel { .. }) => self.pending = pending,
            Pending::Collective(operation) => self.advance_collective(operation, out),
            Pending::Checkpoint => self.advance_checkpoint(out),
            Pending::Capture => self.pending = Pending::Capture,
        }
        Ok(())
    }

    fn known_rank(&self, rank: Rank) -> Result<(), Error> {
        let ranks = self.config.ranks;
        if rank < ranks { Ok(()) } else { Err(Error::UnknownRank { rank, ranks }) }
    }
}
