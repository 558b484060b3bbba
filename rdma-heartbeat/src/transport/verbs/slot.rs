//! Manages memory that exactly one peer can write.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::layout::ibv_mr;
use super::pair::Pair;
use crate::transport::flag::ORDERING;

/// A page of its own, whose first eight bytes are registered: devices pin whole pages.
#[repr(C, align(4096))]
struct Page {
    value: AtomicU64,
}

/// Eight bytes of memory that the peer of a pair can write.
pub struct Slot {
    region: NonNull<ibv_mr>,
    memory: NonNull<Page>,
    pair: Pair,
}

// SAFETY: the memory is owned by this value and only used through an atomic; otherwise as for `Pair`.
unsafe impl Send for Slot {}

impl Slot {
    /// Registers a slot, initially zero, for the peer of this pair. Its key is valid for this pair only, because the
    /// pair has its own protection domain.
    ///
    /// # Errors
    /// If the device has no room left, or this process may not lock memory (`ulimit -l`).
    pub fn new(pair: Pair) -> io::Result<Self> {
        let memory = NonNull::from(Box::leak(Box::new(Page { value: AtomicU64::new(0) })));
        // SAFETY: the page is freed only in `drop`, after the region; it is only used through an atomic.
        let region = unsafe { pair.register(memory.cast(), size_of::<u64>()) }
            // SAFETY: it came from a box, and no device knows it.
            .inspect_err(|_| drop(unsafe { Box::from_raw(memory.as_ptr()) }))?;
        Ok(Self { region, memory, pair })
    }

    /// The connection through which it can be written.
    #[must_use]
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Address and key for the peer.
    #[must_use]
    pub fn address(&self) -> (u64, u32) {
        // SAFETY: the region exists; its key never changes.
        (self.memory.addr().get() as u64, unsafe { self.region.as_ref() }.rkey)
    }

    /// The value last written by the peer: one load of memory.
    ///
    /// A device writes an aligned word of eight bytes atomically on every known platform, but the standard does not
    /// promise it. The value carries a MAC, so that a torn value is detected.
    #[must_use]
    pub fn load(&self) -> u64 {
        // SAFETY: the memory exists until this value is dropped, and all access to it is atomic.
        unsafe { self.memory.as_ref() }.value.load(ORDERING)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: the region came from this pair; only the peer uses it, whose writes fail from here on.
        let gone = unsafe { self.pair.unregister(self.region) };
        // Memory that the device may still write is leaked.
        if gone {
            // SAFETY: it came from a box, and no device knows it any more.
            drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
        }
    }
}
