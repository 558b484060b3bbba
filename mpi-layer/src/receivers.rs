//! Who receives the messages that Open MPI's transports bring: a table of functions by the kind of message (btl.h).

use crate::objects::Object;
use crate::openmpi::Library;

/// `mca_btl_base_receive_descriptor_t`, with one segment.
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

/// Has `ours` receive the messages of a kind; returns who did until now, `None` if nobody did, and then nobody does.
///
/// # Safety
/// Nobody else runs in MPI. `keep` makes the one who did known to `ours` before the first message can come.
pub unsafe fn stand(library: &Library, kind: usize, ours: Receive, keep: impl FnOnce(Receive)) -> Option<()> {
    let receivers = library.symbol(c"mca_btl_base_active_message_trigger")?;
    // SAFETY: an array of pairs, function and argument, of btl.h; nobody else runs in MPI, as required of the caller.
    unsafe {
        let receiver = receivers.cast::<[Object; 2]>().add(kind).cast::<Option<Receive>>();
        keep(receiver.read()?);
        receiver.write(Some(ours));
    }
    Some(())
}
