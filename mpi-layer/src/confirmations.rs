//! The members of a communicator tell each other whether all is well, each in as many messages as the size has binary digits.
//!
//! In each round a member hands on what it has heard to one twice as far away as in the round before (dissemination): whoever
//! comes through the last round has heard from all. The messages have a tag of Open MPI's collectives, so that a death or a
//! revocation interrupts them.

use std::ffi::c_int;

use crate::objects::Object;
use crate::openmpi::Library;

/// `MCA_COLL_BASE_TAG_BARRIER` (coll_tags.h). A barrier before has received all of its messages.
const TAG: c_int = -16;

/// `ompi_coll_base_sendrecv_actual`
#[rustfmt::skip]
type Exchange = unsafe extern "C" fn(
    *const u8, usize, Object, c_int, c_int, *mut u8, usize, Object, c_int, c_int, Object, Object,
) -> c_int;

/// What Open MPI has for it.
pub struct Confirmations {
    exchange: Exchange,
    byte: Object,
}

impl Confirmations {
    /// `None` if this Open MPI lacks something.
    pub fn find(library: &Library) -> Option<Self> {
        // SAFETY: the types are those of mpi.h and coll_base_util.h.
        unsafe {
            Some(Self {
                exchange: library.function(c"ompi_coll_base_sendrecv_actual")?,
                byte: library.predefined(c"ompi_mpi_byte")?,
            })
        }
    }

    /// Whether all is well with all members, of whom this is number `rank` of `size`; or the code of Open MPI with which that
    /// has failed.
    ///
    /// # Safety
    /// A communicator that lives, with one group, in a place where all members call this.
    pub unsafe fn all_are_well(&self, is_well: bool, comm: Object, rank: c_int, size: c_int) -> Result<bool, c_int> {
        let mut well = u8::from(is_well);
        let mut far = 1;
        while far < size {
            let mut heard = 0;
            let (to, from) = ((rank + far) % size, (rank + size - far) % size);
            // SAFETY: as required of the caller; a byte goes and a byte comes.
            let code = unsafe {
                let nowhere = std::ptr::null_mut();
                (self.exchange)(&well, 1, self.byte, to, TAG, &mut heard, 1, self.byte, from, TAG, comm, nowhere)
            };
            if code != 0 {
                return Err(code);
            }
            well &= heard;
            far *= 2;
        }
        Ok(well == 1)
    }
}
