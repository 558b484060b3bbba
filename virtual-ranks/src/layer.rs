//! The layer of this process, and what its entries have in common.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use event_log::protocol::units::{Channel, Pattern, Request};
use openmpi_internals::error_class::{ERR_COMM, ERR_INTERN};
use openmpi_internals::layout::mpi::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_COUNT, MPI_ERR_RANK, MPI_ERR_TAG, MPI_ERR_TYPE, MPI_PROC_NULL,
};
use openmpi_internals::object::Object;
use openmpi_internals::request::Status;
use openmpi_internals::sync::lock;

use crate::comms::{Comm, Comms};
use crate::data::Buffer;
use crate::operation::Operations;
use crate::processor_names::Name;
use crate::protocol::{Got, Protocol};
use crate::requests::Requests;
use crate::stock::Stock;

/// The layer.
pub struct Layer {
    /// Open MPI's functions.
    pub stock: &'static Stock,
    /// `MPI_COMM_WORLD`
    pub world: Object,
    /// A communicator of this process alone whose errors return.
    pub own: Object,
    /// The group of the program's ranks, as the job has begun with them.
    pub base: Object,
    /// `MPI_COMM_NULL`
    pub null: Object,
    /// `MPI_BYTE`
    pub byte: Object,
    /// `MPI_DATATYPE_NULL`
    pub null_type: Object,
    /// The rank of this process in the program.
    pub rank: u32,
    /// The names of the nodes of the ranks' first processes.
    pub nodes: Vec<Name>,
    /// What stands behind the functions of MPI.
    pub protocol: Arc<Mutex<dyn Protocol>>,
    /// What that is called, for people.
    pub name: &'static str,
    /// Communicators.
    pub comms: Mutex<Comms>,
    /// Requests.
    pub requests: Mutex<Requests>,
    /// Collective operations under way.
    pub operations: Mutex<Operations>,
}

// SAFETY: handles of MPI that live as long as MPI does.
unsafe impl Send for Layer {}
// SAFETY: as above.
unsafe impl Sync for Layer {}

static LAYER: OnceLock<Layer> = OnceLock::new();

/// Makes the layer that of this process.
pub fn set(layer: Layer) {
    let _ = LAYER.set(layer);
}

/// The layer of this process, once it has one.
pub fn present() -> Option<&'static Layer> {
    LAYER.get()
}

/// What a function of MPI returns. An error is raised on the communicator.
pub fn answer(comm: Object, body: impl FnOnce(&'static Layer) -> Result<(), c_int>) -> c_int {
    let Some(layer) = LAYER.get() else { return ERR_INTERN };
    let result = catch_unwind(AssertUnwindSafe(|| body(layer))).unwrap_or(Err(ERR_INTERN));
    result.err().map_or(0, |code| layer.raise(comm, code))
}

/// The same where there is no communicator.
pub fn answer_plainly(body: impl FnOnce(&'static Layer) -> Result<(), c_int>) -> c_int {
    LAYER.get().map_or(ERR_INTERN, |layer| answer(layer.world, body))
}

impl Layer {
    /// Calls the error handler of a communicator, or that of the first one where it is none.
    fn raise(&self, comm: Object, code: c_int) -> c_int {
        let comm = if lock(&self.comms).get(comm).is_some() { comm } else { self.world };
        // SAFETY: a communicator that lives.
        unsafe { (self.stock.comm_call_errhandler)(comm, code) };
        code
    }

    /// The communicator of a handle.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`
    pub fn comm(&self, handle: Object) -> Result<Arc<Comm>, c_int> {
        lock(&self.comms).get(handle).ok_or(ERR_COMM)
    }

    /// Looks at the arguments of a buffer.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` or `MPI_ERR_TYPE`
    pub fn check(&self, buffer: Buffer) -> Result<Buffer, c_int> {
        if buffer.count < 0 {
            Err(MPI_ERR_COUNT)
        } else if buffer.datatype.is_null() || buffer.datatype == self.null_type {
            Err(MPI_ERR_TYPE)
        } else {
            Ok(buffer)
        }
    }

    /// Sends data of the program.
    ///
    /// # Errors
    /// The error class.
    pub fn send(&self, comm: &Comm, buffer: Buffer, dest: c_int, tag: c_int) -> Result<(), c_int> {
        self.check(buffer)?;
        if dest == MPI_PROC_NULL {
            return Ok(());
        }
        let to = comm.member(dest).ok_or(MPI_ERR_RANK)?;
        if tag < 0 {
            return Err(MPI_ERR_TAG);
        }
        let channel = Channel { communicator: comm.number, tag };
        // SAFETY: a buffer of the program.
        unsafe { lock(&self.protocol).send(&[to], channel, buffer) }
    }

    /// What a receive or a probe asks for; `None` where nobody sends.
    ///
    /// # Errors
    /// The error class.
    pub fn pattern(&self, comm: &Comm, source: c_int, tag: c_int) -> Result<Option<Pattern>, c_int> {
        if source == MPI_PROC_NULL {
            return Ok(None);
        }
        let from = if source == MPI_ANY_SOURCE { None } else { Some(comm.member(source).ok_or(MPI_ERR_RANK)?) };
        if tag < 0 && tag != MPI_ANY_TAG {
            return Err(MPI_ERR_TAG);
        }
        let tag = (tag != MPI_ANY_TAG).then_some(tag);
        Ok(Some(Pattern { communicator: comm.number, source: from, tag }))
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// The error class.
    pub fn receive(&self, pattern: Pattern, buffer: Buffer) -> Result<Request, c_int> {
        self.check(buffer)?;
        lock(&self.protocol).receive(pattern, buffer)
    }
}

/// The status of a receive.
///
/// # Errors
/// The error class of the receive.
pub fn status(comm: &Comm, got: Got) -> Result<Status, c_int> {
    let source = comm.place_of(got.from.source).map_or(MPI_ANY_SOURCE, |place| place as c_int);
    got.bytes.map(|bytes| Status::of(source, got.from.channel.tag, bytes))
}
