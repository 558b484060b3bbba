//! Operations on communicators that do not block, for Open MPI 5.0.
//!
//! Open MPI 5.0 can shrink without blocking inside, but not in its interface, and with a defect. This library offers the
//! function to C ([`MPIX_Comm_ishrink`]) and Fortran, and repairs the defect; Python reaches it through `ringwatch.py`.
//! What spawns and connects Open MPI has only in functions that block: [`fibers`] run them beside the program.

mod agreement;
mod dynamic;
mod fibers;
mod fortran;
mod inheritance;
mod internals;
mod members;
mod objects;
mod openmpi;
mod operations;
mod promises;
mod runtime;
mod schedules;
mod shadows;
mod spawning;
mod votes;

use std::ffi::c_int;
use std::io::Write;

use internals::Internals;
use openmpi::{ERR_ARG, ERR_COMM, ERR_UNSUPPORTED, Handle, OpenMpi};
use promises::Target;

/// Starts to make a communicator of the living members of `comm`; see `ringwatch.h`.
///
/// # Safety
/// The handles are those of the MPI in this process; `newcomm` stays where it is until the request has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_ishrink(comm: Handle, newcomm: *mut Handle, request: *mut Handle) -> c_int {
    if let Some(native) = openmpi::native_ishrink() {
        // SAFETY: the function of this name, with the arguments that were meant for it.
        return unsafe { native(comm, newcomm, request) };
    }
    let Some(mpi) = OpenMpi::get() else { return ERR_UNSUPPORTED };
    // SAFETY: as required of the caller.
    unsafe {
        if newcomm.is_null() || request.is_null() {
            return mpi.raise(comm, ERR_ARG);
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

/// Starts the operation if it can be done; else the communicator's error handler is called, and the code returned.
///
/// # Safety
/// A handle of the MPI in this process, and a variable that stays where it is until the operation has completed.
unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    // SAFETY: as required of the caller.
    unsafe {
        check(mpi, comm, "MPIX_Comm_ishrink would crash at a further failure")?;
        operations::start(mpi, comm, target).map_err(|code| mpi.raise(comm, code))
    }
}

/// Whether an operation can be started on a communicator; else its error handler is called, and the code returned. `what`
/// begins the sentence about a library that was loaded too late.
///
/// # Safety
/// A handle of the MPI in this process.
unsafe fn check(mpi: &OpenMpi, comm: Handle, what: &str) -> Result<(), c_int> {
    let mut inter = 0;
    // SAFETY: as required of the caller.
    unsafe {
        let code = (mpi.is_intercommunicator)(comm, &mut inter);
        if code != 0 {
            return Err(code);
        }
        if inter != 0 {
            return Err(mpi.raise(comm, ERR_COMM));
        }
        let reason = if !agreement::is_in_front(mpi) {
            format!(
                "{what}, because libringwatch was loaded after libmpi: link it before libmpi, preload it, or in Python import ringwatch before mpi4py.MPI"
            )
        } else if Internals::get().is_none() {
            "libringwatch needs an Open MPI whose communicators and requests are as in 5.0.7 on x86-64, and finds another one"
                .to_owned()
        } else {
            return Ok(());
        };
        // In one piece: what stands between pieces, the runtime may put into the middle of the line, or into the output.
        let _ = std::io::stderr().write_all(format!("ringwatch: {reason}\n").as_bytes());
        Err(mpi.raise(comm, ERR_UNSUPPORTED))
    }
}
