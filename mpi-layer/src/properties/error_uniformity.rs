//! Defines the error uniformity: the set of a communicator's collective operations that succeed at all members or at
//! none.
//!
//! "Implicit Actions and Non-blocking Failure Recovery with MPI" (Bouteiller and Bosilca, 2022), figure 2 and section
//! III-B.

use std::ffi::{CStr, c_int};

/// Info keys for the error uniformity. Every communicator shows the first.
pub const SPELLINGS: [&CStr; 3] = [c"mpix_error_uniform", c"mpi_error_uniform", c"mpix_assert_error_uniform"];

/// The collective operations that succeed at all living members or at none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniformity {
    /// None: ULFM's own rule.
    Local,
    /// Constructors of communicators.
    Create,
    /// All collective operations.
    Coll,
}

impl Uniformity {
    /// All values, indexed by their parameter value.
    pub const ALL: [Self; 3] = [Self::Local, Self::Create, Self::Coll];

    /// Reads the value of an info key, in any of its words.
    pub fn parse(word: &CStr) -> Option<Self> {
        match word.to_bytes() {
            b"local" => Some(Self::Local),
            b"create" | b"construct" => Some(Self::Create),
            b"coll" | b"all" => Some(Self::Coll),
            _ => None,
        }
    }

    /// The word that `MPI_Comm_get_info` returns.
    pub const fn word(self) -> &'static CStr {
        match self {
            Self::Local => c"local",
            Self::Create => c"create",
            Self::Coll => c"coll",
        }
    }

    /// The parameter value.
    pub fn value(self) -> c_int {
        self as c_int
    }

    /// The uniformity that has this value; `Local` for any other.
    pub fn from_value(value: c_int) -> Self {
        usize::try_from(value).ok().and_then(|index| Self::ALL.get(index).copied()).unwrap_or(Self::Local)
    }
}
