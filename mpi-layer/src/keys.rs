//! What the info of a communicator, a window or a file says of its properties.
//!
//! Open MPI lets anybody subscribe to info keys; a subscriber's answer is what `MPI_Comm_get_info` and its kin return. All
//! spellings of a key that an info has say the same.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::handles::{Communicator, Handles, KeyChanged};
use crate::property::PROPERTIES;

/// The key that every info shows.
pub const SHOWN: usize = 0;
/// What a subscription reports where the key is absent; no program can set it, for MPI refuses an empty value.
const ABSENT: &CStr = c"";

/// The codes of the errors for bad values.
static BAD_VALUES: [OnceLock<c_int>; 2] = [const { OnceLock::new() }; 2];

thread_local! {
    /// This thread makes the other spellings of a key agree with it.
    static ALIGNING: Cell<bool> = const { Cell::new(false) };
}

/// What holds for a property of a communicator, a window or a file.
#[derive(Clone, Copy)]
pub struct Setting {
    pub value: c_int,
    /// Which of the spellings its info has, as a mask.
    spelled: u8,
}

impl Setting {
    /// One that is shown under the first key only.
    pub fn new(value: c_int) -> Self {
        Self { value, spelled: 1 << SHOWN }
    }

    /// Takes a value that was given under a spelling.
    pub fn take(&mut self, value: c_int, spelling: usize) {
        self.value = value;
        self.spelled |= 1 << spelling;
    }

    /// What the info shows for a spelling.
    pub fn shown(self, which: usize, spelling: usize) -> Option<&'static CStr> {
        (self.spelled & 1 << spelling != 0).then(|| PROPERTIES[which].words[self.value as usize])
    }

    /// Shows it in the info of this object under a spelling.
    pub fn write(self, mpi: &Handles, object: Communicator, which: usize, spelling: usize) {
        let property = &PROPERTIES[which];
        ALIGNING.set(true);
        mpi.set_info(object, property.spellings[spelling], property.words[self.value as usize]);
        ALIGNING.set(false);
    }

    /// Makes the other spellings agree with the one that was set, in the info of this object.
    pub fn align(self, mpi: &Handles, object: Communicator, which: usize, set: usize) {
        for other in 0..PROPERTIES[which].spellings.len() {
            if other != set && self.spelled & 1 << other != 0 {
                self.write(mpi, object, which, other);
            }
        }
    }
}

/// Has `changed` called for each key of the properties, now and whenever somebody sets it.
pub fn subscribe(mpi: &Handles, object: Communicator, changed: KeyChanged) {
    for key in PROPERTIES.iter().flat_map(|property| property.spellings) {
        mpi.subscribe(object, key, ABSENT, changed);
    }
}

/// Takes a key out of the info, since it is not in force here.
pub fn take_out(mpi: &Handles, object: Communicator, key: &CStr) {
    mpi.subscribe(object, key, ABSENT, not_in_force);
}

unsafe extern "C" fn not_in_force(_object: *mut c_void, _key: *const c_char, _value: *const c_char) -> *const c_char {
    std::ptr::null()
}

/// Whether the program has given a key this value.
pub fn is_given(value: &CStr) -> bool {
    value != ABSENT && !ALIGNING.get()
}

/// The code of the error for a bad value of a property.
pub fn bad_value(mpi: &Handles, which: usize) -> c_int {
    *BAD_VALUES[which].get_or_init(|| mpi.info_value_error(PROPERTIES[which].refusal))
}
