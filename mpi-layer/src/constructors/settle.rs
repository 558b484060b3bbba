//! Ends a constructor whose code depends on other members.

use std::ffi::c_int;

use crate::properties::communicators;
use crate::uniform::operations;
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::object::Object;

/// Releases the result at `made` and writes `null` there if the constructor ends with an error code. Other members may
/// lack the communicator, and operations in it would wait for them. It keeps its context id until the end.
///
/// # Safety
/// The place where a constructor has stored its result, if any.
pub unsafe fn settle(made: *mut Object, code: c_int, null: Object) {
    // SAFETY: as required of the caller.
    let new = unsafe { made.read() };
    if new.is_null() || new == null {
        return;
    }
    operations::decided(new, code);
    if code != 0 {
        communicators::revoke(Communicator::from_handle(new));
        // SAFETY: as above.
        unsafe { made.write(null) };
    }
}
