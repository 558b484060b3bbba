//! Looks up names in the running process on demand.

use std::ffi::{CStr, c_void};

/// Address of an exported name, if there is one.
pub fn address(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a terminated name; the default scope is that of the process.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Content of an exported character array.
pub fn text(name: &CStr) -> Option<String> {
    // SAFETY: callers name arrays of characters that are terminated and constant.
    address(name).map(|start| unsafe { CStr::from_ptr(start.cast()) }.to_string_lossy().into_owned())
}
