//! Provides the program's view of a running operation: a generalized request of MPI, and a variable for the new
//! communicator.
//!
//! All functions that test, wait or free support generalized requests, in every language. The program's variable is
//! written once, when the operation has completed, so it need not hold a value that Open MPI expects. The operation
//! continues if its request is freed early.
//!
//! In Open MPI errors of generalized requests are errors of `MPI_COMM_WORLD` (`ompi_errhandler_request_invoke`). So a
//! failed request becomes a request of a collective operation when it is tested or waited for: the error handler of the
//! program's communicator is called.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use openmpi_internals::classes::Classes;
use openmpi_internals::layout::request::{OMPI_REQUEST_COLL, OMPI_REQUEST_GEN, REQ_MPI_OBJECT, REQ_TYPE};
use openmpi_internals::sync::lock;

use crate::internals::Internals;
use crate::openmpi::{Handle, OpenMpi};

/// The program's variable for the new communicator.
#[derive(Clone, Copy)]
pub enum Target {
    C(*mut Handle),
    Fortran(*mut c_int),
}

impl Target {
    /// # Safety
    /// The program's variable still exists.
    unsafe fn write(self, mpi: &OpenMpi, comm: Handle) {
        // SAFETY: as required of the caller; a communicator, or MPI_COMM_NULL.
        unsafe {
            match self {
                Self::C(variable) => variable.write(comm),
                Self::Fortran(variable) => variable.write((mpi.comm_to_fortran)(comm)),
            }
        }
    }
}

/// The request of an unfinished operation.
pub struct OperationRequest {
    handle: Handle,
    /// The state of the request, which owns it.
    state: *const State,
    target: Target,
}

/// The argument of a generalized request's callbacks.
struct State {
    code: AtomicI32,
    request: Handle,
    /// The program's communicator, held until the request is freed; null if requests differ from Open MPI 5.0's.
    comm: Handle,
}

// SAFETY: MPI's handles belong to the process, and the other pointers to the operation.
unsafe impl Send for OperationRequest {}

impl OperationRequest {
    /// A new request, or an error code of MPI.
    ///
    /// # Safety
    /// A live communicator, and a variable that stays valid until the request has completed.
    pub unsafe fn new(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Self, c_int> {
        let internals = Internals::get();
        for comm in internals.map_or_else(Vec::new, |_| std::mem::take(&mut *lock(&RELEASABLE))) {
            // SAFETY: the state of its request has held it until now.
            internals.into_iter().for_each(|internals| unsafe { internals.release(comm as Handle) });
        }
        let empty = State { code: AtomicI32::new(0), request: std::ptr::null_mut(), comm: std::ptr::null_mut() };
        let (mut request, state) = (std::ptr::null_mut(), Box::into_raw(Box::new(empty)));
        // SAFETY: functions of the types that MPI requires; the last one frees the state.
        let status = unsafe { (mpi.request_start)(query, free, cancel, state.cast(), &mut request) };
        if status != 0 {
            // SAFETY: made above, without another owner.
            drop(unsafe { Box::from_raw(state) });
            return Err(status);
        }
        let world = internals.map_or(std::ptr::null_mut(), |internals| internals.comm_world);
        // SAFETY: as required of the caller; no other code has the request and its state yet. The words that are read
        // exist in any version.
        unsafe {
            let fits = request.byte_add(REQ_TYPE).cast::<c_int>().read() == OMPI_REQUEST_GEN
                && request.byte_add(REQ_MPI_OBJECT).cast::<Handle>().read() == world;
            (*state).request = request;
            if fits {
                Classes::hold(comm);
                (*state).comm = comm;
            }
            target.write(mpi, mpi.comm_null());
        }
        Ok(Self { handle: request, state, target })
    }

    /// The request, for the program.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Frees the request of an operation that has not begun.
    pub fn discard(mut self, mpi: &OpenMpi) {
        // SAFETY: the program does not have the request.
        unsafe {
            (mpi.request_complete)(self.handle);
            (mpi.request_free)(&mut self.handle);
        }
    }

    /// Completes the request of an operation that has ended, with a communicator or an error code.
    pub fn complete(self, mpi: &OpenMpi, result: Result<Handle, c_int>) {
        let (newcomm, code) = result.map_or_else(|code| (mpi.comm_null(), code), |newcomm| (newcomm, 0));
        // SAFETY: the program's variable and the state stay valid until the request has completed, which is the last
        // step here.
        unsafe {
            self.target.write(mpi, newcomm);
            (*self.state).code.store(code, Ordering::Relaxed);
            (mpi.request_complete)(self.handle);
        }
    }
}

/// The query function, which MPI calls when a completed request is tested or waited for.
unsafe extern "C" fn query(state: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the live state of the request. Its status stays empty, as required.
    let state = unsafe { &*state.cast::<State>() };
    let code = state.code.load(Ordering::Relaxed);
    // SAFETY: the request lives as long as its state, and the communicator longer.
    unsafe {
        if code != 0 && !state.comm.is_null() {
            state.request.byte_add(REQ_MPI_OBJECT).cast::<Handle>().write(state.comm);
            state.request.byte_add(REQ_TYPE).cast::<c_int>().write(OMPI_REQUEST_COLL);
        }
    }
    code
}

/// The free function.
unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: the state of the request, used for the last time.
    let state = unsafe { Box::from_raw(state.cast::<State>()) };
    if !state.comm.is_null() {
        lock(&RELEASABLE).push(state.comm as usize);
    }
    0
}

