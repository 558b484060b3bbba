//! The data of messages: out of the program's buffers and into them.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use event_log::protocol::units::Payload;
use openmpi_internals::classes::Classes;
use openmpi_internals::communicator::Internals;
use openmpi_internals::layout::mpi::{MPI_COMBINER_NAMED, MPI_ERR_COUNT, MPI_ERR_TRUNCATE};
use openmpi_internals::object::Object;
use openmpi_internals::request::Status;

use crate::packet;
use crate::stock::Stock;

/// A buffer of the program.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Its address.
    pub address: *mut c_void,
    /// How many items it has.
    pub count: c_int,
    /// The datatype of an item.
    pub datatype: Object,
}

// SAFETY: the program leaves the buffer to MPI until the operation has ended.
unsafe impl Send for Buffer {}

/// A datatype, or what combines data, that the program may free before an operation with it has ended.
#[derive(Debug)]
pub struct Held(Object);

// SAFETY: a handle of MPI.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    /// Keeps an object of MPI's of the program, predefined or not.
    pub(crate) fn new(object: Object) -> Arc<Self> {
        // SAFETY: an object that lives.
        unsafe { Classes::hold(object) };
        Arc::new(Self(object))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mpi) = Internals::get() {
            // SAFETY: a reference that was taken for this.
            unsafe { mpi.classes.release(self.0) };
        }
    }
}

/// Copies data.
pub struct Data {
    stock: &'static Stock,
    /// A communicator of this process alone whose errors return.
    own: Object,
    packed: Object,
    /// Bytes of predefined datatypes without gaps.
    widths: HashMap<usize, usize>,
}

// SAFETY: handles of MPI.
unsafe impl Send for Data {}

impl Data {
    /// `own` is a communicator of this process alone whose errors return, `packed` is `MPI_PACKED`.
    pub fn new(stock: &'static Stock, own: Object, packed: Object) -> Self {
        Self { stock, own, packed, widths: HashMap::new() }
    }

    /// Bytes of an item of a predefined datatype without gaps.
    fn width(&mut self, datatype: Object) -> Option<usize> {
        if let Some(width) = self.widths.get(&(datatype as usize)) {
            return Some(*width);
        }
        let (mut size, mut low, mut extent) = (0, 0, 0);
        // SAFETY: a datatype, and room for the answers.
        unsafe {
            (self.stock.type_size)(datatype, &mut size);
            (self.stock.type_get_extent)(datatype, &mut low, &mut extent);
        }
        let width = usize::try_from(size)
            .ok()
            .filter(|width| self.is_named(datatype) && low == 0 && *width as isize == extent)?;
        self.widths.insert(datatype as usize, width);
        Some(width)
    }

    /// Keeps a datatype; `None` if it is predefined, and so lives as long as MPI.
    pub fn hold(&mut self, datatype: Object) -> Option<Arc<Held>> {
        if self.width(datatype).is_some() || self.is_named(datatype) {
            return None;
        }
        Some(Held::new(datatype))
    }

    /// Whether a datatype is predefined.
    fn is_named(&self, datatype: Object) -> bool {
        let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, -1);
        // SAFETY: a datatype, and room for the answers.
        unsafe {
            (self.stock.type_get_envelope)(datatype, &mut integers, &mut addresses, &mut datatypes, &mut combiner);
        }
        combiner == MPI_COMBINER_NAMED
    }

    /// The data of a buffer.
    ///
    /// # Errors
    /// The error class of MPI.
    ///
    /// # Safety
    /// A buffer of the program, as MPI has it.
    pub unsafe fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, c_int> {
        let count = usize::try_from(buffer.count).map_err(|_| MPI_ERR_COUNT)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if let Some(width) = self.width(buffer.datatype) {
            // SAFETY: as required of the caller.
            return Ok(unsafe { std::slice::from_raw_parts(buffer.address.cast::<u8>(), count * width) }.to_vec());
        }
        let (mut size, mut end) = (0, 0);
        // SAFETY: as required of the caller; room of the size that MPI says.
        unsafe {
            ok((self.stock.pack_size)(buffer.count, buffer.datatype, self.own, &mut size))?;
            let mut bytes = vec![0; size as usize];
            let room = bytes.as_mut_ptr().cast();
            ok((self.stock.pack)(buffer.address, buffer.count, buffer.datatype, room, size, &mut end, self.own))?;
            bytes.truncate(end as usize);
            Ok(bytes)
        }
    }

    /// The data of a buffer as a message that a protocol keeps, behind a header: the only copy where the datatype has
    /// no gaps.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    ///
    /// # Safety
    /// As of [`read`](Self::read).
    pub unsafe fn seal(&mut self, buffer: Buffer, header: &[u8]) -> Result<Payload, c_int> {
        match (usize::try_from(buffer.count), self.width(buffer.datatype)) {
            (Ok(count @ 1..), Some(width)) => {
                // SAFETY: as required of the caller.
                let data = unsafe { std::slice::from_raw_parts(buffer.address.cast::<u8>(), count * width) };
                Ok(packet::seal(header, data))
            }
            // SAFETY: as required of the caller.
            _ => Ok(packet::seal(header, &unsafe { self.read(buffer)? })),
        }
    }

    /// Puts data into a buffer. Returns how many bytes it has got.
    ///
    /// # Errors
    /// The error class of MPI: `MPI_ERR_TRUNCATE` if there are more data than room, of which as many are there as there is room for.
    ///
    /// # Safety
    /// A buffer of the program, as MPI has it.
    pub unsafe fn write(&mut self, data: &[u8], buffer: Buffer) -> Result<usize, c_int> {
        if data.is_empty() {
            return Ok(0);
        }
        if let Some(width) = self.width(buffer.datatype) {
            let room = usize::try_from(buffer.count).unwrap_or(0) * width;
            let fitting = data.len().min(room);
            // SAFETY: as required of the caller.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.address.cast(), fitting) };
            return if data.len() > room { Err(MPI_ERR_TRUNCATE) } else { Ok(fitting) };
        }
        let mut status = Status::of(0, 0, 0);
        // SAFETY: as required of the caller. A message of this process to itself.
        unsafe {
            ok((self.stock.sendrecv)(
                data.as_ptr().cast(),
                data.len() as c_int,
                self.packed,
                0,
                0,
                buffer.address,
                buffer.count,
                buffer.datatype,
                0,
                0,
                self.own,
                &mut status,
            ))?;
        }
        Ok(status.count)
    }

    /// Bytes from the first item of a datatype to the next, and the bytes that `count` items need, with where they
    /// begin.
    pub(crate) fn span(&self, datatype: Object, count: usize) -> (isize, usize, isize) {
        let (mut low, mut extent, mut true_low, mut true_extent) = (0, 0, 0, 0);
        // SAFETY: a datatype, and room for the answers.
        unsafe {
            (self.stock.type_get_extent)(datatype, &mut low, &mut extent);
            (self.stock.type_get_true_extent)(datatype, &mut true_low, &mut true_extent);
        }
        let more = extent.unsigned_abs() * count.saturating_sub(1);
        (extent, true_extent.unsigned_abs() + more, true_low)
    }
}

/// An error class as a result.
///
/// # Errors
/// The class, if it is one.
pub fn ok(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}
