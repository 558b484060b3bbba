//! Requests of ringwatch, of the type that non-blocking collectives have.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::Mutex;

use crate::communicator::Internals;
use crate::error_class::ERR_INTERN;
use crate::object::Object;
use crate::request::Request;
use crate::sync::lock;

/// Requests that are not in use.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A new request for an operation on `comm`; `None` if there is no memory. Its free function is [`give_back`].
pub fn new(mpi: &Internals, comm: Object, persistent: bool) -> Option<*mut Request> {
    let free = lock(&FREE).pop().map(|address| address as *mut Request);
    let request = free.unwrap_or_else(|| mpi.requests.request(&mpi.classes));
    if request.is_null() {
        return None;
    }
    // SAFETY: new, or given back.
    unsafe {
        mpi.requests.open(request, comm, persistent);
        (*request).free = Some(give_back);
    }
    Some(request)
}

/// Stores the request of an operation on `comm` that has failed with this class. Returns the code with which the
/// operation begins.
///
/// # Safety
/// Room for a request.
pub unsafe fn fail(mpi: &Internals, comm: Object, class: c_int, place: *mut *mut Request) -> c_int {
    let Some(request) = new(mpi, comm, false) else { return ERR_INTERN };
    // SAFETY: an active request that no other code knows, and room for it.
    unsafe {
        mpi.requests.complete(request, class);
        place.write(request);
    }
    0
}

/// The free function of such a request.
///
/// # Safety
/// The handle of a request that has ended.
pub unsafe extern "C" fn give_back(handle: *mut *mut Request) -> c_int {
    let close = || {
        let Some(mpi) = Internals::get() else { return ERR_INTERN };
        // SAFETY: as required of the caller.
        unsafe {
            let request = *handle;
            mpi.requests.close(handle);
            // Not freed: Open MPI still reads it after this function returns.
            lock(&FREE).push(request as usize);
        }
        0
    };
    catch_unwind(close).unwrap_or(ERR_INTERN)
}
