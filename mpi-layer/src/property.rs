//! What communicators, windows and files can be told with info keys and parameters.

use std::ffi::{CStr, c_int};

use crate::scope::{self, Scope};
use crate::uniformity::{self, Uniformity};

/// What a communicator, a window or a file can be told with info keys: one of three values.
pub struct Property {
    /// Name of its parameter.
    pub parameter: &'static CStr,
    /// What the parameter is for.
    pub help: &'static CStr,
    /// Info keys; the first is the one that every communicator shows.
    pub spellings: &'static [&'static CStr],
    /// What `MPI_Comm_get_info` returns, at the index that is the value.
    pub words: [&'static CStr; 3],
    /// Reads a value in any of its words.
    pub parse: fn(&CStr) -> Option<c_int>,
    /// Text of the error for any other value.
    pub refusal: &'static CStr,
}

/// Their indices.
pub const SCOPE: usize = 0;
pub const UNIFORMITY: usize = 1;
/// All of them.
pub const PROPERTIES: [Property; 2] = [
    Property {
        parameter: c"error_scope",
        help: c"Error scope of communicators whose info does not say otherwise: whose death interrupts their operations",
        spellings: &scope::SPELLINGS,
        words: [Scope::ALL[0].word(), Scope::ALL[1].word(), Scope::ALL[2].word()],
        parse: |word| Scope::parse(word).map(Scope::value),
        refusal: c"MPI_ERR_INFO_VALUE: an error scope is local, group or global; nothing changes",
    },
    Property {
        parameter: c"error_uniform",
        help: c"Error uniformity of communicators whose info does not say otherwise: which collective operations succeed at all of their members or at none",
        spellings: &uniformity::SPELLINGS,
        words: [Uniformity::ALL[0].word(), Uniformity::ALL[1].word(), Uniformity::ALL[2].word()],
        parse: |word| Uniformity::parse(word).map(Uniformity::value),
        refusal: c"MPI_ERR_INFO_VALUE: error uniformity is local, create or coll, and local with processes of another mpirun; nothing changes",
    },
];

/// The property and the spelling that an info key is.
pub fn of_key(key: &CStr) -> Option<(usize, usize)> {
    PROPERTIES.iter().enumerate().find_map(|(which, property)| {
        property.spellings.iter().position(|known| *known == key).map(|spelling| (which, spelling))
    })
}

/// The sentence about a bad value.
pub fn refusal(which: usize, key: &CStr, value: &CStr) -> String {
    format!(
        "ringwatch: the info key {} cannot be '{}': {}",
        key.to_string_lossy(),
        value.to_string_lossy(),
        PROPERTIES[which].refusal.to_string_lossy().trim_start_matches("MPI_ERR_INFO_VALUE: ")
    )
}
