//! Interposes on the receivers of messages that Open MPI's transports deliver: a table of functions by message tag
//! (btl.h).

use std::mem::offset_of;
use std::sync::OnceLock;

use crate::loaded::Library;
use crate::object::Object;
use crate::v5_0::layout;
use crate::v5_0::variables::MCA_BTL_BASE_ACTIVE_MESSAGE_TRIGGER;

/// `mca_btl_base_receive_descriptor_t`
#[repr(C)]
pub struct Descriptor {
    /// The endpoint that sent the message; null if it was passed on.
    pub endpoint: Object,
    /// Its parts.
    pub segments: *const Segment,
    /// Number of parts.
    pub segment_count: usize,
    /// The kind of message.
    pub tag: u8,
    /// The argument registered with the receiver.
    pub context: Object,
}

/// `mca_btl_base_segment_t`
#[repr(C)]
pub struct Segment {
    /// Its first byte.
    pub message: *const u8,
    /// Bytes.
    pub length: u64,
}

const _: () = assert!(offset_of!(Descriptor, endpoint) == layout::btl_received::ENDPOINT);
const _: () = assert!(offset_of!(Descriptor, segments) == layout::btl_received::DES_SEGMENTS);
const _: () = assert!(offset_of!(Descriptor, segment_count) == layout::btl_received::DES_SEGMENT_COUNT);
const _: () = assert!(offset_of!(Descriptor, tag) == layout::btl_received::TAG);
const _: () = assert!(offset_of!(Descriptor, context) == layout::btl_received::CBDATA);
const _: () = assert!(size_of::<Descriptor>() == layout::btl_received::SIZE);
const _: () = assert!(offset_of!(Segment, message) == layout::btl_segment::SEG_ADDR);
const _: () = assert!(offset_of!(Segment, length) == layout::btl_segment::SEG_LEN);
const _: () = assert!(size_of::<Segment>() == layout::btl_segment::SIZE);
const _: () = assert!(size_of::<[Object; 2]>() == layout::btl_receiver::SIZE && layout::btl_receiver::CBFUNC == 0);

/// `mca_btl_base_module_recv_cb_fn_t`: the transport, and the message.
pub type Receive = unsafe extern "C" fn(Object, *const Descriptor);

/// Makes `ours` the receiver of the messages of a tag, and stores the previous receiver in `stock`. Returns false,
/// without a change, if there is no receiver.
///
/// # Safety
/// `kind` is less than 256, and `ours` passes every message that it does not consume to `stock`.
pub unsafe fn stand(library: &Library, kind: usize, ours: Receive, stock: &OnceLock<Receive>) -> bool {
    let Some(receivers) = library.variable(MCA_BTL_BASE_ACTIVE_MESSAGE_TRIGGER) else { return false };
    // SAFETY: an array of pairs, function and argument, of btl.h, whose words are written atomically. A concurrent
    // reader gets one function or the other.
    unsafe {
        let receiver = receivers.cast::<[Object; 2]>().add(kind).cast::<Option<Receive>>();
        let Some(present) = receiver.read_volatile() else { return false };
        if !std::ptr::fn_addr_eq(present, ours) {
            let _ = stock.set(present);
            receiver.write_volatile(Some(ours));
        }
    }
    true
}
