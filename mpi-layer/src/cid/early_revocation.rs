//! Defers revocations of an intercommunicator that this process is still making.
//!
//! A member that has returned from `MPI_Intercomm_create` may revoke the new communicator while others are in the last
//! step. With an intercommunicator Open MPI 5.0.7 also revokes its local side (`mca_pml_ob1_revoke_comm` in
//! pml_ob1_recvfrag.c), on which the last step runs ([`intercomm_create`](crate::constructors::intercomm_create)): the
//! step failed although no process had died. ringwatch marks such a communicator as revoked at once, because an
//! unmarked member forwards each revocation. It interrupts the operations that wait in it when the step has ended.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

use openmpi_internals::communicator::Internals;
use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;

/// Intercommunicators in their last step, and whether they were revoked in it.
static UNDER_WAY: Mutex<BTreeMap<usize, bool>> = Mutex::new(BTreeMap::new());

/// Runs `step`, the last one of `made`, and returns its code. `interrupt` interrupts the operations of a communicator.
///
/// # Safety
/// An intercommunicator with its context id, in an Open MPI of the known layout; it is live if the code is 0.
pub unsafe fn withhold(made: Object, step: impl FnOnce() -> c_int, interrupt: unsafe fn(Object)) -> c_int {
    lock(&UNDER_WAY).insert(made as usize, false);
    let code = step();
    let is_revoked = lock(&UNDER_WAY).remove(&(made as usize)).unwrap_or(false);
    if is_revoked && code == 0 {
        // SAFETY: as required of the caller.
        unsafe { interrupt(made) };
    }
    code
}

/// Handles the revocation of a communicator. Returns whether the interruption must wait.
///
/// # Safety
/// A live communicator, in an Open MPI of the known layout if one is in its last step.
pub unsafe fn is_withheld(comm: Object) -> bool {
    let mut all = lock(&UNDER_WAY);
    let Some(is_revoked) = all.get_mut(&(comm as usize)) else { return false };
    *is_revoked = true;
    // SAFETY: as required of the caller.
    unsafe { Internals::mark_revoked(comm) };
    true
}
