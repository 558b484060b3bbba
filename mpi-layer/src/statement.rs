//! What a member says about its operations, and what all members conclude.
//!
//! A statement is three numbers, and the members agree on the least of each: on how many operations all have ended, which
//! of them somebody had an own error in, and on the worst that anybody knows. So one agreement serves all operations that
//! have ended by then. All counts begin with the first operation that has not been agreed on, which is the same for all.

use std::ffi::c_int;

/// Error classes of Open MPI.
pub const ERR_OTHER: c_int = 16;
pub const ERR_INTERN: c_int = 17;
pub const ERR_PROC_FAILED: c_int = 75;
pub const ERR_PROC_FAILED_PENDING: c_int = 76;
pub const ERR_REVOKED: c_int = 77;

/// The numbers of a statement: operations that have ended, the first one with an own error, and the standing.
pub type Statement = [c_int; 3];

/// No operation has an own error.
const NONE: c_int = c_int::MAX;

/// What a member knows about the communicator, from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Revoked,
    /// A member is dead.
    Damaged,
    Sound,
}

impl Standing {
    fn of(number: c_int) -> Self {
        match number {
            ..=0 => Self::Revoked,
            1 => Self::Damaged,
            2.. => Self::Sound,
        }
    }

    /// The class with which operations end; `None` if they may succeed.
    pub fn class(self) -> Option<c_int> {
        match self {
            Self::Revoked => Some(ERR_REVOKED),
            Self::Damaged => Some(ERR_PROC_FAILED),
            Self::Sound => None,
        }
    }
}

/// What follows from an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// So many operations have succeeded, and then one has not, because of somebody's own error, or has not been
    /// agreed on.
    Go { succeeded: usize, flawed: bool },
    /// All operations end with this class, from the first one on.
    End(c_int),
}

/// The statement of a member whose operations have ended with these codes. Whoever knows of a death says so even if all
/// was successful: Open MPI's algorithms have lost errors before.
pub fn statement(codes: &[c_int], known: Standing) -> Statement {
    let standing = codes.iter().fold(known, |standing, code| match *code {
        ERR_REVOKED => standing.min(Standing::Revoked),
        ERR_PROC_FAILED | ERR_PROC_FAILED_PENDING => standing.min(Standing::Damaged),
        _ => standing,
    });
    let number = |index: usize| c_int::try_from(index).unwrap_or(NONE);
    let flawed = codes.iter().position(|code| *code != 0).map_or(NONE, number);
    [number(codes.len()), flawed, standing as c_int]
}

/// What all members conclude from the least of their numbers, and the status of the agreement: it is not 0 if that has
/// met a dead member.
pub fn verdict(least: Statement, status: c_int) -> Verdict {
    let [ended, flawed, standing] = least;
    let met = if status == 0 { Standing::Sound } else { Standing::Damaged };
    match Standing::of(standing).min(met).class() {
        Some(class) => Verdict::End(class),
        None => Verdict::Go { succeeded: ended.min(flawed).max(0) as usize, flawed: flawed < ended },
    }
}
