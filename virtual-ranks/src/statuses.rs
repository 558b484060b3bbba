//! Statuses that do not come from a message, and where statuses go.

use openmpi_internals::layout::mpi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL};
use openmpi_internals::request::Status;

/// The status of an operation with `MPI_PROC_NULL`.
pub fn status_of_nobody() -> Status {
    Status::of(MPI_PROC_NULL, MPI_ANY_TAG, 0)
}

/// The status of an operation that has none (MPI 4.1, 3.7.3).
pub fn empty_status() -> Status {
    Status::of(MPI_ANY_SOURCE, MPI_ANY_TAG, 0)
}

/// The status of a receive that was cancelled.
pub fn cancelled_status() -> Status {
    Status { cancelled: 1, ..empty_status() }
}

/// Puts a status where the program wants it.
///
/// # Safety
/// `MPI_STATUS_IGNORE`, or room for a status.
pub unsafe fn tell(place: *mut Status, status: Status) {
    if !place.is_null() {
        // SAFETY: as required of the caller. A status keeps its error where there is one operation.
        unsafe { *place = Status { error: (*place).error, ..status } };
    }
}
