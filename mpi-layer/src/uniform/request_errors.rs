//! Restores the error class of failed collective operations, in every communicator.
//!
//! Open MPI loses the class of an error that occurs when a nonblocking operation begins a round of messages: the
//! request completes with the internal code `OMPI_ERROR` (nbc.c, the end of `NBC_Start_round`), which becomes
//! `MPI_ERR_OTHER`. So functions that begin such an operation set a callback on its request. It replaces a code that
//! has no class.
//!
//! Constructors of communicators consist of such operations. When one fails, the callback also clears the marker of the
//! running constructor, which Open MPI does not ([`cid_turn`](crate::cid::cid_turn)).

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::cid::cid_turn;
use crate::failure::error_class;
use crate::in_front::in_front;
use crate::uniform::pmpi_without_peers;
use openmpi_internals::communicator::{ALLREDUCE, BCAST, Internals, NONBLOCKING, REDUCE};
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::layout::status::OPAL_ERROR;
use openmpi_internals::object::Object;
use openmpi_internals::own_request;
use openmpi_internals::request::{Request, Start};
use openmpi_internals::symbol_table::are_of_one_library;

/// The start function of Open MPI's persistent requests, common to all.
static STOCK_START: OnceLock<Start> = OnceLock::new();

/// Open MPI's own function for which a correcting one was called, with the same module.
pub fn stock(module: Object, slot: usize) -> Object {
    // SAFETY: Open MPI passes the module from the table.
    unsafe { Internals::function_of(module, slot) }
}

/// The class with which an operation fails that cannot succeed on a communicator. Open MPI's constructors begin such an
/// operation, ignore its request's error (comm_request.c:166), and begin it again, for ever.
pub fn refusal(comm: Object) -> Option<c_int> {
    let mpi = Internals::fitting()?;
    // SAFETY: Open MPI passes a live communicator with its collectives.
    unsafe { error_class::of_refusal(mpi, comm, || mpi.has_no_collectives(comm)) }
}

/// Corrects the code of a blocking operation to the communicator's class. Open MPI completes a message whose connection
/// breaks as one to a dead process (pml_ob1_sendreq.h:488), even if it has revoked the communicator by then.
pub fn ended(code: c_int, comm: Object) -> c_int {
    if code == ERR_PROC_FAILED { class_of_a_death(comm) } else { code }
}

/// A separate function, so that calls without a death save no registers for it.
#[cold]
#[inline(never)]
fn class_of_a_death(comm: Object) -> c_int {
    // SAFETY: Open MPI passes a live communicator with its collectives.
    Internals::fitting().map_or(ERR_PROC_FAILED, |mpi| unsafe { error_class::of_failure(mpi, comm) })
}

/// Begins a nonblocking operation with `call`, unless it cannot succeed. A program gets the error from the request, as
/// every error of such an operation; a constructor gets the code.
pub fn begin(comm: Object, slot: usize, handle: *mut *mut Request, call: impl FnOnce() -> c_int) -> c_int {
    let code = refusal(comm).unwrap_or_else(call);
    if code == 0 {
        // SAFETY: the caller's place for the request holds it now.
        unsafe { settle_on_completion(*handle) };
        0
    } else {
        tell_failure(comm, slot, handle, code)
    }
}

/// Handles an error at the begin. Separate for the same reason. Returns the code with which the operation begins.
#[cold]
#[inline(never)]
fn tell_failure(comm: Object, slot: usize, handle: *mut *mut Request, code: c_int) -> c_int {
    let Some(mpi) = Internals::fitting() else { return code };
    // SAFETY: a place for the request.
    unsafe {
        match refusal(comm) {
            Some(class) if is_programs(slot) => own_request::fail(mpi, comm, class, handle),
            _ => {
                handle.write(mpi.requests.null());
                cid_turn::give_back();
                code
            }
        }
    }
}

