//! Defines the error scope: the set of processes whose death interrupts operations on a communicator.
//!
//! "Implicit Actions and Non-blocking Failure Recovery with MPI" (Bouteiller and Bosilca, 2022), figure 2. The info key
//! has been spelled in four ways since; all are accepted, with both words for each scope.

use std::ffi::{CStr, c_int};

/// Info keys for the error scope. Every communicator shows the first.
pub const SPELLINGS: [&CStr; 4] =
    [c"mpix_error_scope", c"mpix_error_range", c"mpi_error_range", c"mpix_assert_error_scope"];

/// The processes whose death interrupts operations on a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A process without which the operation cannot complete: ULFM's own rule.
    Local,
    /// Any member.
    Group,
    /// Any process of the job.
    Global,
}

impl Scope {
    /// All scopes, indexed by their parameter value.
    pub const ALL: [Self; 3] = [Self::Local, Self::Group, Self::Global];

    /// Reads the value of an info key, in any of its words.
    pub fn parse(word: &CStr) -> Option<Self> {
        match word.to_bytes() {
            b"local" | b"process" => Some(Self::Local),
            b"group" => Some(Self::Group),
            b"global" | b"universe" => Some(Self::Global),
            _ => None,
        }
    }

    /// The word that `MPI_Comm_get_info` returns.
    pub const fn word(self) -> &'static CStr {
        match self {
            Self::Local => c"local",
            Self::Group => c"group",
            Self::Global => c"global",
        }
    }

    /// The parameter value.
    pub fn value(self) -> c_int {
        self as c_int
    }

    /// The scope that has this value; `Local` for any other.
    pub fn from_value(value: c_int) -> Self {
        usize::try_from(value).ok().and_then(|index| Self::ALL.get(index).copied()).unwrap_or(Self::Local)
    }
}
