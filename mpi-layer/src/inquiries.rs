//! Functions that tell a program who is dead, and wait for nobody: Open MPI does not turn its progress loop in them, so that one
//! who only asks never learns of a death. They catch up first, where a program calls them: who asks from inside ringwatch, in a
//! turn or with a lock, calls Open MPI's own.

use std::ffi::{CStr, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use crate::objects::Object;
use crate::openmpi::Library;
use crate::progress;
use crate::statement::ERR_INTERN;

const GET_FAILED: &CStr = c"ompi_comm_get_failed_internal";
const ACK_FAILED: &CStr = c"ompi_comm_ack_failed_internal";
const FAILURE_ACK: &CStr = c"ompi_comm_failure_ack_internal";

type GetFailed = unsafe extern "C" fn(Object, *mut Object) -> c_int;
type AckFailed = unsafe extern "C" fn(Object, c_int, *mut c_int) -> c_int;
type FailureAck = unsafe extern "C" fn(Object) -> c_int;

static STOCK: OnceLock<(GetFailed, AckFailed, FailureAck)> = OnceLock::new();

/// Stands in the place of these functions. At the end of `MPI_Init`.
pub fn watch() {
    let Some(library) = Library::loaded() else { return };
    // SAFETY: the types are those of communicator.h, and the functions of ours have the same.
    unsafe {
        let functions = (library.function(GET_FAILED), library.function(ACK_FAILED), library.function(FAILURE_ACK));
        let (Some(get_failed), Some(ack_failed), Some(failure_ack)) = functions else { return };
        if STOCK.set((get_failed, ack_failed, failure_ack)).is_ok() {
            library.redirect_all(&[
                (GET_FAILED, get as *const c_void),
                (ACK_FAILED, acknowledge as *const c_void),
                (FAILURE_ACK, acknowledge_all as *const c_void),
            ]);
        }
    }
}

/// What stands in the place of Open MPI's own functions calls them.
fn stock() -> Option<&'static (GetFailed, AckFailed, FailureAck)> {
    let _ = catch_unwind(progress::catch_up);
    STOCK.get()
}

unsafe extern "C" fn get(comm: Object, failed: *mut Object) -> c_int {
    // SAFETY: with the arguments that were meant for it.
    stock().map_or(ERR_INTERN, |(get, _, _)| unsafe { get(comm, failed) })
}

unsafe extern "C" fn acknowledge(comm: Object, count: c_int, acknowledged: *mut c_int) -> c_int {
    // SAFETY: as above.
    stock().map_or(ERR_INTERN, |(_, acknowledge, _)| unsafe { acknowledge(comm, count, acknowledged) })
}

unsafe extern "C" fn acknowledge_all(comm: Object) -> c_int {
    // SAFETY: as above.
    stock().map_or(ERR_INTERN, |(_, _, acknowledge)| unsafe { acknowledge(comm) })
}
