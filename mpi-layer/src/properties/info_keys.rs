//! Shows properties in the info of communicators, windows and files.
//!
//! Open MPI lets components subscribe to info keys; a subscriber's answer is what `MPI_Comm_get_info` and similar
//! functions return. All spellings of a key in an info show the same value.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::properties::info_property::PROPERTIES;
use openmpi_internals::comm_api::{Communicator, Handles, KeyChanged};

/// Index of the key that every info shows.
pub const SHOWN: usize = 0;
/// Value of an absent key in a subscription. No program can set it, because MPI refuses an empty value.
const ABSENT: &CStr = c"";

/// Error codes for invalid values.
static BAD_VALUES: [OnceLock<c_int>; 2] = [const { OnceLock::new() }; 2];

thread_local! {
    /// Whether this thread is aligning the other spellings of a key.
    static ALIGNING: Cell<bool> = const { Cell::new(false) };
}

/// Value of a property of a communicator, a window or a file.
#[derive(Clone, Copy)]
pub struct Setting {
    pub value: c_int,
    /// Bit mask of the spellings that the info contains.
    spelled: u8,
}

impl Setting {
    /// A setting that is shown under the first key only.
    pub fn new(value: c_int) -> Self {
        Self { value, spelled: 1 << SHOWN }
    }

    /// Stores a value that was set under a spelling.
    pub fn take(&mut self, value: c_int, spelling: usize) {
        self.value = value;
        self.spelled |= 1 << spelling;
    }

    /// The value that the info shows for a spelling.
    pub fn shown(self, which: usize, spelling: usize) -> Option<&'static CStr> {
        (self.spelled & 1 << spelling != 0).then(|| PROPERTIES[which].words[self.value as usize])
    }

    /// Writes the setting to this object's info, under a spelling.
    pub fn write(self, mpi: &Handles, object: Communicator, which: usize, spelling: usize) {
        let property = &PROPERTIES[which];
        ALIGNING.set(true);
        mpi.set_info(object, property.spellings[spelling], property.words[self.value as usize]);
        ALIGNING.set(false);
    }

    /// Aligns the other spellings in this object's info with the one that was set.
    pub fn align(self, mpi: &Handles, object: Communicator, which: usize, set: usize) {
        for other in 0..PROPERTIES[which].spellings.len() {
            if other != set && self.spelled & 1 << other != 0 {
                self.write(mpi, object, which, other);
            }
        }
    }
}

/// Calls `changed` for each key of the properties, now and whenever it is set.
pub fn subscribe(mpi: &Handles, object: Communicator, changed: KeyChanged) {
    for key in PROPERTIES.iter().flat_map(|property| property.spellings) {
        mpi.subscribe(object, key, ABSENT, changed);
    }
}

/// Removes a key from the info, because the property is not in force here.
pub fn take_out(mpi: &Handles, object: Communicator, key: &CStr) {
    mpi.subscribe(object, key, ABSENT, not_in_force);
}

unsafe extern "C" fn not_in_force(_object: *mut c_void, _key: *const c_char, _value: *const c_char) -> *const c_char {
    std::ptr::null()
}

/// Whether the program has set a key to this value.
pub fn is_given(value: &CStr) -> bool {
    value != ABSENT && !ALIGNING.get()
}

/// The error code for an invalid value of a property.
pub fn bad_value(mpi: &Handles, which: usize) -> c_int {
    *BAD_VALUES[which].get_or_init(|| mpi.info_value_error(PROPERTIES[which].refusal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::info_property::SCOPE;

    #[test]
    fn a_setting_is_shown_under_the_first_key_and_those_that_were_used() {
        let mut setting = Setting::new(0);
        assert_eq!(setting.shown(SCOPE, SHOWN), Some(c"local"));
        assert_eq!(setting.shown(SCOPE, 1), None);
        setting.take(2, 1);
        assert_eq!([0, 1, 2].map(|spelling| setting.shown(SCOPE, spelling)), [Some(c"global"), Some(c"global"), None]);
    }

    #[test]
    fn an_empty_value_and_one_that_this_thread_writes_are_not_the_programs() {
        assert!(is_given(c"group") && !is_given(c""));
        ALIGNING.set(true);
        assert!(!is_given(c"group"));
        ALIGNING.set(false);
    }
}
