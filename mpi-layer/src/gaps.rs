//! Messages of collectives that arrive on a communicator with a dead member.
//!
//! Open MPI 5.0.7 drops them, but does not count them: it waits for each before it takes a later message of the same sender on
//! that communicator, whatever it is (pml_ob1_recvfrag.c:511 and 1101). The living did not hear each other any more there. Here an
//! empty message comes in the place of each that is dropped, with a tag for which nobody asks. Nobody is in the way of messages
//! before the first death.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::internals::Internals;
use crate::numbers;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::receivers::{self, Descriptor, Receive, Segment};

/// `MCA_PML_OB1_HDR_TYPE_MATCH`, `_RNDV` and `_RGET`: what is the first of a message.
const KINDS: [usize; 3] = [MATCH as usize, 0x42, 0x43];
const OURS: [Receive; 3] = [receive::<0>, receive::<1>, receive::<2>];
const MATCH: u8 = 0x41;
/// `OMPI_PML_OB1_MATCH_HDR_LEN`
const LENGTH: usize = 14;
/// Of `mca_pml_ob1_match_hdr_t`: the number of the communicator, and the tag.
const CONTEXT: usize = 2;
const TAG: usize = 8;
/// `MCA_COLL_BASE_TAG_BASE`, and from `_FT_BASE` to `_FT_END`: tags of collectives, and those among them that bear failures.
const COLLECTIVE: c_int = -7;
const FAULT_TOLERANT: std::ops::RangeInclusive<c_int> = -30..=-27;
/// `MCA_COLL_BASE_TAG_FT_END`: Open MPI has it in `MPI_COMM_SELF` alone.
const NOBODYS: c_int = -30;

/// Who received those messages.
static STOCK: [OnceLock<Receive>; 3] = [const { OnceLock::new() }; 3];
static STANDS: AtomicBool = AtomicBool::new(false);

/// Collectives of a communicator are about to be interrupted: stands where the first part of each message is received.
pub fn stand_first() {
    if !STANDS.load(Ordering::Acquire) && Internals::fitting().is_some() {
        Library::loaded().iter().for_each(stand);
        STANDS.store(true, Ordering::Release);
    }
}

/// Open MPI has said anew who receives them.
pub fn stand_again(library: &Library) {
    if STANDS.load(Ordering::Acquire) {
        stand(library);
    }
}

fn stand(library: &Library) {
    for ((kind, ours), stock) in KINDS.into_iter().zip(OURS).zip(&STOCK) {
        // SAFETY: each message goes to the one who stood there before.
        unsafe { receivers::stand(library, kind, ours, stock) };
    }
}

/// The first part of a message.
unsafe extern "C" fn receive<const KIND: usize>(transport: Object, message: *const Descriptor) {
    // SAFETY: Open MPI passes a message, for whoever received it before.
    unsafe {
        // Before it is: who hands it on may use the memory again.
        let substitute = Header::of(message).filter(Header::is_dropped).map(Header::without_contents);
        if let Some(stock) = STOCK[KIND].get() {
            stock(transport, message);
        }
        if let (Some(substitute), Some(stock)) = (substitute, STOCK[0].get()) {
            let segment = Segment { message: substitute.0.as_ptr(), length: LENGTH as u64 };
            let empty = Descriptor { segments: &raw const segment, segment_count: 1, tag: MATCH, ..*message };
            stock(transport, &raw const empty);
        }
    }
}

/// What every message begins with.
struct Header([u8; LENGTH]);

impl Header {
    /// # Safety
    /// A message.
    unsafe fn of(message: *const Descriptor) -> Option<Self> {
        // SAFETY: as required of the caller; it has a segment, of that length.
        unsafe {
            let segment = (*message).segments;
            ((*message).segment_count > 0 && (*segment).length >= LENGTH as u64)
                .then(|| Self((*segment).message.cast::<[u8; LENGTH]>().read()))
        }
    }

    /// Whether Open MPI takes no notice of the message, though others may follow: nothing does where the communicator is revoked.
    fn is_dropped(&self) -> bool {
        let tag = c_int::from_ne_bytes([self.0[TAG], self.0[TAG + 1], self.0[TAG + 2], self.0[TAG + 3]]);
        let number = u16::from_ne_bytes([self.0[CONTEXT], self.0[CONTEXT + 1]]);
        let is_collective = tag <= COLLECTIVE && !FAULT_TOLERANT.contains(&tag);
        let Some(mpi) = Internals::fitting().filter(|_| is_collective) else { return false };
        numbers::communicator(c_int::from(number)).is_some_and(|comm| {
            // SAFETY: one that has its number lives.
            unsafe { mpi.has_no_collectives(comm) && !mpi.is_revoked(comm) }
        })
    }

    fn without_contents(mut self) -> Self {
        self.0[0] = MATCH;
        self.0[TAG..TAG + 4].copy_from_slice(&NOBODYS.to_ne_bytes());
        self
    }
}
