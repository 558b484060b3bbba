//! Checkpoints of this rank: what the machine asks for, and the way of a replacement from one.
//!
//! The last two checkpoints can be started from: what peers and event loggers may drop is what the one before the last
//! has.

use std::ffi::c_int;

use event_log::determinant::Rank;
use event_log::logger::round::Position;
use event_log::protocol::action::{Action, Input};
use event_log::protocol::call::{Call, Outcome};
use event_log::protocol::checkpoint::Checkpoint;
use event_log::protocol::process::Process;
use event_log::protocol::units::{Channel, Payload, Request};
use openmpi_internals::error_class::{ERR_INTERN, ERR_OTHER, ERR_PROC_FAILED};
use openmpi_internals::sync::lock;
use platform::say::say;

use super::Engine;
use crate::envelope::Kind;
use crate::matching::Message;
use crate::set_up::{self, SetUp};
use crate::store::Restored;
use virtual_ranks::packet::Packet;

/// What a checkpoint keeps of the engine.
#[derive(Debug)]
pub struct Saving {
    /// The machine's number of it.
    pub number: u64,
    /// The machine.
    pub machine: Vec<u8>,
    /// The calls before the restore point.
    pub set_up: Payload,
}

/// Why there is no checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSaved {
    /// It is not the time for one: another one will do.
    NotNow,
    /// The program has receives that have not ended.
    OpenReceives,
    /// There is no record of what was before the restore point.
    NoSetUp,
    /// An error class.
    Failed(c_int),
}

impl Engine {
    /// The machine of a replacement.
    pub(super) fn start_from(&mut self, rank: Rank, restored: Option<(Restored, Checkpoint)>) {
        let (restored, machine) = restored.unzip();
        // A file is of this rank, and without a checkpoint nothing can be wrong with it.
        self.machine = Process::recover(self.config(rank), machine, &mut Vec::new()).ok();
        let Some(restored) = restored else { return };
        let part = &restored.part;
        (self.printed, self.trims) = (part.printed, Some(part.position.id));
        self.resent.start_from(restored.whole.head.version);
        match SetUp::repeat(part.set_up.clone()) {
            Some(set_up) => self.set_up = set_up,
            None => self.fail("the checkpoint has no record of what was before the restore point"),
        }
        self.restored = Some(Box::new(restored));
    }

    /// Tells a replacement how many messages it gets again from this rank, before they leave.
    pub(super) fn tell_resent(&mut self, rank: Rank) {
        if self.world.place(rank).process < self.world.ranks() {
            return;
        }
        let is_for_it = |action: &&Action| matches!(action, Action::Transmit { to, .. } if *to == rank);
        let count = self.queue.iter().filter(is_for_it).count() as u64;
        let envelope = self.envelope(Kind::Resent, Channel { communicator: 0, tag: 0 });
        self.send_to(rank, Packet::Own(envelope.encode(&count.to_le_bytes())));
    }

    /// A peer has told so. When all have, it is said.
    pub(super) fn hear_resent(&mut self, bytes: &[u8]) {
        let count = bytes.try_into().map_or(0, u64::from_le_bytes);
        if let Some(line) = self.resent.hear(count, self.rank.unwrap_or(0), self.world.ranks()) {
            say(&line);
        }
    }

    /// The last stable determinant.
    pub fn position(&self) -> Position {
        lock(&self.logger).position()
    }

    /// Answers a call from the record of the life before.
    pub(super) fn repeat(&mut self, print: u64) -> Result<Outcome, c_int> {
        let buffer = self.starting.take();
        self.turn();
        self.check()?;
        let Some(step) = self.set_up.next(print) else {
            self.fail("the program does something else before its restore point than before its death");
            return Err(ERR_PROC_FAILED);
        };
        if let Outcome::Posted(request) = step.outcome {
            self.opened(request, buffer.flatten());
        }
        for (request, data) in set_up::shown(&step.outcome).into_iter().zip(&step.messages) {
            self.fill(request, data);
        }
        self.found = step.found as usize;
        Ok(step.outcome)
    }

    /// A receive has got its message, from its peer.
    pub(super) fn hear(&mut self, request: Request, message: &Message) {
        self.set_up.hear(request, message);
        self.fill(request, message.data());
    }

    /// Whether a receive has started that the program has not seen the end of.
    pub fn has_open_receives(&self) -> bool {
        !self.open.is_empty()
    }

    /// The program has come to its restore point. Returns the checkpoint from which this rank has started, if there is
    /// one.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if it has come there before; `MPIX_ERR_PROC_FAILED` if it does something else than in the life before.
    pub fn end_set_up(&mut self) -> Result<Option<Box<Restored>>, c_int> {
        if matches!(self.set_up, SetUp::Over(_)) {
            return Err(ERR_OTHER);
        }
        if self.has_open_receives() {
            self.set_up = SetUp::Without;
        }
        if !self.set_up.end() {
            self.fail("the program comes to its restore point earlier than before its death");
            return Err(ERR_PROC_FAILED);
        }
        Ok(self.restored.take())
    }

    /// Begins a checkpoint: waits until all determinants are stable.
    ///
    /// # Errors
    /// Why there is none.
    pub fn begin_checkpoint(&mut self) -> Result<Saving, NotSaved> {
        let SetUp::Over(set_up) = &self.set_up else { return Err(NotSaved::NoSetUp) };
        let set_up = set_up.clone();
        if self.has_open_receives() {
            return Err(NotSaved::OpenReceives);
        }
        // Nobody would start from it.
        if self.is_unprotected {
            return Err(NotSaved::NotNow);
        }
        match self.carry_out(Call::Checkpoint).map_err(NotSaved::Failed)? {
            Outcome::CheckpointRefused(_) => Err(NotSaved::NotNow),
            Outcome::CheckpointTaken(_) => {
                let (number, machine) = self.taken.take().ok_or(NotSaved::Failed(ERR_INTERN))?;
                Ok(Saving { number, machine, set_up })
            }
            _ => Err(NotSaved::Failed(ERR_INTERN)),
        }
    }

    /// A checkpoint has been written, or has not. What the one before it has is garbage now.
    pub fn end_checkpoint(&mut self, number: u64, is_written: bool) {
        if !is_written {
            self.step(Input::NotStored { checkpoint: number });
            return self.run();
        }
        // The machine still has the one before as its last.
        self.step(Input::Call(Call::CollectGarbage));
        self.run();
        self.returned = None;
        self.step(Input::Durable { checkpoint: number });
        self.run();
    }

    /// The event loggers may drop what a checkpoint has: done when the next one is there.
    pub(super) fn trim(&mut self, up_to: u64) {
        if let Some(before) = self.trims.replace(up_to).filter(|before| *before > 0) {
            lock(&self.logger).trim(before);
        }
    }
}
