//! A call of the program, from its start to its outcome.

use std::ffi::c_int;
use std::sync::Arc;

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Envelope as From, Pattern, Request};
use openmpi_internals::error_class::{ERR_INTERN, ERR_UNSUPPORTED};
use openmpi_internals::layout::mpi::MPI_ERR_COUNT;
use platform::say::say;
use replication::action::Input;
use replication::call::{Call, Outcome, Received};
use virtual_ranks::data::Buffer;
use virtual_ranks::protocol::Got;

use super::{Engine, OnWire, Open};
use crate::envelope::{Envelope, LENGTH};
use crate::flips::{Hit, Where, flip};
use crate::sealed::Sealed;

/// Sends after which a program that only sends looks for what has arrived.
const SENDS_PER_TURN: u32 = 16;

impl Engine {
    /// A call of the program, from its start to its outcome.
    ///
    /// # Errors
    /// `MPIX_ERR_PROC_FAILED` if all replicas of a rank are dead.
    pub fn call(&mut self, call: Call<Sealed>) -> Result<Outcome<Sealed>, c_int> {
        self.check()?;
        self.returned = None;
        if matches!(call, Call::Send { .. }) {
            self.sends += 1;
            if self.sends == SENDS_PER_TURN {
                self.turn();
            }
        }
        self.step(Input::Call(call));
        self.run();
        loop {
            if let Some(outcome) = self.returned.take() {
                if outcome == Outcome::Nothing {
                    self.turn();
                }
                return Ok(outcome);
            }
            self.turn();
            self.check()?;
        }
    }

    /// Sends the data of a buffer to a rank.
    ///
    /// # Errors
    /// As of [`call`](Self::call); `MPI_ERR_COUNT` for a message of 2 GiB.
    ///
    /// # Safety
    /// A buffer of the program or of an operation.
    pub unsafe fn send(&mut self, to: Rank, channel: Channel, buffer: Buffer) -> Result<(), c_int> {
        let hit = self.flips.count();
        if let Some(hit) = hit.filter(|hit| hit.place == Where::Memory) {
            // SAFETY: as required of the caller.
            unsafe {
                let mut data = self.data.read(buffer)?;
                let bit = flip(&mut data, hit.bit);
                self.say_flip(hit, bit, "the program's buffer", (to, self.numbers[to as usize] + 1));
                self.data.write(&data, buffer)?;
            }
        }
        let number = self.numbers[to as usize] + 1;
        let header = Envelope::data(channel, number).bytes();
        // SAFETY: as required of the caller.
        let mut payload = unsafe { self.data.seal(buffer, &header)? };
        // What Open MPI counts with an `int`.
        if payload.len() > c_int::MAX as usize {
            return Err(MPI_ERR_COUNT);
        }
        self.numbers[to as usize] = number;
        match hit {
            Some(hit) if hit.place == Where::Buffer => {
                if let Some(bytes) = Arc::get_mut(&mut payload) {
                    let bit = flip(&mut bytes[LENGTH..], hit.bit);
                    self.say_flip(hit, bit, "what it sends", (to, number));
                }
            }
            Some(Hit { call, bit, place: Where::Wire }) => self.on_wire = Some(OnWire { to, number, bit, call }),
            _ => {}
        }
        self.call(Call::Send { to, channel, payload: Sealed::Sent(payload) }).map(|_| ())
    }

    /// Says that a bit was flipped, if there was one, and in which message to which rank.
    pub(super) fn say_flip(&self, hit: Hit, bit: Option<u64>, place: &str, (to, number): (Rank, u64)) {
        if let Some(bit) = bit {
            let (rank, index, call) = (self.me.rank, self.me.index, hit.call);
            say(&format!(
                "ringwatch: bit {bit} of send {call} of rank {rank}, replica {index}, is flipped in {place}: message {number} to rank {to}"
            ));
        }
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub fn receive(&mut self, pattern: Pattern, buffer: Option<Buffer>) -> Result<Request, c_int> {
        let Outcome::Posted(request) = self.call(Call::Receive { pattern })? else { return Err(ERR_INTERN) };
        if let Some(buffer) = buffer {
            let datatype = self.data.hold(buffer.datatype);
            self.open.insert(request, Open { buffer, _datatype: datatype });
        }
        Ok(request)
    }

    /// The message of a receive goes to its buffer.
    pub fn put(&mut self, received: &Received<Sealed>) -> Got {
        let Received { request, envelope, payload } = received;
        let bytes = match self.open.remove(request) {
            // SAFETY: the program leaves the buffer to MPI until the receive has ended.
            Some(open) => unsafe { self.data.write(payload.data(), open.buffer) },
            None => Err(ERR_INTERN),
        };
        Got { from: *envelope, bytes }
    }

    /// What a probe finds.
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub fn probe(&mut self, pattern: Pattern, waits: bool) -> Result<Option<(From, usize)>, c_int> {
        match self.call(if waits { Call::Probe { pattern } } else { Call::Iprobe { pattern } })? {
            Outcome::Found { envelope, length } => Ok(Some((envelope, length as usize))),
            Outcome::Nothing => Ok(None),
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

    /// The clock of the replica that decides.
    pub fn clock(&mut self, own: u64) -> u64 {
        if self.has_left() {
            return own;
        }
        match self.call(Call::Clock { own }) {
            Ok(Outcome::Clock(shown)) => shown,
            _ => own,
        }
    }

    /// A call that has no protocol between replicas.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION`, always.
    pub fn refuse(&self, what: &str) -> Result<(), c_int> {
        say(&format!("ringwatch: replication does not cover {what}: it fails with MPI_ERR_UNSUPPORTED_OPERATION"));
        Err(ERR_UNSUPPORTED)
    }
}
