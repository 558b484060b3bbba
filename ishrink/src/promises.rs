//! What a program has of an operation under way: a generalized request of MPI, and a variable for the new communicator.
//!
//! Every function that tests, waits or frees, in every language, knows generalized requests. The program's variable is
//! written once, when the operation has completed, so that it need not be what Open MPI expects, and a request that is
//! freed early goes on by itself.
//!
//! Errors of generalized requests are those of `MPI_COMM_WORLD` in Open MPI (`ompi_errhandler_request_invoke`). A failed
//! promise becomes a collective operation's request as it is looked at, so that the program's communicator hears of it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::internals::Internals;
use crate::objects;
use crate::openmpi::{Handle, OpenMpi};

/// Of `ompi_request_t`: of what kind it is, and whose error handler hears of its error.
const KIND: usize = 0x38;
const OWNER: usize = 0x98;
/// `OMPI_REQUEST_GEN` and `OMPI_REQUEST_COLL`.
const GENERALIZED: c_int = 2;
const COLLECTIVE: c_int = 4;

/// Where a program wants the new communicator.
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

/// A request that has not completed.
pub struct Promise {
    request: Handle,
    /// What it will report, which belongs to it.
    report: *const Report,
    target: Target,
}

/// What a request reports when it is looked at after it has completed.
struct Report {
    code: AtomicI32,
    request: Handle,
    /// The communicator that the program has called with, which stays until the request has gone; null if the request is
    /// not as in Open MPI 5.0.
    comm: Handle,
}

// SAFETY: MPI's handles are the process's, and what else is pointed to belongs to the operation.
unsafe impl Send for Promise {}

impl Promise {
    /// A new one, or an error code of MPI.
    ///
    /// # Safety
    /// A communicator that lives, and a variable that stays where it is until the request has completed.
    pub unsafe fn new(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Self, c_int> {
        let inside = Internals::get();
        for comm in inside.map_or_else(Vec::new, |_| std::mem::take(&mut *used())) {
            // SAFETY: its report has kept it until now.
            inside.into_iter().for_each(|inside| unsafe { objects::let_go(inside, comm as Handle) });
        }
        let nothing = Report { code: AtomicI32::new(0), request: std::ptr::null_mut(), comm: std::ptr::null_mut() };
        let (mut request, report) = (std::ptr::null_mut(), Box::into_raw(Box::new(nothing)));
        // SAFETY: functions of the types that MPI wants; the state is freed by the last of them.
        let status = unsafe { (mpi.request_start)(query, free, cancel, report.cast(), &mut request) };
        if status != 0 {
            // SAFETY: made above, and nobody has it.
            drop(unsafe { Box::from_raw(report) });
            return Err(status);
        }
        let world = inside.map_or(std::ptr::null_mut(), |inside| inside.world);
        // SAFETY: as required of the caller; nobody else has the request and its state yet. The words looked at are there in
        // any version.
        unsafe {
            let fits = request.byte_add(KIND).cast::<c_int>().read() == GENERALIZED
                && request.byte_add(OWNER).cast::<Handle>().read() == world;
            (*report).request = request;
            if fits {
                objects::hold(comm);
                (*report).comm = comm;
            }
            target.write(mpi, mpi.comm_null());
        }
        Ok(Self { request, report, target })
    }

    /// The request, for the program.
    pub fn request(&self) -> Handle {
        self.request
    }

    /// The operation was not begun.
    pub fn withdraw(mut self, mpi: &OpenMpi) {
        // SAFETY: the program does not have the request.
        unsafe {
            (mpi.request_complete)(self.request);
            (mpi.request_free)(&mut self.request);
        }
    }

    /// The operation has ended.
    pub fn keep(self, mpi: &OpenMpi, result: Result<Handle, c_int>) {
        let (made, code) = result.map_or_else(|code| (mpi.comm_null(), code), |made| (made, 0));
        // SAFETY: the program's variable and the report stay until the request has completed, which is the last that happens
        // to it here.
        unsafe {
            self.target.write(mpi, made);
            (*self.report).code.store(code, Ordering::Relaxed);
            (mpi.request_complete)(self.request);
        }
    }
}

/// Called once the request has completed.
unsafe extern "C" fn query(report: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the state of the request, which lives. Its status is empty, as it should be.
    let report = unsafe { &*report.cast::<Report>() };
    let code = report.code.load(Ordering::Relaxed);
    // SAFETY: the request stays as long as the report, and the communicator longer.
    unsafe {
        if code != 0 && !report.comm.is_null() {
            report.request.byte_add(OWNER).cast::<Handle>().write(report.comm);
            report.request.byte_add(KIND).cast::<c_int>().write(COLLECTIVE);
        }
    }
    code
}

unsafe extern "C" fn free(report: *mut c_void) -> c_int {
    // SAFETY: the state of the request, for the last time.
    let report = unsafe { Box::from_raw(report.cast::<Report>()) };
    if !report.comm.is_null() {
        used().push(report.comm as usize);
    }
    0
}

/// Communicators whose requests have gone. Open MPI frees a request before it calls the error handler, so that they are let
/// go only when the next request is made.
static USED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn used() -> MutexGuard<'static, Vec<usize>> {
    USED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// As for every collective operation nothing can be taken back: the request completes as if nobody had asked.
unsafe extern "C" fn cancel(_code: *mut c_void, _complete: c_int) -> c_int {
    0
}
