//! Objects of Open MPI (opal_object.h): whoever uses one is counted, and its class says how it is taken apart.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::internals::Internals;
use crate::openmpi::Handle;

/// Of `opal_class_t`: its destructors, behind the last of which null stands, and the size of its objects.
const DESTRUCTORS: usize = 48;
pub const OBJECT_SIZE: usize = 56;

/// How many use an object.
///
/// # Safety
/// An object that lives for as long as the answer is used.
unsafe fn users<'a>(object: Handle) -> &'a AtomicI32 {
    /// Behind the pointer to its class.
    const USERS: usize = size_of::<usize>();
    // SAFETY: as required of the caller.
    unsafe { &*object.byte_add(USERS).cast::<AtomicI32>() }
}

/// Begins a use of an object.
///
/// # Safety
/// One that lives.
pub unsafe fn hold(object: Handle) {
    // SAFETY: as required of the caller.
    unsafe { users(object) }.fetch_add(1, Ordering::Relaxed);
}

/// Gives up a use of a communicator; the last one frees it.
///
/// # Safety
/// A use that nobody else gives up.
pub unsafe fn let_go(inside: &Internals, mut comm: Handle) {
    // SAFETY: as required of the caller.
    unsafe {
        let not_last = |count: i32| (count > 1).then(|| count - 1);
        if users(comm).fetch_update(Ordering::AcqRel, Ordering::Acquire, not_last).is_err() {
            (inside.free_communicator)(&mut comm);
        }
    }
}

/// The class of an object, as an address.
///
/// # Safety
/// One that lives.
pub unsafe fn class_of(object: Handle) -> *const c_void {
    // SAFETY: as required of the caller.
    unsafe { object.cast::<*const c_void>().read() }
}

/// Takes an object apart.
///
/// # Safety
/// One that nobody else uses, whose memory is from `malloc`.
pub unsafe fn destroy(object: Handle) {
    // SAFETY: as required of the caller.
    unsafe {
        let mut destructor =
            class_of(object).byte_add(DESTRUCTORS).cast::<*const Option<unsafe extern "C" fn(Handle)>>().read();
        while let Some(destruct) = *destructor {
            destruct(object);
            destructor = destructor.add(1);
        }
        libc::free(object);
    }
}
