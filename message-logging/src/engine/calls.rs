//! A call of the program, from its start to its outcome.

use std::ffi::c_int;

use event_log::protocol::action::Input;
use event_log::protocol::call::{Call, Outcome};
use event_log::protocol::units::{Channel, Envelope as From, Pattern, Payload, Request};
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::layout::mpi::MPI_ERR_COUNT;

use super::Engine;
use crate::envelope::Kind;
use crate::set_up::{self, SetUp};
use virtual_ranks::data::Buffer;
use virtual_ranks::protocol::Got;

/// Sends after which a program that only sends looks for what has arrived.
const SENDS_PER_TURN: u32 = 16;

impl Engine {
    /// A call of the program, from its start to its outcome.
    ///
    /// # Errors
    /// `MPIX_ERR_PROC_FAILED` if a rank is dead that nobody replaces; `MPI_ERR_COUNT` for a message of 2 GiB.
    pub fn call(&mut self, call: Call) -> Result<Outcome, c_int> {
        match self.set_up {
            SetUp::Over(_) | SetUp::Without => self.carry_out(call),
            SetUp::Repeating(..) => self.repeat(set_up::print(&call)),
            SetUp::Recording(_) => {
                let print = set_up::print(&call);
                let outcome = self.carry_out(call)?;
                self.set_up.note(print, &outcome, self.found);
                Ok(outcome)
            }
        }
    }

    pub(super) fn carry_out(&mut self, call: Call) -> Result<Outcome, c_int> {
        let is_send = match &call {
            // What Open MPI counts with an `int`.
            Call::Send { payload, .. } if payload.len() > c_int::MAX as usize => {
                return Err(MPI_ERR_COUNT);
            }
            Call::Send { .. } => true,
            _ => false,
        };
        self.begin(call)?;
        if is_send {
            self.sends += 1;
            if self.sends == SENDS_PER_TURN {
                self.turn();
            }
        }
        loop {
            if let Some(outcome) = self.returned.take() {
                if outcome == Outcome::Nothing {
                    self.turn();
                }
                self.flush_early();
                return Ok(outcome);
            }
            self.flush();
            if is_send {
                // It waits for the event logger, and most often for nothing else.
                self.rest();
            } else {
                self.turn();
            }
            self.check()?;
        }
    }

    /// A message of the program as the sender log keeps it.
    ///
    /// # Errors
    /// The error class of MPI.
    ///
    /// # Safety
    /// A buffer of the program.
    pub unsafe fn seal(&mut self, channel: Channel, buffer: Buffer) -> Result<Payload, c_int> {
        let envelope = self.envelope(Kind::Data, channel);
        // SAFETY: as required of the caller.
        unsafe { self.data.seal(buffer, &envelope.bytes()) }
    }

    fn begin(&mut self, call: Call) -> Result<(), c_int> {
        self.check()?;
        self.returned = None;
        self.step(Input::Call(call));
        self.run();
        Ok(())
    }

    /// Starts a receive. Without a buffer its message is kept for [`take_kept`](Self::take_kept).
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub fn receive(&mut self, pattern: Pattern, buffer: Option<Buffer>) -> Result<Request, c_int> {
        self.starting = Some(buffer);
        match self.call(Call::Receive { pattern })? {
            Outcome::Posted(request) => Ok(request),
            _ => Err(ERR_INTERN),
        }
    }

    /// Cancels a receive. Returns whether it had no message.
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub fn cancel(&mut self, request: Request) -> Result<bool, c_int> {
        let is_cancelled = self.call(Call::Cancel { request })? == Outcome::Cancelled(true);
        if is_cancelled {
            self.open.remove(&request);
        }
        Ok(is_cancelled)
    }

    /// What a clock shows that shows this now: in a replay, what it has shown.
    pub fn clock(&mut self, now: u64) -> u64 {
        if self.is_over {
            return now;
        }
        match self.call(Call::Clock { now }) {
            Ok(Outcome::Clock(shown)) => shown,
            _ => now,
        }
    }

    /// What a receive has got that the machine has shown: asked once.
    pub fn got(&mut self, request: Request, from: From) -> Got {
        let bytes = self.open.remove(&request).map_or(Err(ERR_INTERN), |open| open.got);
        Got { from, bytes }
    }

    /// The message of a receive without a buffer that the machine has shown: asked once.
    pub fn take_kept(&mut self, request: Request) -> Vec<u8> {
        self.open.remove(&request).map_or(Vec::new(), |open| open.kept)
    }

    /// Bytes of the message that the last probe has found.
    pub fn found(&self) -> usize {
        self.found
    }
}
