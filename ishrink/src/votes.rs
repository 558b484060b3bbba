//! Makes members with uniform errors vote on the result of an operation that spawns or connects: it succeeds if it has
//! succeeded for all of them. Otherwise it fails for all, with the same error.
//!
//! The communicator's info, which ringwatch's plugin maintains, says whether errors are uniform. The vote is an
//! agreement on a [shadow](crate::shadow_pool) of its own, so other agreements and deaths do not disturb it.

use std::ffi::c_int;

use openmpi_internals::request::Request;

use crate::comm_request;
use crate::fibers::Fiber;
use crate::internals::Internals;
use crate::openmpi::{ERR_PROC_FAILED, ERR_REVOKED, Handle, OpenMpi};
use crate::shadow_pool::Shadow;

/// Statements of a member, one bit each. The members agree with bitwise and: a statement holds if all have made it.
const SUCCEEDED: c_int = 1;
const NOT_REVOKED: c_int = 2;
const NO_DEATH: c_int = 4;

/// The statements of a member whose operation has ended with 0 or an error class.
fn statements(class: c_int) -> c_int {
    match class {
        0 => SUCCEEDED | NOT_REVOKED | NO_DEATH,
        ERR_REVOKED => NO_DEATH,
        ERR_PROC_FAILED => NOT_REVOKED,
        _ => NOT_REVOKED | NO_DEATH,
    }
}

/// The result for all: 0, or an error class. `agreed` contains the statements common to all, or is `None` if the
/// agreement has failed; `other` is the class without a death.
fn verdict(agreed: Option<c_int>, other: c_int) -> c_int {
    match agreed {
        None => ERR_PROC_FAILED,
        Some(all) if all & SUCCEEDED != 0 => 0,
        Some(all) if all & NOT_REVOKED == 0 => ERR_REVOKED,
        Some(all) if all & NO_DEATH == 0 => ERR_PROC_FAILED,
        Some(_) => other,
    }
}

/// The vote of one operation.
pub struct Vote(Shadow);

impl Vote {
    /// The vote of the program's next operation; `None` if errors are local. Or an error code.
    ///
    /// # Safety
    /// A live intracommunicator.
    pub unsafe fn for_next_operation(internals: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        // SAFETY: as required of the caller.
        unsafe {
            if !internals.has_uniform_errors(comm) {
                return Ok(None);
            }
            Ok(Shadow::for_vote(internals, comm)?.map(Self))
        }
    }

    /// Votes with 0 or an error class, the local result. Returns the result for all. `other` is the class without a
    /// death.
    ///
    /// # Safety
    /// On the operation's fiber, with its communicator.
    pub unsafe fn cast(self, internals: &Internals, fiber: &Fiber, comm: Handle, class: c_int, other: c_int) -> c_int {
        let Some(mpi) = OpenMpi::get() else { return class };
        let mut stated = statements(class);
        // SAFETY: as required of the caller. The statements stay on the fiber's stack, which is leaked if the fiber
        // does not continue.
        let has_agreed = unsafe {
            let (mut failed, mut request) = (mpi.failed_members(comm), std::ptr::null_mut());
            let begun = (mpi.iagree)(
                (&raw mut stated).cast(),
                1,
                internals.int_type,
                internals.band_op,
                &mut failed,
                false,
                self.0.begin(),
                &mut request,
                self.0.agreements(),
            );
            let code = if begun == 0 { Some(Self::wait(fiber, request)) } else { None };
            (internals.group_free)(&mut failed);
            // The second code is Open MPI's report of an unacknowledged death.
            matches!(code, Some(0 | ERR_PROC_FAILED))
        };
        self.0.give_back(internals);
        verdict(has_agreed.then_some(stated), other)
    }

    /// Waits for an agreement; returns its error code.
    ///
    /// # Safety
    /// Its request, without another owner.
    unsafe fn wait(fiber: &Fiber, request: *mut Request) -> c_int {
        // SAFETY: as required of the caller.
        unsafe {
            loop {
                if let Some(code) = comm_request::completed_with(request) {
                    Request::give_back(request);
                    return code;
                }
                fiber.pause();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openmpi::{ERR_PORT, ERR_SPAWN};

    /// The conclusion of members whose operations have ended with these classes.
    fn concluded(classes: &[c_int]) -> c_int {
        let agreed = classes.iter().map(|class| statements(*class)).fold(-1, |all, own| all & own);
        verdict(Some(agreed), ERR_PORT)
    }

    #[test]
    fn it_has_succeeded_if_it_has_for_all() {
        assert_eq!(concluded(&[0, 0, 0]), 0);
        for error in [ERR_REVOKED, ERR_PROC_FAILED, ERR_PORT, ERR_SPAWN] {
            assert_ne!(concluded(&[0, error, 0]), 0, "{error}");
        }
    }

    #[test]
    fn the_class_is_that_of_the_worst_that_a_member_knows() {
        assert_eq!(concluded(&[0, ERR_PORT]), ERR_PORT);
        assert_eq!(concluded(&[ERR_PORT, ERR_PROC_FAILED, 0]), ERR_PROC_FAILED);
        assert_eq!(concluded(&[ERR_PORT, ERR_PROC_FAILED, ERR_REVOKED]), ERR_REVOKED);
    }

    #[test]
    fn an_agreement_that_fails_has_met_a_death() {
        assert_eq!(verdict(None, ERR_SPAWN), ERR_PROC_FAILED);
    }
}
