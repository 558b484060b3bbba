//! What the requests of the program stand for. Their handles are requests of Open MPI's, which Fortran numbers.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;

use event_log::protocol::units::Request as Number;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::object::Object;
use openmpi_internals::own_request;
use openmpi_internals::request::{Request, Status};

use crate::comms::Comm;
use crate::data::{Buffer, Held};
use crate::operation::{Ending, Operation};
use crate::statuses::empty_status;

/// How far a request is.
#[derive(Clone)]
pub enum State {
    /// It has ended so.
    Done(Result<Status, c_int>),
    /// It is a receive that the program has not seen the end of.
    Receive(Number, Arc<Comm>),
    /// It is a collective operation.
    Operation(Ending),
    /// It is persistent, and has not been started.
    Idle,
    /// It is none, or is not the layer's.
    Foreign,
}

/// What a persistent request does when it is started.
#[derive(Clone)]
pub enum Plan {
    /// It sends or receives.
    Message(Message),
    /// It begins a collective operation.
    Operation {
        /// What makes the operation.
        recipe: Recipe,
        /// What it needs of the program's.
        _held: Vec<Arc<Held>>,
    },
}

/// What makes an operation.
pub type Recipe = Arc<dyn Fn() -> Result<Operation, c_int>>;

/// A message that a persistent request sends or receives.
#[derive(Clone)]
pub struct Message {
    /// Whether it sends; else it receives.
    pub is_send: bool,
    /// Where.
    pub comm: Arc<Comm>,
    /// What.
    pub buffer: Buffer,
    /// The other one.
    pub peer: c_int,
    /// The tag.
    pub tag: c_int,
    /// Its datatype, unless that is predefined.
    pub _datatype: Option<Arc<Held>>,
}

struct Entry {
    state: State,
    plan: Option<Plan>,
}

/// All requests of the program.
pub struct Requests {
    mpi: &'static Internals,
    entries: HashMap<usize, Entry>,
}

impl Requests {
    /// None yet.
    pub fn new(mpi: &'static Internals) -> Self {
        Self { mpi, entries: HashMap::new() }
    }

    /// The request of a send, which has ended as soon as the protocol has its message.
    pub fn sent(&self) -> *mut Request {
        self.mpi.requests.empty()
    }

    /// A new request.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` if there is no memory.
    pub fn add(&mut self, comm: Object, state: State, plan: Option<Plan>) -> Result<*mut Request, c_int> {
        let request = own_request::new(self.mpi, comm, plan.is_some()).ok_or(ERR_INTERN)?;
        self.entries.insert(request as usize, Entry { state, plan });
        Ok(request)
    }

    /// Whether the program has not seen the end of one.
    pub fn is_busy(&self) -> bool {
        self.entries.values().any(|entry| !matches!(entry.state, State::Idle))
    }

    /// How far a request is.
    pub fn state(&self, request: *mut Request) -> State {
        if request == self.mpi.requests.empty() {
            return State::Done(Ok(empty_status()));
        }
        self.entries.get(&(request as usize)).map_or(State::Foreign, |entry| entry.state.clone())
    }

    /// Whether a handle is `MPI_REQUEST_NULL`.
    pub fn is_null(&self, request: *mut Request) -> bool {
        request.is_null() || request == self.mpi.requests.null()
    }

    /// Sets how far a request is.
    pub fn set(&mut self, request: *mut Request, state: State) {
        if let Some(entry) = self.entries.get_mut(&(request as usize)) {
            entry.state = state;
        }
    }

    /// What a persistent request does.
    pub fn plan(&self, request: *mut Request) -> Option<Plan> {
        self.entries.get(&(request as usize))?.plan.clone()
    }

    /// The program has seen the end of a request: a persistent one can be started again, the handle of another one is
    /// null.
    ///
    /// # Safety
    /// The place of a handle of the layer's.
    pub unsafe fn end(&mut self, place: *mut *mut Request) {
        // SAFETY: as required of the caller.
        let request = unsafe { *place };
        if self.plan(request).is_some() {
            self.set(request, State::Idle);
        } else {
            // SAFETY: as required of the caller.
            unsafe { self.free(place) };
        }
    }

    /// Gives a handle back.
    ///
    /// # Safety
    /// As of [`end`](Self::end).
    pub unsafe fn free(&mut self, place: *mut *mut Request) {
        // SAFETY: as required of the caller. The request of sends is nobody's.
        unsafe {
            if self.entries.remove(&(*place as usize)).is_some() {
                own_request::give_back(place);
            } else {
                *place = self.mpi.requests.null();
            }
        }
    }
}
