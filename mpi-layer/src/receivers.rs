//! Who receives the messages that Open MPI's transports bring: a table of functions by the kind of message (btl.h).

use std::sync::OnceLock;

use crate::objects::Object;
use crate::openmpi::Library;

/// `mca_btl_base_receive_descriptor_t`
#[repr(C)]
pub struct Descriptor {
    /// Where the message has come from; null if it was handed on.
    pub endpoint: Object,
    pub segments: *const Segment,
    pub segment_count: usize,
    pub tag: u8,
    pub context: Object,
}

/// `mca_btl_base_segment_t`
#[repr(C)]
pub struct Segment {
    pub message: *const u8,
    pub length: u64,
}

/// `mca_btl_base_module_recv_cb_fn_t`: the transport, and the message.
pub type Receive = unsafe extern "C" fn(Object, *const Descriptor);

/// Has `ours` receive the messages of a kind; whoever did so before is in `stock` then. False if nobody did, and then nobody
/// does.
///
/// # Safety
/// `kind` is less than 256, and `ours` hands to `stock` what it does not take itself.
pub unsafe fn stand(library: &Library, kind: usize, ours: Receive, stock: &OnceLock<Receive>) -> bool {
    let Some(receivers) = library.symbol(c"mca_btl_base_active_message_trigger") else { return false };
    // SAFETY: an array of pairs, function and argument, of btl.h, whose words are written at once. Whoever reads one meanwhile
    // gets the one function or the other.
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
