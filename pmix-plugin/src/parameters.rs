//! Registration of the parameters with PMIx, and their values.

use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;

use rdma_heartbeat::parameters::{DEFINITIONS, Invalid, Settings, read};

/// Where PMIx keeps the values: addresses that it writes to and that live for ever.
struct Storage([*mut c_char; DEFINITIONS.len()]);

// SAFETY: PMIx writes during registration only, which it does in one thread; later accesses only read.
unsafe impl Send for Storage {}

static STORAGE: Mutex<Option<&'static mut Storage>> = Mutex::new(None);

/// Registers every parameter.
pub fn register() {
    let mut guard = STORAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let storage = guard.get_or_insert_with(|| Box::leak(Box::new(Storage([std::ptr::null_mut(); DEFINITIONS.len()]))));
    for (definition, slot) in DEFINITIONS.iter().zip(storage.0.iter_mut()) {
        let (Ok(name), Ok(help), Ok(default)) =
            (CString::new(definition.name), CString::new(definition.help), CString::new(definition.default))
        else {
            continue;
        };
        *slot = default.into_raw();
        // SAFETY: terminated strings; the storage lives for ever. PMIx copies name, help and the default.
        unsafe { c_shims::pmix::rw_pmix_parameter(name.as_ptr(), help.as_ptr(), slot) };
    }
}

/// What the user asked for.
///
/// # Errors
/// The first value that cannot be used.
pub fn settings() -> Result<Settings, Invalid> {
    let guard = STORAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut values = DEFINITIONS.map(|definition| definition.default.to_owned());
    if let Some(storage) = guard.as_ref() {
        for (value, slot) in values.iter_mut().zip(storage.0) {
            if !slot.is_null() {
                // SAFETY: PMIx stores terminated strings here.
                *value = unsafe { CStr::from_ptr(slot) }.to_string_lossy().into_owned();
            } else {
                value.clear();
            }
        }
    }
    read(&values)
}
