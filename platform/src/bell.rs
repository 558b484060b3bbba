//! Wakes up the daemon's loop from another thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A bell that several threads may ring.
#[derive(Clone)]
pub struct Bell(Arc<EventFd>);

impl Bell {
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)))
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        // Refused only when the counter of the descriptor would overflow.
        let _ = self.0.write(1);
    }

    /// Makes the descriptor unreadable until the bell rings again.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: reads eight bytes from a descriptor into a variable of that size.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Bell {
    /// Readable when it has rung, until [`Bell::clear`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
