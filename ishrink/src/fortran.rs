//! The names under which Fortran compilers look for the function; `ringwatchf.h` and `ringwatchf08.h` have its interface.

use std::ffi::c_int;

use crate::openmpi::{ERR_UNSUPPORTED, OpenMpi};
use crate::promises::Target;
use crate::start;

/// # Safety
/// Handles of Fortran, in variables that exist; `newcomm` stays where it is until the request has completed. The error
/// code is optional.
unsafe fn ishrink(comm: *const c_int, newcomm: *mut c_int, request: *mut c_int, error: *mut c_int) {
    let code = match OpenMpi::get() {
        None => ERR_UNSUPPORTED,
        // SAFETY: as required of the caller.
        Some(mpi) => unsafe {
            match start(mpi, (mpi.comm_from_fortran)(*comm), Target::Fortran(newcomm)) {
                Err(code) => code,
                Ok(handle) => {
                    request.write((mpi.request_to_fortran)(handle));
                    0
                }
            }
        },
    };
    if !error.is_null() {
        // SAFETY: as required of the caller.
        unsafe { error.write(code) };
    }
}

macro_rules! names {
    ($($name:ident)*) => {$(
        /// # Safety
        /// Called from Fortran with the arguments of the interface.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name that a compiler looks for")]
        pub unsafe extern "C" fn $name(comm: *const c_int, newcomm: *mut c_int, request: *mut c_int, error: *mut c_int) {
            // SAFETY: as required of the caller.
            unsafe { ishrink(comm, newcomm, request, error) }
        }
    )*};
}

names! {
    MPIX_COMM_ISHRINK mpix_comm_ishrink mpix_comm_ishrink_ mpix_comm_ishrink__
    PMPIX_COMM_ISHRINK pmpix_comm_ishrink pmpix_comm_ishrink_ pmpix_comm_ishrink__
}