/// Communicators of freed requests. Open MPI frees a request before it calls the error handler. So they are released
/// only when the next request is made.
static RELEASABLE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The cancel function. Collective operations cannot be cancelled: the call has no effect.
unsafe extern "C" fn cancel(_state: *mut c_void, _complete: c_int) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openmpi::ERR_PROC_FAILED;
    use openmpi_internals::layout::request::SIZE;

    const COMM: Handle = std::ptr::without_provenance_mut(64);
    const WORLD: Handle = std::ptr::without_provenance_mut(128);

    /// Queries a generalized request whose operation has ended with this code. Returns the query function's result, the
    /// request's type and the communicator whose error handler will be called.
    fn queried(code: c_int, comm: Handle) -> (c_int, c_int, Handle) {
        let mut memory = [0_u64; SIZE.div_ceil(8)];
        let request: Handle = memory.as_mut_ptr().cast();
        let state = State { code: AtomicI32::new(code), request, comm };
        // SAFETY: all offsets are within the memory, and a state is what the function expects.
        unsafe {
            request.byte_add(REQ_TYPE).cast::<c_int>().write(OMPI_REQUEST_GEN);
            request.byte_add(REQ_MPI_OBJECT).cast::<Handle>().write(WORLD);
            let returned = query((&raw const state).cast_mut().cast(), std::ptr::null_mut());
            let request_type = request.byte_add(REQ_TYPE).cast::<c_int>().read();
            (returned, request_type, request.byte_add(REQ_MPI_OBJECT).cast::<Handle>().read())
        }
    }

    #[test]
    fn the_error_handler_of_the_programs_communicator_hears_of_an_error() {
        assert_eq!(queried(ERR_PROC_FAILED, COMM), (ERR_PROC_FAILED, OMPI_REQUEST_COLL, COMM));
    }

    #[test]
    fn a_request_that_has_succeeded_or_is_not_as_in_this_release_is_left_as_it_is() {
        assert_eq!(queried(0, COMM), (0, OMPI_REQUEST_GEN, WORLD));
        assert_eq!(queried(ERR_PROC_FAILED, std::ptr::null_mut()), (ERR_PROC_FAILED, OMPI_REQUEST_GEN, WORLD));
    }

    #[test]
    fn a_communicator_outlives_its_request_until_the_next_one_is_made() {
        let state = State { code: AtomicI32::new(0), request: std::ptr::null_mut(), comm: COMM };
        // SAFETY: a state in a box, used for the last time.
        assert_eq!(unsafe { free(Box::into_raw(Box::new(state)).cast()) }, 0);
        assert_eq!(*lock(&RELEASABLE), [COMM as usize]);
    }
}
