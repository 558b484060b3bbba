//! Describes the properties that info keys and parameters set on communicators, windows and files.

use std::ffi::{CStr, c_int};

use node_abi::rank_parameters::{ERROR_SCOPE, ERROR_UNIFORM};

use crate::properties::error_scope::{self, Scope};
use crate::properties::error_uniformity::{self, Uniformity};

/// A property with three possible values.
pub struct Property {
    /// Name of its MCA parameter.
    pub parameter: &'static CStr,
    /// Help text of the parameter.
    pub help: &'static CStr,
    /// Info keys. Every communicator shows the first.
    pub spellings: &'static [&'static CStr],
    /// The words that `MPI_Comm_get_info` returns, indexed by value.
    pub words: [&'static CStr; 3],
    /// Parses a value in any of its words.
    pub parse: fn(&CStr) -> Option<c_int>,
    /// Error text for any other value.
    pub refusal: &'static CStr,
}

/// Indices of [`PROPERTIES`].
pub const SCOPE: usize = 0;
pub const UNIFORMITY: usize = 1;
/// All properties.
pub const PROPERTIES: [Property; 2] = [
    Property {
        parameter: ERROR_SCOPE.name,
        help: ERROR_SCOPE.help,
        spellings: &error_scope::SPELLINGS,
        words: [Scope::ALL[0].word(), Scope::ALL[1].word(), Scope::ALL[2].word()],
        parse: |word| Scope::parse(word).map(Scope::value),
        refusal: c"MPI_ERR_INFO_VALUE: an error scope is local, group or global; nothing changes",
    },
    Property {
        parameter: ERROR_UNIFORM.name,
        help: ERROR_UNIFORM.help,
        spellings: &error_uniformity::SPELLINGS,
        words: [Uniformity::ALL[0].word(), Uniformity::ALL[1].word(), Uniformity::ALL[2].word()],
        parse: |word| Uniformity::parse(word).map(Uniformity::value),
        refusal: c"MPI_ERR_INFO_VALUE: error uniformity is local, create or coll, and local with processes of another mpirun; nothing changes",
    },
];

/// The property and the spelling of an info key.
pub fn of_key(key: &CStr) -> Option<(usize, usize)> {
    PROPERTIES.iter().enumerate().find_map(|(which, property)| {
        property.spellings.iter().position(|known| *known == key).map(|spelling| (which, spelling))
    })
}

/// The message about an invalid value.
pub fn refusal(which: usize, key: &CStr, value: &CStr) -> String {
    format!(
        "ringwatch: the info key {} cannot be '{}': {}",
        key.to_string_lossy(),
        value.to_string_lossy(),
        PROPERTIES[which].refusal.to_string_lossy().trim_start_matches("MPI_ERR_INFO_VALUE: ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_that_is_shown_can_be_read_and_is_its_own_value() {
        for property in &PROPERTIES {
            for (value, word) in (0..).zip(property.words) {
                assert_eq!((property.parse)(word), Some(value), "{word:?}");
            }
            assert_eq!((property.parse)(c"everywhere"), None);
        }
    }

    #[test]
    fn other_words_for_a_value_are_read() {
        let values = |which: usize, words: [&CStr; 2]| words.map(|word| (PROPERTIES[which].parse)(word));
        assert_eq!(values(SCOPE, [c"process", c"universe"]), [Some(0), Some(2)]);
        assert_eq!(values(UNIFORMITY, [c"construct", c"all"]), [Some(1), Some(2)]);
    }

    #[test]
    fn a_key_is_of_one_property_and_knows_its_spelling() {
        assert_eq!(of_key(c"mpix_error_scope"), Some((SCOPE, 0)));
        assert_eq!(of_key(c"mpix_error_uniform"), Some((UNIFORMITY, 0)));
        assert_eq!(of_key(c"mpix_error_range").map(|(which, _)| which), Some(SCOPE));
        assert_eq!(of_key(c"mpix_error"), None);
    }

    #[test]
    fn a_bad_value_is_told_with_the_key_and_what_is_possible() {
        let told = refusal(SCOPE, c"mpix_error_scope", c"all");
        assert_eq!(
            told,
            "ringwatch: the info key mpix_error_scope cannot be 'all': an error scope is local, group or global; nothing changes"
        );
    }
}