/// Slots that constructors of communicators use (comm_cid.c), with the functions through which programs use them.
const OF_CONSTRUCTORS: [(usize, &CStr); 3] = [
    (NONBLOCKING + ALLREDUCE, c"MPI_Iallreduce"),
    (NONBLOCKING + BCAST, c"MPI_Ibcast"),
    (NONBLOCKING + REDUCE, c"MPI_Ireduce"),
];
/// Upper bound of these functions' code size in bytes. Only other MPI functions follow them in libmpi, no constructor.
const LENGTH: usize = 4096;

/// Whether the program has begun this thread's operation of this slot: one of these MPI functions has called ours.
fn is_programs(slot: usize) -> bool {
    let Some((_, name)) = OF_CONSTRUCTORS.iter().find(|(of_constructors, _)| *of_constructors == slot) else {
        return true;
    };
    let Some(function) = pmpi_without_peers::stock_named(name) else { return false };
    let mut frames = [std::ptr::null_mut::<c_void>(); 16];
    // SAFETY: the array has room for that many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let mut frames = frames.iter().take(usize::try_from(count).unwrap_or(0));
    let caller = frames.find(|frame| !are_of_one_library(**frame, is_programs as *const c_void));
    caller.is_some_and(|frame| (*frame as usize).wrapping_sub(function as usize) < LENGTH)
}

/// Handles a new persistent operation: ringwatch replaces its start function.
pub fn prepared(code: c_int, handle: *mut *mut Request) -> c_int {
    if code != 0 {
        return code;
    }
    // SAFETY: as above.
    let (request, is_collective) = unsafe { (&mut **handle, Request::is_collective(*handle)) };
    if let Some(stock) = request.start.filter(|_| is_collective) {
        if std::ptr::fn_addr_eq(*STOCK_START.get_or_init(|| stock), stock) {
            request.start = Some(restart);
        }
    }
    code
}

in_front! { (stock, mpi) = STOCK_START.get().zip(Internals::fitting()), or ERR_INTERN;
    /// Replaces the start function. `MPI_Start` in Open MPI does not check whether an operation can succeed, and a root
    /// may have only eager messages to send. An operation that fails when it begins reports that nowhere, and its wait
    /// would not end (coll_libnbc_component.c, `request_start`).
    unsafe extern "C" fn restart(count: usize, requests: *mut *mut Request) -> c_int {
        for index in 0..count {
            // SAFETY: MPI passes that many requests with this start function. Their communicators live at least as
            // long.
            unsafe {
                let mut request = *requests.add(index);
                let comm = (*request).comm;
                if let Some(class) = refusal(comm) {
                    Request::end_at_once(request, class);
                    continue;
                }
                (*request).on_complete = Some(settle);
                let code = stock(1, &mut request);
                if code != 0 {
                    mpi.requests.complete(request, refusal(comm).unwrap_or(code));
                }
            }
        }
        0
    }
}

/// Sets [`settle`] as completion callback of a collective operation's request.
///
/// # Safety
/// A started request.
unsafe fn settle_on_completion(request: *mut Request) {
    // SAFETY: as required of the caller. A later completion callback calls this one in turn, with this data.
    unsafe {
        if Request::is_collective(request) && !Request::is_complete(request) && (*request).on_complete.is_none() {
            (*request).on_complete_data = request.cast();
            (*request).on_complete = Some(settle);
        }
    }
}

in_front! { mpi = Internals::fitting(), or 0;
    /// Corrects the code of a request that is about to complete.
    unsafe extern "C" fn settle(request: *mut Request) -> c_int {
        // SAFETY: Open MPI passes the request. Its communicator lives at least as long.
        unsafe {
            let (code, comm) = (Request::code(request), (*request).comm);
            if code == 0 {
                return 0;
            }
            if (code == OPAL_ERROR || code == ERR_PROC_FAILED) && mpi.is_revoked(comm) {
                (*request).set_code(ERR_REVOKED);
            } else if code == OPAL_ERROR && (mpi.has_dead_members(comm) || mpi.has_no_collectives(comm)) {
                (*request).set_code(ERR_PROC_FAILED);
            }
            cid_turn::give_back();
        }
        0
    }
}
