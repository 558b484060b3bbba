//! Replaces the function by which Open MPI starts a schedule (see [`comm_request`](crate::comm_request)), under its
//! exported name: a schedule that is started on a fiber runs there.

use std::sync::OnceLock;

use openmpi_internals::comm_request::Schedule;
use openmpi_internals::functions::OMPI_COMM_REQUEST_START;
use openmpi_internals::request::Request;

use crate::fibers;
use crate::openmpi::original;
use crate::operation_comm;

type Start = unsafe extern "C" fn(*mut Request);

/// Starts a schedule.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_request_start(schedule: *mut Schedule) {
    static ORIGINAL: OnceLock<Option<Start>> = OnceLock::new();
    // SAFETY: the original function with its argument, or a complete schedule.
    unsafe {
        let Some(fiber) = fibers::current() else {
            let original = ORIGINAL.get_or_init(|| original(OMPI_COMM_REQUEST_START));
            return original.iter().for_each(|start| start(schedule.cast()));
        };
        fiber.schedules.start(schedule);
        if fiber.releases_cid_turn.get() && fiber.schedules.is_advancing() {
            // A step of another schedule waits for this one, and blocks the choice of context ids.
            operation_comm::start_releasing_cid_turn();
        }
    }
}
