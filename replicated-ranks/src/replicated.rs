//! Replication behind the functions of MPI.

use std::ffi::c_int;

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Envelope, Pattern, Request};
use openmpi_internals::error_class::ERR_INTERN;
use replication::call::{Call, Outcome};
use virtual_ranks::data::{Buffer, Data};
use virtual_ranks::protocol::{Got, Protocol};

use crate::engine::Engine;

/// A replica of a rank.
pub struct Replicated {
    /// What does the work.
    pub engine: Engine,
}

impl Protocol for Replicated {
    fn data(&mut self) -> &mut Data {
        &mut self.engine.data
    }

    unsafe fn send(&mut self, to: &[Rank], channel: Channel, buffer: Buffer) -> Result<(), c_int> {
        // SAFETY: as required of the caller.
        to.iter().try_for_each(|to| unsafe { self.engine.send(*to, channel, buffer) })
    }

    fn receive(&mut self, pattern: Pattern, buffer: Buffer) -> Result<Request, c_int> {
        self.engine.receive(pattern, Some(buffer))
    }

    fn take(&mut self, pattern: Pattern) -> Result<Vec<u8>, c_int> {
        let request = self.engine.receive(pattern, None)?;
        let Outcome::Received(received) = self.engine.call(Call::Wait { request })? else { return Err(ERR_INTERN) };
        received.first().map(|received| received.payload.data().to_vec()).ok_or(ERR_INTERN)
    }

    fn end_one(&mut self, requests: Vec<Request>, waits: bool) -> Result<Option<(Request, Got)>, c_int> {
        let call = if waits { Call::WaitAny { requests } } else { Call::Test { requests } };
        match self.engine.call(call)? {
            Outcome::Received(received) => {
                let received = received.first().ok_or(ERR_INTERN)?;
                Ok(Some((received.request, self.engine.put(received))))
            }
            Outcome::Nothing => Ok(None),
            _ => Err(ERR_INTERN),
        }
    }

    fn end_all(&mut self, requests: Vec<Request>) -> Result<Option<Vec<Got>>, c_int> {
        match self.engine.call(Call::TestAll { requests })? {
            Outcome::Received(received) => Ok(Some(received.iter().map(|one| self.engine.put(one)).collect())),
            Outcome::Nothing => Ok(None),
            _ => Err(ERR_INTERN),
        }
    }

    fn probe(&mut self, pattern: Pattern, waits: bool) -> Result<Option<(Envelope, usize)>, c_int> {
        self.engine.probe(pattern, waits)
    }

    fn cancel(&mut self, request: Request) -> Result<bool, c_int> {
        self.engine.cancel(request)
    }

    fn let_go(&mut self, _request: Request) -> Result<(), c_int> {
        self.engine.refuse("MPI_Request_free of a receive that has not ended")
    }

    fn clock(&mut self, now: u64) -> u64 {
        self.engine.clock(now)
    }

    fn end_output(&mut self) {
        self.engine.end_output();
    }

    fn before_abort(&mut self) {
        self.engine.before_abort();
    }

    fn leave(&mut self) {
        self.engine.leave();
    }
}
