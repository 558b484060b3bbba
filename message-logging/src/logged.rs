//! Message logging behind the functions of MPI.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock};

use event_log::determinant::Rank;
use event_log::protocol::call::{Call, Outcome};
use event_log::protocol::units::{Channel, Envelope, Pattern, Request};
use openmpi_internals::error_class::ERR_INTERN;
use virtual_ranks::data::{Buffer, Data};
use virtual_ranks::protocol::{Got, Protocol};

use crate::engine::Engine;
use crate::output;
use crate::saved::Checkpoints;

/// A rank under message logging.
pub struct Logged {
    /// What does the work.
    pub engine: Engine,
    /// Checkpoints, where the job has a folder for them.
    pub checkpoints: Option<Checkpoints>,
}

static LOGGED: OnceLock<Arc<Mutex<Logged>>> = OnceLock::new();

/// Makes that what this process is.
pub fn set(logged: Logged) -> Arc<Mutex<Logged>> {
    LOGGED.get_or_init(|| Arc::new(Mutex::new(logged))).clone()
}

/// What this process is, once it is a rank.
pub fn present() -> Option<&'static Mutex<Logged>> {
    LOGGED.get().map(Arc::as_ref)
}

impl Logged {
    /// The receive that an outcome shows.
    fn ended(&mut self, outcome: Outcome) -> Result<Option<(Request, Got)>, c_int> {
        match outcome {
            Outcome::Received { request, envelope } => Ok(Some((request, self.engine.got(request, envelope)))),
            Outcome::Nothing => Ok(None),
            _ => Err(ERR_INTERN),
        }
    }
}

impl Protocol for Logged {
    fn data(&mut self) -> &mut Data {
        &mut self.engine.data
    }

    unsafe fn send(&mut self, to: &[Rank], channel: Channel, buffer: Buffer) -> Result<(), c_int> {
        // SAFETY: as required of the caller.
        let payload = unsafe { self.engine.seal(channel, buffer)? };
        for to in to {
            self.engine.call(Call::Send { to: *to, channel, payload: payload.clone() })?;
        }
        Ok(())
    }

    fn receive(&mut self, pattern: Pattern, buffer: Buffer) -> Result<Request, c_int> {
        self.engine.receive(pattern, Some(buffer))
    }

    fn take(&mut self, pattern: Pattern) -> Result<Vec<u8>, c_int> {
        let request = self.engine.receive(pattern, None)?;
        self.engine.call(Call::Wait { request })?;
        Ok(self.engine.take_kept(request))
    }

    fn end_one(&mut self, requests: Vec<Request>, waits: bool) -> Result<Option<(Request, Got)>, c_int> {
        let call = if waits { Call::WaitAny { requests } } else { Call::Test { requests } };
        let outcome = self.engine.call(call)?;
        self.ended(outcome)
    }

    fn end_all(&mut self, requests: Vec<Request>) -> Result<Option<Vec<Got>>, c_int> {
        match self.engine.call(Call::TestAll { requests })? {
            Outcome::ReceivedAll(received) => {
                Ok(Some(received.into_iter().map(|(request, from)| self.engine.got(request, from)).collect()))
            }
            _ => Ok(None),
        }
    }

    fn probe(&mut self, pattern: Pattern, waits: bool) -> Result<Option<(Envelope, usize)>, c_int> {
        match self.engine.call(if waits { Call::Probe { pattern } } else { Call::Iprobe { pattern } })? {
            Outcome::Found(from) => Ok(Some((from, self.engine.found()))),
            Outcome::Nothing => Ok(None),
            _ => Err(ERR_INTERN),
        }
    }

    fn cancel(&mut self, request: Request) -> Result<bool, c_int> {
        self.engine.cancel(request)
    }

    /// It goes on.
    fn let_go(&mut self, _request: Request) -> Result<(), c_int> {
        Ok(())
    }

    fn clock(&mut self, now: u64) -> u64 {
        self.engine.clock(now)
    }

    fn end_output(&mut self) {
        output::end();
    }

    fn before_abort(&mut self) {}

    fn leave(&mut self) {
        self.engine.leave();
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.leave();
        }
    }
}
