//! Keeps the message sequence intact when Open MPI drops collective messages on a communicator with a dead member.
//!
//! Open MPI 5.0.7 drops them without counting them. It then waits for each missing number before it accepts a later
//! message of the same sender on that communicator (pml_ob1_recvfrag.c:511 and 1101), so survivors cannot communicate
//! there. ringwatch delivers an empty message in place of each dropped one, with a tag that no receive matches. Nothing
//! is interposed before the first death.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cid::cid_hold;
use openmpi_internals::btl::{self, Descriptor, Receive, Segment};
use openmpi_internals::communicator::Internals;
use openmpi_internals::layout::coll_tag::{
    MCA_COLL_BASE_TAG_BASE, MCA_COLL_BASE_TAG_FT_BASE, MCA_COLL_BASE_TAG_FT_END,
};
use openmpi_internals::layout::ob1_header::{
    HDR_CTX, HDR_TAG, MCA_PML_OB1_HDR_TYPE_MATCH, MCA_PML_OB1_HDR_TYPE_RGET, MCA_PML_OB1_HDR_TYPE_RNDV,
    OMPI_PML_OB1_MATCH_HDR_LEN,
};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;

/// Header types that begin a message.
const KINDS: [usize; 3] =
    [MCA_PML_OB1_HDR_TYPE_MATCH as usize, MCA_PML_OB1_HDR_TYPE_RNDV as usize, MCA_PML_OB1_HDR_TYPE_RGET as usize];
const OURS: [Receive; 3] = [receive::<0>, receive::<1>, receive::<2>];
/// Tags of fault tolerant collectives. Open MPI uses the last one in `MPI_COMM_SELF` only.
const FAULT_TOLERANT: std::ops::RangeInclusive<c_int> = MCA_COLL_BASE_TAG_FT_END..=MCA_COLL_BASE_TAG_FT_BASE;

/// The stock receivers of those messages.
static STOCK: [OnceLock<Receive>; 3] = [const { OnceLock::new() }; 3];
static IS_INTERPOSED: AtomicBool = AtomicBool::new(false);

/// Interposes on the receivers of first fragments, before the collectives of a communicator are interrupted.
pub fn stand_first() {
    if !IS_INTERPOSED.load(Ordering::Acquire) && Internals::fitting().is_some() {
        Library::loaded().iter().for_each(interpose);
        IS_INTERPOSED.store(true, Ordering::Release);
    }
}

/// Interposes again after Open MPI has registered its receivers anew.
pub fn stand_again(library: &Library) {
    if IS_INTERPOSED.load(Ordering::Acquire) {
        interpose(library);
    }
}

fn interpose(library: &Library) {
    for ((kind, ours), stock) in KINDS.into_iter().zip(OURS).zip(&STOCK) {
        // SAFETY: each message also goes to the stock receiver.
        unsafe { btl::stand(library, kind, ours, stock) };
    }
}

/// Receives the first fragment of a message.
unsafe extern "C" fn receive<const KIND: usize>(transport: Object, message: *const Descriptor) {
    // SAFETY: Open MPI passes a message, which goes to the stock receiver.
    unsafe {
        // Read first: the stock receiver may reuse the memory.
        let substitute = Header::read(message).filter(Header::is_dropped).map(Header::without_contents);
        if let Some(stock) = STOCK[KIND].get() {
            stock(transport, message);
        }
        if let (Some(substitute), Some(stock)) = (substitute, STOCK[0].get()) {
            let segment = Segment { message: substitute.0.as_ptr(), length: OMPI_PML_OB1_MATCH_HDR_LEN as u64 };
            let empty = Descriptor {
                segments: &raw const segment,
                segment_count: 1,
                tag: MCA_PML_OB1_HDR_TYPE_MATCH,
                ..*message
            };
            stock(transport, &raw const empty);
        }
    }
}

/// The matching header, with which every message begins.
struct Header([u8; OMPI_PML_OB1_MATCH_HDR_LEN]);

impl Header {
    /// # Safety
    /// A message.
    unsafe fn read(message: *const Descriptor) -> Option<Self> {
        // SAFETY: as required of the caller; it has a segment of at least that length.
        unsafe {
            let segment = (*message).segments;
            ((*message).segment_count > 0 && (*segment).length >= OMPI_PML_OB1_MATCH_HDR_LEN as u64)
                .then(|| Self((*segment).message.cast::<[u8; OMPI_PML_OB1_MATCH_HDR_LEN]>().read()))
        }
    }

    /// Whether Open MPI drops the message although later ones are accepted. A revoked communicator accepts none, so
    /// false there.
    fn is_dropped(&self) -> bool {
        let Some(mpi) = Internals::fitting().filter(|_| self.is_of_collective()) else { return false };
        cid_hold::communicator(self.context_id()).is_some_and(|comm| {
            // SAFETY: a communicator with this context id is live.
            unsafe { mpi.has_no_collectives(comm) && !mpi.is_revoked(comm) }
        })
    }

    /// The context id of its communicator at this process.
    fn context_id(&self) -> c_int {
        c_int::from(u16::from_ne_bytes([self.0[HDR_CTX], self.0[HDR_CTX + 1]]))
    }

    /// Whether it belongs to a collective operation that a death interrupts.
    fn is_of_collective(&self) -> bool {
        let tag =
            c_int::from_ne_bytes([self.0[HDR_TAG], self.0[HDR_TAG + 1], self.0[HDR_TAG + 2], self.0[HDR_TAG + 3]]);
        tag <= MCA_COLL_BASE_TAG_BASE && !FAULT_TOLERANT.contains(&tag)
    }

    fn without_contents(mut self) -> Self {
        self.0[0] = MCA_PML_OB1_HDR_TYPE_MATCH;
        self.0[HDR_TAG..HDR_TAG + 4].copy_from_slice(&MCA_COLL_BASE_TAG_FT_END.to_ne_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, number: u16, tag: c_int) -> Header {
        let mut bytes = [0; OMPI_PML_OB1_MATCH_HDR_LEN];
        bytes[0] = kind;
        bytes[HDR_CTX..HDR_CTX + 2].copy_from_slice(&number.to_ne_bytes());
        bytes[HDR_TAG..HDR_TAG + 4].copy_from_slice(&tag.to_ne_bytes());
        Header(bytes)
    }

    #[test]
    fn messages_of_the_program_and_of_failures_are_not_those_of_collectives() {
        let tags = [0, 7, -1, -6, -7, -16, -26, -27, -30, -31];
        let are_collective = tags.map(|tag| message(MCA_PML_OB1_HDR_TYPE_MATCH, 3, tag).is_of_collective());
        assert_eq!(are_collective, [false, false, false, false, true, true, true, false, false, true]);
    }

    #[test]
    fn what_takes_the_place_of_a_message_keeps_its_communicator_and_its_place_in_the_sequence() {
        let whole = message(0x42, 515, -16);
        let (number, sequence) = (whole.context_id(), whole.0[12..14].to_vec());
        let empty = whole.without_contents();
        assert_eq!((empty.context_id(), number), (515, 515));
        assert_eq!(empty.0[0], MCA_PML_OB1_HDR_TYPE_MATCH, "it has no contents");
        assert!(!empty.is_of_collective(), "nobody asks for it");
        assert_eq!(empty.0[12..14], sequence[..]);
    }
}
