//! Large messages that are given up because their other end is dead.
//!
//! They take several steps, in which each end names the other one's request by its address. Open MPI gives up those with a
//! process that it holds dead, and uses their requests for others. What the process had sent about them may come later: the
//! news of a death overtakes it, and a cut link keeps it until it is whole again. Then it is taken for the other message's:
//! survivors crashed (`mca_pml_ob1_send_request_put`, `mca_pml_ob1_recv_frag_callback_ack`), waited for ever, and got other
//! data than had been sent. So what names requests is dropped when it comes from the dead. And TCP writes what it brings
//! for a message into the receiver's memory by itself: before one that has begun to arrive is given up, the connection is
//! closed.
//!
//! A message that was received from anybody is not given up by Open MPI when it has begun to arrive from the dead: it waits
//! for others who might send it. Here it is one from whom it comes.
//!
//! Offsets are those of pml_base_request.h on x86-64; ompi_request_is_failed_fn of 5.0 reads the same.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::endpoints;
use crate::line::lock;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::receivers::{self, Descriptor, Receive};
use crate::requests::Request;

/// `MCA_PML_OB1_HDR_TYPE_ACK`, `_FRAG`, `_PUT` and `_FIN`: what names requests by their addresses.
const KINDS: [usize; 4] = [0x44, 0x46, 0x48, 0x49];
const OURS: [Receive; 4] = [receive::<0>, receive::<1>, receive::<2>, receive::<3>];
/// Of `mca_pml_base_request_t`: its type, the rank of its other end, and the process.
const TYPE: usize = 0xa8;
const PEER: usize = 0x1e8;
const PROCESS: usize = 0x1f0;
/// `MCA_PML_REQUEST_RECV`
const RECEIVE: c_int = 2;
/// `MPI_ANY_SOURCE`
const ANYBODY: c_int = -1;
const IS_FAILED: &CStr = c"ompi_request_is_failed_fn";

/// Whether an operation has failed, which ends it.
type IsFailed = unsafe extern "C" fn(*mut Request) -> bool;

/// Who received those messages.
static STOCK: [OnceLock<Receive>; 4] = [const { OnceLock::new() }; 4];
static STOCK_IS_FAILED: OnceLock<IsFailed> = OnceLock::new();
static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);
/// The endpoints of the dead; `None` since somebody died.
static FROM_THE_DEAD: Mutex<Option<BTreeSet<usize>>> = Mutex::new(None);

/// Stands where those messages are received, and where operations are asked whether they have failed. Once, at the end of
/// `MPI_Init`.
pub fn watch() {
    let Some(library) = Library::loaded().filter(|_| endpoints::are_known()) else { return };
    let stands = |((kind, ours), stock): ((usize, Receive), &'static OnceLock<Receive>)| {
        let keep = |receive| {
            let _ = stock.set(receive);
        };
        // SAFETY: whoever is in MPI_Init is alone in MPI.
        unsafe { receivers::stand(&library, kind, ours, keep) }.is_some()
    };
    // Without a receiver for each kind messages are not those of pml/ob1, and neither are their requests.
    if !KINDS.into_iter().zip(OURS).zip(&STOCK).all(stands) {
        return;
    }
    // SAFETY: the type is that of req_ft.h; the function in its place has the same.
    unsafe {
        if let Some(stock) = library.function(IS_FAILED) {
            let _ = STOCK_IS_FAILED.set(stock);
            library.redirect(IS_FAILED, is_failed as *const c_void);
        }
    }
}

/// A member of a communicator is dead.
pub fn member_died() {
    *lock(&FROM_THE_DEAD) = None;
    SOMEBODY_DIED.store(true, Ordering::Release);
}

/// Whether an endpoint is one of the dead.
fn leads_to_the_dead(endpoint: Object) -> bool {
    lock(&FROM_THE_DEAD).get_or_insert_with(endpoints::of_the_dead).contains(&(endpoint as usize))
}

/// A message of one of the [`KINDS`].
unsafe extern "C" fn receive<const KIND: usize>(transport: Object, message: *const Descriptor) {
    // SAFETY: Open MPI passes a message, for whoever received it before.
    unsafe {
        if SOMEBODY_DIED.load(Ordering::Acquire) && leads_to_the_dead((*message).endpoint) {
            return;
        }
        if let Some(stock) = STOCK[KIND].get() {
            stock(transport, message);
        }
    }
}

unsafe extern "C" fn is_failed(request: *mut Request) -> bool {
    let Some(stock) = STOCK_IS_FAILED.get() else { return false };
    // SAFETY: Open MPI passes a request that lives, and its own function gets the same.
    unsafe {
        let Some(process) = Some(request).filter(|_| SOMEBODY_DIED.load(Ordering::Acquire)).and_then(|one| sender(one))
        else {
            return stock(request);
        };
        if !endpoints::is_dead(process as usize) {
            return stock(request);
        }
        endpoints::cut(process as usize);
        let peer = request.byte_add(PEER).cast::<c_int>();
        let before = peer.read();
        if before == ANYBODY {
            peer.write(Request::source(request));
        }
        let failed = stock(request);
        peer.write(before);
        failed
    }
}

/// The process from which a message has begun to arrive for this request, and has not yet arrived.
///
/// # Safety
/// A request that lives.
unsafe fn sender(request: *mut Request) -> Option<Object> {
    // SAFETY: as required of the caller; a message's request has these words.
    unsafe {
        let is_arriving = Request::is_message(request)
            && request.byte_add(TYPE).cast::<c_int>().read() == RECEIVE
            && !Request::is_complete(request)
            && Request::has_begun_to_arrive(request);
        is_arriving.then(|| request.byte_add(PROCESS).cast::<Object>().read())
    }
}
