//! What a member says about an operation that has ended for it, and what all members conclude.
//!
//! The members agree on the bits that every one of them has set. An agreement that has met a dead member counts as one
//! in which somebody saw a death.

use std::ffi::c_int;

/// Error classes of Open MPI.
pub const ERR_OTHER: c_int = 16;
pub const ERR_INTERN: c_int = 17;
pub const ERR_PROC_FAILED: c_int = 75;
const ERR_PROC_FAILED_PENDING: c_int = 76;
const ERR_REVOKED: c_int = 77;

const FINISHED: c_int = 1;
const SAW_NO_DEATH: c_int = 2;
const NOT_REVOKED: c_int = 4;

/// How an operation has ended for all of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    /// Somebody's own error, such as a message that does not fit: the next operation may succeed.
    Error,
    /// The error class with which this operation and all that follow end.
    Ended(c_int),
}

impl Verdict {
    /// From the bits that all members have set, and the status of the agreement.
    pub fn of(bits: c_int, status: c_int) -> Self {
        if bits & NOT_REVOKED == 0 {
            Self::Ended(ERR_REVOKED)
        } else if bits & SAW_NO_DEATH == 0 || status != 0 {
            Self::Ended(ERR_PROC_FAILED)
        } else if bits & FINISHED == 0 {
            Self::Error
        } else {
            Self::Success
        }
    }

    /// What the operation returns at a member where it had this code by itself.
    pub fn code(self, own: c_int) -> c_int {
        match self {
            Self::Success => 0,
            Self::Error if own != 0 => own,
            Self::Error => ERR_OTHER,
            Self::Ended(class) => class,
        }
    }
}

/// The bits of a member whose operation had this code by itself. Whoever knows of a death says so even if it was
/// successful: Open MPI's algorithms have lost errors before.
pub fn bits(code: c_int, saw_death: bool, revoked: bool) -> c_int {
    if revoked || code == ERR_REVOKED {
        0
    } else if saw_death || code == ERR_PROC_FAILED || code == ERR_PROC_FAILED_PENDING {
        NOT_REVOKED
    } else if code != 0 {
        NOT_REVOKED | SAW_NO_DEATH
    } else {
        NOT_REVOKED | SAW_NO_DEATH | FINISHED
    }
}
