//! On other processors nothing stands in front of functions that are not covered, so that a layer cannot be installed.

use std::ffi::{c_int, c_void};

use crate::functions::Function;

/// There is none.
pub fn trampoline(_: usize, _: *const c_void) -> Option<*const c_void> {
    None
}

/// Nobody calls it.
pub fn report_to(_: fn(&'static Function) -> c_int) {}
