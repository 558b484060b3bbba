//! Manages the robust lock in a rank's slot, by which `ringwatchd` detects the rank's death as soon as it begins.

use crate::segment::Segment;

/// Makes the calling thread hold the lock of its slot until it dies.
pub fn hold(segment: &Segment, slot: u32) {
    let lock = segment.lifeline(slot).as_ptr().cast::<libc::pthread_mutex_t>();
    // SAFETY: the place has the size and alignment of a lock, and is mapped until the process ends; only this code uses
    // it as a lock.
    unsafe {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::zeroed();
        let attributes = attributes.as_mut_ptr();
        if libc::pthread_mutexattr_init(attributes) == 0 {
            libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(lock, attributes);
            libc::pthread_mutexattr_destroy(attributes);
            libc::pthread_mutex_lock(lock);
        }
    }
}
