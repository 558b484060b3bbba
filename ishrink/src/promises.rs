//! What a program has of an operation under way: a generalized request of MPI, and a variable for the new communicator.
//!
//! Every function that tests, waits or frees, in every language, knows generalized requests. The program's variable is
//! written once, when the operation has completed, so that it need not be what Open MPI expects, and a request that is
//! freed early goes on by itself.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::openmpi::{Handle, OpenMpi};

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
    /// The error code that it will report, which belongs to it.
    code: *const AtomicI32,
    target: Target,
}

// SAFETY: MPI's handles are the process's, and what else is pointed to belongs to the operation.
unsafe impl Send for Promise {}

impl Promise {
    /// A new one, or an error code of MPI.
    ///
    /// # Safety
    /// A variable that stays where it is until the request has completed.
    pub unsafe fn new(mpi: &OpenMpi, target: Target) -> Result<Self, c_int> {
        let mut request = std::ptr::null_mut();
        let code: *mut AtomicI32 = Box::into_raw(Box::default());
        // SAFETY: functions of the types that MPI wants; the state is freed by the last of them.
        let status = unsafe { (mpi.request_start)(query, free, cancel, code.cast(), &mut request) };
        if status != 0 {
            // SAFETY: made above, and nobody has it.
            drop(unsafe { Box::from_raw(code) });
            return Err(status);
        }
        // SAFETY: as required of the caller.
        unsafe { target.write(mpi, mpi.comm_null()) };
        Ok(Self { request, code, target })
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
        // SAFETY: the program's variable and the code stay until the request has completed, which is the last that happens
        // to it here.
        unsafe {
            self.target.write(mpi, made);
            (*self.code).store(code, Ordering::Relaxed);
            (mpi.request_complete)(self.request);
        }
    }
}

unsafe extern "C" fn query(code: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the state of the request, which lives. Its status is empty, as it should be.
    unsafe { &*code.cast::<AtomicI32>() }.load(Ordering::Relaxed)
}

unsafe extern "C" fn free(code: *mut c_void) -> c_int {
    // SAFETY: the state of the request, for the last time.
    drop(unsafe { Box::from_raw(code.cast::<AtomicI32>()) });
    0
}

/// As for every collective operation nothing can be taken back: the request completes as if nobody had asked.
unsafe extern "C" fn cancel(_code: *mut c_void, _complete: c_int) -> c_int {
    0
}
