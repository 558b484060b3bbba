//! Waits of threads in Open MPI (wait_sync.h).

use std::ffi::c_int;
use std::mem::offset_of;

use crate::v5_0::layout;

/// `ompi_wait_sync_t`: a thread waits until `count` is 0.
#[repr(C)]
pub struct WaitSync {
    count: c_int,
    status: c_int,
    condition: libc::pthread_cond_t,
    lock: libc::pthread_mutex_t,
    neighbours: [*mut Self; 2],
    signaling: bool,
}

const _: () = assert!(offset_of!(WaitSync, count) == layout::wait_sync::COUNT);
const _: () = assert!(offset_of!(WaitSync, status) == layout::wait_sync::STATUS);
const _: () = assert!(offset_of!(WaitSync, neighbours) == layout::wait_sync::NEXT);
const _: () = assert!(offset_of!(WaitSync, signaling) == layout::wait_sync::SIGNALING);
const _: () = assert!(size_of::<WaitSync>() == layout::wait_sync::SIZE);

impl WaitSync {
    /// Ends the wait with a status of Open MPI. If it is an error, the waiting thread checks its requests again.
    ///
    /// # Safety
    /// A wait whose owner polls it, or will.
    pub unsafe fn end(sync: *mut Self, status: c_int) {
        // SAFETY: as required of the caller; its owner, which polls, reads it next.
        unsafe {
            (&raw mut (*sync).status).write_volatile(status);
            (&raw mut (*sync).count).write_volatile(0);
            (&raw mut (*sync).signaling).write_volatile(false);
        }
    }

    /// Whether the wait goes on.
    ///
    /// # Safety
    /// One that lives.
    pub unsafe fn is_waiting(sync: *const Self) -> bool {
        // SAFETY: as required of the caller; another thread may end it.
        unsafe { (&raw const (*sync).count).read_volatile() > 0 }
    }

    /// How the wait has ended, as a status of Open MPI.
    ///
    /// # Safety
    /// One that lives.
    pub unsafe fn status(sync: *const Self) -> c_int {
        // SAFETY: as required of the caller.
        unsafe { (&raw const (*sync).status).read_volatile() }
    }
}
