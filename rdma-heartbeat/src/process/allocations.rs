//! Counts memory allocations: there must be none between two heartbeats, because an allocation may take any time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
pub struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as required of the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Number of allocations since the start of the process; 0 if [`Counting`] is not the allocator.
#[must_use]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
