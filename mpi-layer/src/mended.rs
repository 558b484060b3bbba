//! Failures of collectives, in every communicator.
//!
//! Open MPI drops the class of an error that it meets as it begins a round of messages: the request ends with the internal
//! code `OMPI_ERROR` (nbc.c, the end of `NBC_Start_round`), which becomes `MPI_ERR_OTHER`. So the functions that do not
//! block are called by ones that leave a word with the request, and as it completes, a code without class is put right.
//! Constructors of communicators are made of such operations, and what they leave undone is done ([`Turn`]).
//!
//! [`Turn`]: crate::turn::Turn

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::internals::Internals;
use crate::objects::Object;
use crate::requests::{Request, Start};
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::{collectives, two_groups};

/// `OMPI_ERROR`
const ERROR: c_int = -1;

/// What starts Open MPI's own persistent requests, the same for all.
static STOCK_START: OnceLock<Start> = OnceLock::new();

/// Puts the mended functions in the table of a communicator that has its collectives.
pub fn make(comm: Object) {
    let Some(mpi) = Internals::fitting() else { return };
    // SAFETY: the communicator lives, and nobody calls its collectives while it is being made.
    let table = unsafe { mpi.table(comm) };
    for (slot, function) in collectives::mended() {
        let entry = &mut table[slot];
        // SAFETY: what stands beside a function is its module.
        if !entry.function.is_null() && unsafe { Internals::function_of(entry.module, slot) } == entry.function {
            entry.function = function;
        }
    }
    two_groups::make(mpi, comm);
}

/// Open MPI's own function, in whose place a mended one was called with its module.
pub fn stock(module: Object, slot: usize) -> Object {
    // SAFETY: Open MPI passes the module that stands in the table.
    unsafe { Internals::function_of(module, slot) }
}

/// The class with which an operation fails that cannot succeed on a communicator. Open MPI lets programs begin none there,
/// but its constructors do, drop the error of the request (comm_request.c:166), and begin the same one again, for ever.
pub fn refusal(comm: Object) -> Option<c_int> {
    let mpi = Internals::fitting()?;
    // SAFETY: Open MPI passes the communicator, which lives and has its collectives.
    match unsafe { (mpi.is_revoked(comm), mpi.has_no_collectives(comm)) } {
        (true, _) => Some(ERR_REVOKED),
        (false, true) => Some(ERR_PROC_FAILED),
        (false, false) => None,
    }
}

/// A blocking operation has returned this code: its class is that of the communicator. Open MPI completes a message whose
/// connection breaks as one to the dead (pml_ob1_sendreq.h:488), even when it has revoked the communicator by then.
pub fn ended(code: c_int, comm: Object) -> c_int {
    if code == ERR_PROC_FAILED { class_of_a_death(comm) } else { code }
}

/// By itself, so that calls which nobody dies in save no registers for it.
#[cold]
#[inline(never)]
fn class_of_a_death(comm: Object) -> c_int {
    // SAFETY: Open MPI passes the communicator, which lives and has its collectives.
    let is_revoked = Internals::fitting().is_some_and(|mpi| unsafe { mpi.is_revoked(comm) });
    if is_revoked { ERR_REVOKED } else { ERR_PROC_FAILED }
}

/// An operation that does not block has returned this code and, if that is 0, its request.
pub fn started(code: c_int, handle: *mut *mut Request) -> c_int {
    if code == 0 {
        // SAFETY: the caller's room for the request has it now.
        unsafe { watch(*handle) };
    } else if let Some(mpi) = Internals::fitting() {
        mpi.turn.give_back(&mpi.shadows);
    }
    code
}

/// A persistent operation has been made, with this code: each of its starts is watched.
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

unsafe extern "C" fn restart(count: usize, requests: *mut *mut Request) -> c_int {
    let Some(stock) = STOCK_START.get() else { return ERR_INTERN };
    // SAFETY: MPI passes that many requests, all of which have this function to start them.
    unsafe {
        for index in 0..count {
            let request = &mut **requests.add(index);
            request.on_complete = Some(if refusal(request.comm).is_some() { refuse } else { settle });
        }
        stock(count, requests)
    }
}

/// A request is about to complete that was started where none can succeed. Open MPI does not look at that in `MPI_Start`, and
/// messages that go out at once are all that a root has to do.
unsafe extern "C" fn refuse(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes the request, whose communicator lives at least as long.
    unsafe {
        let _ = catch_unwind(|| refusal((*request).comm).into_iter().for_each(|class| (*request).set_code(class)));
        settle(request)
    }
}

/// # Safety
/// A request that was started.
unsafe fn watch(request: *mut Request) {
    // SAFETY: as required of the caller. Who else wants to hear of the completion calls this one in turn, with these data.
    unsafe {
        if Request::is_collective(request) && !Request::is_complete(request) && (*request).on_complete.is_none() {
            (*request).on_complete_data = request.cast();
            (*request).on_complete = Some(settle);
        }
    }
}

/// A request is about to complete.
unsafe extern "C" fn settle(request: *mut Request) -> c_int {
    let mend = || {
        // SAFETY: Open MPI passes the request, whose communicator lives at least as long.
        unsafe {
            let (code, comm) = (Request::code(request), (*request).comm);
            let (true, Some(mpi)) = (code != 0, Internals::fitting()) else { return };
            if (code == ERROR || code == ERR_PROC_FAILED) && mpi.is_revoked(comm) {
                (*request).set_code(ERR_REVOKED);
            } else if code == ERROR && (mpi.has_dead_members(comm) || mpi.has_no_collectives(comm)) {
                (*request).set_code(ERR_PROC_FAILED);
            }
            mpi.turn.give_back(&mpi.shadows);
        }
    };
    let _ = catch_unwind(AssertUnwindSafe(mend));
    0
}
