//! Determines the error class with which an operation on a communicator fails.

use std::ffi::c_int;

use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::{ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::object::Object;

/// The class of an operation on `comm` that a failure has ended. Revocation takes precedence: if a member revokes a
/// communicator because of a death, the other members return the class of the revocation.
///
/// # Safety
/// A live communicator, in an Open MPI of the known layout.
#[inline]
pub unsafe fn of_failure(mpi: &Internals, comm: Object) -> c_int {
    // SAFETY: as required of the caller.
    if unsafe { mpi.is_revoked(comm) } { ERR_REVOKED } else { ERR_PROC_FAILED }
}

/// The class with which operations on `comm` fail from now on: `comm` is revoked, or `is_damaged` says that a death
/// ends them. `None` if they may succeed.
///
/// # Safety
/// As of [`of_failure`].
#[inline]
pub unsafe fn of_refusal(mpi: &Internals, comm: Object, is_damaged: impl FnOnce() -> bool) -> Option<c_int> {
    // SAFETY: as required of the caller.
    let class = unsafe { of_failure(mpi, comm) };
    (class == ERR_REVOKED || is_damaged()).then_some(class)
}
