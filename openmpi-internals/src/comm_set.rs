//! Makes communicators without a context id, which no program knows.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::abi::CommSet;
use crate::error_class::ERR_INTERN;
use crate::loaded::Library;
use crate::object::Object;
use crate::v5_0::functions::OMPI_COMM_SET;
use crate::v5_0::variables::{OMPI_MPI_ERRORS_RETURN, OMPI_MPI_GROUP_EMPTY};

struct Stock {
    make: CommSet,
    group_size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    nobody: Object,
    errors_return: Object,
}

// SAFETY: addresses of functions and of objects that live as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

impl Stock {
    /// `None` if this Open MPI lacks something.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Stock>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    fn find(library: &Library) -> Option<Self> {
        // SAFETY: the types are those of mpi.h and communicator.h.
        unsafe {
            Some(Self {
                make: library.function(OMPI_COMM_SET)?,
                group_size: library.standard(c"PMPI_Group_size")?,
                nobody: library.predefined(OMPI_MPI_GROUP_EMPTY)?,
                errors_return: library.predefined(OMPI_MPI_ERRORS_RETURN)?,
            })
        }
    }
}

/// A communicator of a group; returns a status of MPI.
///
/// # Safety
/// A communicator that lives, and a group of its members.
pub unsafe fn make(made: &mut Object, comm: Object, group: Object) -> c_int {
    let Some(stock) = Stock::get() else { return ERR_INTERN };
    let (nothing, no_ranks, mut size) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    // SAFETY: as required of the caller; the list of ranks is not read where there is a group.
    unsafe {
        (stock.group_size)(group, &mut size);
        (stock.make)(made, comm, size, no_ranks, 0, no_ranks, nothing, stock.errors_return, group, nothing, 0)
    }
}

/// A communicator without members; returns a status of MPI.
///
/// # Safety
/// A communicator that lives.
pub unsafe fn make_empty(made: &mut Object, comm: Object) -> c_int {
    // SAFETY: as required of the caller; the empty group is a group of members of every communicator.
    Stock::get().map_or(ERR_INTERN, |stock| unsafe { make(made, comm, stock.nobody) })
}
