//! Memory of the program that a checkpoint keeps.

use std::ffi::{c_int, c_void};

/// One piece of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The program's number of it, unique in a rank.
    pub id: c_int,
    /// Where it begins; may be null if it is empty.
    pub address: *mut c_void,
    /// Its bytes.
    pub bytes: usize,
}

impl Region {
    /// The memory.
    ///
    /// # Safety
    /// It is there, and nobody writes to it.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: as required of the caller.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes) }
    }

    /// The memory.
    ///
    /// # Safety
    /// It is there, and nobody else uses it.
    #[must_use]
    pub unsafe fn as_slice_mut(&mut self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as required of the caller.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes) }
    }
}
