//! Tells all members of a communicator whether every member has succeeded, by a dissemination barrier of log2(size)
//! rounds.
//!
//! In each round a member forwards what it knows to a member twice as far away as in the previous round. A member that
//! completes the last round has heard from all. The messages have a tag of Open MPI's collectives, so a death or a
//! revocation interrupts them.

use std::ffi::c_int;
use std::sync::OnceLock;

use openmpi_internals::abi::CollBaseSendrecv;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::OMPI_COLL_BASE_SENDRECV_ACTUAL;
use openmpi_internals::layout::coll_tag::MCA_COLL_BASE_TAG_BARRIER;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::variables::OMPI_MPI_BYTE;

/// Safe to share with barriers: an earlier barrier has received all of its messages.
const TAG: c_int = MCA_COLL_BASE_TAG_BARRIER;

/// Functions and objects of Open MPI that it uses.
struct Confirmations {
    exchange: CollBaseSendrecv,
    byte: Object,
}

impl Confirmations {
    /// `None` if this Open MPI lacks a symbol.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Confirmations>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    fn find(library: &Library) -> Option<Self> {
        Some(Self {
            exchange: library.function(OMPI_COLL_BASE_SENDRECV_ACTUAL)?,
            byte: library.predefined(OMPI_MPI_BYTE)?,
        })
    }
}

// SAFETY: addresses of functions and of objects that live as long as libmpi.
unsafe impl Send for Confirmations {}
// SAFETY: as above.
unsafe impl Sync for Confirmations {}

/// Whether this Open MPI has the functions for it.
pub fn are_possible() -> bool {
    Confirmations::get().is_some()
}

/// Whether all members succeeded; or Open MPI's code if the exchange has failed. This member is `rank` of `size`.
///
/// # Safety
/// A live intracommunicator, at a point where all members call this function.
pub unsafe fn all_are_well(is_well: bool, comm: Object, rank: c_int, size: c_int) -> Result<bool, c_int> {
    let all = Confirmations::get().ok_or(ERR_INTERN)?;
    let mut well = u8::from(is_well);
    let mut far = 1;
    while far < size {
        let mut heard = 0;
        let (to, from) = ((rank + far) % size, (rank + size - far) % size);
        // SAFETY: as required of the caller; sends one byte and receives one byte.
        let code = unsafe {
            let nowhere = std::ptr::null_mut();
            (all.exchange)(&well, 1, all.byte, to, TAG, &mut heard, 1, all.byte, from, TAG, comm, nowhere)
        };
        if code != 0 {
            return Err(code);
        }
        well &= heard;
        far *= 2;
    }
    Ok(well == 1)
}
