//! The name of a rank's node, which is that of its first process for ever: a program may choose its partners by it, and
//! a replacement on another node has to choose the same ones.

use std::ffi::c_int;

use openmpi_internals::object::Object;

use crate::data::ok;
use crate::stock::Stock;

/// `MPI_MAX_PROCESSOR_NAME`
pub const LONGEST: usize = 256;

/// The name of a node, with a zero byte at its end.
pub type Name = [u8; LONGEST];

/// The names of the nodes of all `processes` of a communicator, all of which call this.
///
/// # Errors
/// The error class of MPI.
pub(crate) fn gather(stock: &Stock, comm: Object, byte: Object, processes: u32) -> Result<Vec<Name>, c_int> {
    let (mut own, mut length, mut all) = ([0; LONGEST], 0, vec![[0; LONGEST]; processes as usize]);
    let bytes = LONGEST as c_int;
    // SAFETY: room for the name, and for that of each process.
    unsafe {
        ok((stock.get_processor_name)(own.as_mut_ptr().cast(), &mut length))?;
        ok((stock.allgather)(own.as_ptr().cast(), bytes, byte, all.as_mut_ptr().cast(), bytes, byte, comm))?;
    }
    Ok(all)
}
