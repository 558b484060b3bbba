//! Where errors are uniform the members of a communicator vote on how an operation has ended that spawns or connects: it has
//! succeeded if it has for all of them, and otherwise all tell the same error.
//!
//! Whether they are is what the communicator's info says, which ringwatch's plugin keeps. The vote is an agreement on a
//! [shadow](crate::shadows) of its own, so it does not matter who dies, or what else is agreed on meanwhile.

use std::ffi::c_int;

use crate::fibers::Fiber;
use crate::internals::Internals;
use crate::openmpi::{ERR_PROC_FAILED, ERR_REVOKED, Handle, OpenMpi};
use crate::schedules;
use crate::shadows::Shadow;

/// What a member says; it holds for all if all have said it.
const SUCCEEDED: c_int = 1;
const NOT_REVOKED: c_int = 2;
const NO_DEATH: c_int = 4;

/// The vote of one operation.
pub struct Vote(Shadow);

impl Vote {
    /// That of the next operation in the order of the program; `None` where errors are local. Or an error code.
    ///
    /// # Safety
    /// An intracommunicator that lives.
    pub unsafe fn of(inside: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        // SAFETY: as required of the caller.
        unsafe {
            if !inside.has_uniform_errors(comm) {
                return Ok(None);
            }
            Ok(Shadow::for_vote(inside, comm)?.map(Self))
        }
    }

    /// Says how the operation has ended here, with 0 or the class of an error, and returns how it has for all; `other` is the class of what
    /// fails without a death.
    ///
    /// # Safety
    /// On the operation's fiber, with its communicator.
    pub unsafe fn cast(self, inside: &Internals, fiber: &Fiber, comm: Handle, code: c_int, other: c_int) -> c_int {
        let Some(mpi) = OpenMpi::get() else { return code };
        let mut said = match code {
            0 => SUCCEEDED | NOT_REVOKED | NO_DEATH,
            ERR_REVOKED => NO_DEATH,
            ERR_PROC_FAILED => NOT_REVOKED,
            _ => NOT_REVOKED | NO_DEATH,
        };
        // SAFETY: as required of the caller. What is said stays on the fiber's stack, which is left for ever where it is not
        // carried on.
        let agreed = unsafe {
            let (mut dead, mut request) = (mpi.dead_members(comm), std::ptr::null_mut());
            let (place, int, and) = ((&raw mut said).cast(), inside.int, inside.and);
            let begun = (mpi.agreement)(
                place,
                1,
                int,
                and,
                &mut dead,
                false,
                self.0.begin(),
                &mut request,
                self.0.agreements(),
            );
            let end = if begun == 0 { Some(Self::wait(fiber, request)) } else { None };
            (inside.group_free)(&mut dead);
            // Open MPI's word for a death that nobody has acknowledged.
            matches!(end, Some(0 | ERR_PROC_FAILED))
        };
        self.0.give_back(inside);
        match said {
            _ if !agreed => ERR_PROC_FAILED,
            said if said & SUCCEEDED != 0 => 0,
            said if said & NOT_REVOKED == 0 => ERR_REVOKED,
            said if said & NO_DEATH == 0 => ERR_PROC_FAILED,
            _ => other,
        }
    }

    /// # Safety
    /// The request of an agreement, which nobody else has.
    unsafe fn wait(fiber: &Fiber, request: Handle) -> c_int {
        // SAFETY: as required of the caller.
        unsafe {
            loop {
                if let Some(code) = schedules::result_of(request) {
                    schedules::give_back(request);
                    return code;
                }
                fiber.pause();
            }
        }
    }
}
