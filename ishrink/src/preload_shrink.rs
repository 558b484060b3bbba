//! Replaces the functions by which Open MPI's own shrink makes a communicator and releases its request, under their
//! exported names.
//!
//! In another release of Open MPI calls are forwarded unchanged.

use std::ffi::c_int;
use std::sync::OnceLock;

use openmpi_internals::abi::CommSetNb;
use openmpi_internals::functions::{OMPI_COMM_REQUEST_RETURN, OMPI_COMM_SET_NB};
use openmpi_internals::request::Request;

use crate::openmpi::{ERR_UNSUPPORTED, Handle, OpenMpi, original};
use crate::shrink;

/// Makes a communicator from `comm`, without context id and collective functions.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_set_nb(
    newcomm: *mut Handle,
    comm: Handle,
    local_size: c_int,
    local_ranks: *mut c_int,
    remote_size: c_int,
    remote_ranks: *mut c_int,
    attributes: Handle,
    errhandler: Handle,
    local_group: Handle,
    remote_group: Handle,
    flags: u32,
    request: *mut *mut Request,
) -> c_int {
    static ORIGINAL: OnceLock<Option<CommSetNb>> = OnceLock::new();
    let Some(comm_set_nb) = *ORIGINAL.get_or_init(|| original(OMPI_COMM_SET_NB)) else { return ERR_UNSUPPORTED };
    // SAFETY: the original function; for a shrink with the inherited error handler, and without attributes.
    unsafe {
        let comm_set = |comm, attributes, errhandler| {
            comm_set_nb(
                newcomm,
                comm,
                local_size,
                local_ranks,
                remote_size,
                remote_ranks,
                attributes,
                errhandler,
                local_group,
                remote_group,
                flags,
                request,
            )
        };
        let of_shrink = shrink::with_inheritance(newcomm, |inheritance| {
            let (origin, errhandler) = inheritance.origin();
            let code = comm_set(origin, std::ptr::null_mut(), errhandler);
            if code == 0 {
                inheritance.hand_over(*newcomm);
            }
            code
        });
        of_shrink.unwrap_or_else(|| comm_set(comm, attributes, errhandler))
    }
}

/// Releases a request. If a step of a shrink fails, Open MPI releases the request and completes it afterwards: this
/// library would then release it a second time (`comm_ft.c:605` of 5.0.7, `comm_request.c:178`).
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_request_return(request: *mut Request) {
    static ORIGINAL: OnceLock<Option<unsafe extern "C" fn(*mut Request)>> = OnceLock::new();
    if OpenMpi::get().is_some() && shrink::is_under_way(request) {
        return;
    }
    let original = *ORIGINAL.get_or_init(|| original(OMPI_COMM_REQUEST_RETURN));
    // SAFETY: the original function with its argument.
    original.into_iter().for_each(|give_back| unsafe { give_back(request) });
}
