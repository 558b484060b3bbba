//! Defines `MPIX_Comm_ishrink` for C, see `ringwatch.h`, and the part shared with [Fortran](crate::fortran).

use std::ffi::c_int;

use crate::generalized_request::Target;
use crate::openmpi::{self, ERR_ARG, ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::{precondition, shrink};

/// Begins to make a communicator of the living members of `comm`; see `ringwatch.h`.
///
/// # Safety
/// The handles belong to the MPI in this process; `newcomm` stays valid until the request has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_ishrink(comm: Handle, newcomm: *mut Handle, request: *mut Handle) -> c_int {
    if let Some(native) = openmpi::native_ishrink() {
        // SAFETY: the function of this name, with its original arguments.
        return unsafe { native(comm, newcomm, request) };
    }
    let Some(mpi) = OpenMpi::get() else { return ERR_UNSUPPORTED };
    // SAFETY: as required of the caller.
    unsafe {
        if newcomm.is_null() || request.is_null() {
            return mpi.call_errhandler(comm, ERR_ARG);
        }
        match start(mpi, comm, Target::C(newcomm)) {
            Err(code) => code,
            Ok(handle) => {
                request.write(handle);
                0
            }
        }
    }
}

/// The profiling name of [`MPIX_Comm_ishrink`].
///
/// # Safety
/// See there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_ishrink(comm: Handle, newcomm: *mut Handle, request: *mut Handle) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { MPIX_Comm_ishrink(comm, newcomm, request) }
}

/// Begins the operation if possible. Otherwise calls the communicator's error handler, and returns the code.
///
/// # Safety
/// A handle of the MPI in this process, and a variable that stays valid until the operation has completed.
pub unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    // SAFETY: as required of the caller.
    unsafe {
        precondition::check(mpi, comm, "MPIX_Comm_ishrink would crash at a further failure")?;
        shrink::start(mpi, comm, target).map_err(|code| mpi.call_errhandler(comm, code))
    }
}
