//! Large messages that are given up because their other end is dead.
//!
//! They take several steps, in which each end names the other one's request by its address. Open MPI gives up those with a
//! process that it holds dead, and uses their requests for others. What the process had sent about them may come later: the
//! news of a death overtakes it, and a cut link keeps it until it is whole again. Then it is taken for the other message's:
//! survivors crashed (`mca_pml_ob1_send_request_put`, `mca_pml_ob1_recv_frag_callback_ack`), waited for ever, and got other
//! data than had been sent. So what names requests is dropped when it comes from the dead. And TCP writes what it brings
//! for a message into the receiver's memory by itself: before one that has begun to arrive is given up, the connection is
//! closed. No other connection is: those who are held dead behind a cut link would see that when it is whole again, and go on
//! by themselves until they are ended.
//!
//! A message that was received from anybody is not given up by Open MPI when it has begun to arrive from the dead: it waits
//! for others who might send it. Here it is one from whom it comes. And one that waits for room to be fetched stays in a list
//! when it is given up, which the next use of its request would tear: it is taken out of it.
//!
//! Offsets are those of pml_base_request.h, pml_ob1.h and pml_ob1_recvreq.h on x86-64.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock};

use crate::endpoints;
use crate::gaps;
use crate::line::lock;
use crate::objects::{Class, Object, take_out};
use crate::openmpi::Library;
use crate::receivers::{self, Descriptor, Receive};
use crate::requests::Request;

/// `MCA_PML_OB1_HDR_TYPE_ACK`, `_FRAG`, `_PUT` and `_FIN`: what names requests by their addresses.
const KINDS: [usize; 4] = [0x44, 0x46, 0x48, 0x49];
const OURS: [Receive; 4] = [receive::<0>, receive::<1>, receive::<2>, receive::<3>];
/// Of `mca_pml_base_request_t`: its size, its type, the rank of its other end, and the process.
const SIZE: usize = 0x200;
const TYPE: usize = 0xa8;
const PEER: usize = 0x1e8;
const PROCESS: usize = 0x1f0;
/// `MCA_PML_REQUEST_RECV`
const RECEIVE: c_int = 2;
/// `MPI_ANY_SOURCE`
const ANYBODY: c_int = -1;
/// Of `mca_pml_ob1_recv_request_t`: it waits for room. Of `mca_pml_ob1_t`: its lock, and the list of those that do.
const WAITS_FOR_ROOM: usize = 0x240;
const LOCK: usize = 0x100;
const WAITING: usize = 0x890;

const IS_FAILED: &CStr = c"ompi_request_is_failed_fn";

/// Whether an operation has failed, which ends it.
type IsFailed = unsafe extern "C" fn(*mut Request) -> bool;
/// `mca_pml_base_module_add_procs_fn_t`
type AddProcesses = unsafe extern "C" fn(*const Object, usize) -> c_int;

/// Who received those messages.
static STOCK: [OnceLock<Receive>; 4] = [const { OnceLock::new() }; 4];
static STOCK_IS_FAILED: OnceLock<IsFailed> = OnceLock::new();
static STOCK_ADD_PROCESSES: OnceLock<AddProcesses> = OnceLock::new();
static OB1: OnceLock<usize> = OnceLock::new();

static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);
/// The endpoints of the dead; `None` since somebody died.
static FROM_THE_DEAD: Mutex<Option<BTreeSet<usize>>> = Mutex::new(None);

/// Stands where those messages are received. At the end of `MPI_Init`.
pub fn watch() {
    let Some(library) = Library::loaded().filter(|_| endpoints::are_known()) else { return };
    // Without a receiver for each kind messages are not those of pml/ob1, and neither are their requests.
    if !has_known_requests(&library) || !stand(&library) {
        return;
    }
    // SAFETY: the types are those of pml.h and req_ft.h, and the function of ours has the same; whoever is in MPI_Init is
    // alone in MPI.
    unsafe {
        if let (Some(pml), None) = (library.symbol(c"mca_pml"), STOCK_ADD_PROCESSES.get()) {
            let add = pml.cast::<AddProcesses>();
            let _ = STOCK_ADD_PROCESSES.set(add.read());
            add.write(add_processes);
        }
        if let (Some(stock), Some(ob1)) = (library.function(IS_FAILED), library.symbol(c"mca_pml_ob1")) {
            let _ = (OB1.set(ob1 as usize), STOCK_IS_FAILED.set(stock));
        }
    }
    // In MPI_Init.
    if SOMEBODY_DIED.load(Ordering::Acquire) {
        stand_where_waits_end();
    }
}

fn has_known_requests(library: &Library) -> bool {
    // SAFETY: a class of Open MPI.
    let size = |class: Object| unsafe { (*class.cast::<Class>()).size };
    library.symbol(c"mca_pml_base_request_t_class").is_some_and(|class| size(class) == SIZE)
}

fn stand(library: &Library) -> bool {
    // SAFETY: what is not dropped goes to the one who stood there before.
    let stands = |((kind, ours), stock)| unsafe { receivers::stand(library, kind, ours, stock) };
    KINDS.into_iter().zip(OURS).zip(&STOCK).all(stands)
}

/// A member of a communicator is dead. The first time this stands where operations are asked whether they have failed: until
/// then nobody is in the way of that, which every wait does.
pub fn member_died() {
    *lock(&FROM_THE_DEAD) = None;
    SOMEBODY_DIED.store(true, Ordering::Release);
    stand_where_waits_end();
}

fn stand_where_waits_end() {
    static FIRST: Once = Once::new();
    if let (Some(library), Some(_)) = (Library::loaded(), STOCK_IS_FAILED.get()) {
        // SAFETY: the type is that of req_ft.h, and the function of ours has the same.
        FIRST.call_once(|| unsafe {
            library.redirect(IS_FAILED, is_failed as *const c_void);
        });
    }
}

/// `MPI_Finalize` has taken the library apart.
pub fn closed() {
    SOMEBODY_DIED.store(false, Ordering::Release);
    *lock(&FROM_THE_DEAD) = None;
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

/// pml/ob1 says who receives its messages whenever processes are made known to it.
unsafe extern "C" fn add_processes(processes: *const Object, count: usize) -> c_int {
    // SAFETY: Open MPI's own function with its own arguments.
    let code = STOCK_ADD_PROCESSES.get().map_or(0, |stock| unsafe { stock(processes, count) });
    Library::loaded().iter().for_each(|library| {
        stand(library);
        gaps::stand_again(library);
    });
    code
}

unsafe extern "C" fn is_failed(request: *mut Request) -> bool {
    let Some(stock) = STOCK_IS_FAILED.get() else { return false };
    // SAFETY: Open MPI passes a request that lives, and its own function gets the same.
    unsafe {
        let sender = if SOMEBODY_DIED.load(Ordering::Acquire) { sender(request) } else { None };
        let Some(process) = sender.filter(|process| endpoints::is_dead(*process)) else {
            return stock(request);
        };
        endpoints::cut(process);
        stop_waiting_for_room(request);
        let peer = request.byte_add(PEER).cast::<c_int>();
        if peer.read() != ANYBODY {
            return stock(request);
        }
        peer.write(Request::source(request));
        let failed = stock(request);
        peer.write(ANYBODY);
        failed
    }
}

/// The process from which a message has begun to arrive for this request, and has not yet arrived.
///
/// # Safety
/// A request that lives.
unsafe fn sender(request: *mut Request) -> Option<usize> {
    // SAFETY: as required of the caller; a message's request has these words.
    unsafe {
        let is_arriving = Request::is_message(request)
            && request.byte_add(TYPE).cast::<c_int>().read() == RECEIVE
            && !Request::is_complete(request)
            && Request::has_begun_to_arrive(request);
        is_arriving.then(|| request.byte_add(PROCESS).cast::<usize>().read())
    }
}

/// Takes the request of a receive out of the list of those that wait for room.
///
/// # Safety
/// The request of a receive.
unsafe fn stop_waiting_for_room(request: *mut Request) {
    let Some(ob1) = OB1.get().map(|address| *address as Object) else { return };
    // SAFETY: as required of the caller; the list belongs to whoever has the lock, and the request is looked for in it.
    unsafe {
        let mutex = ob1.byte_add(LOCK).cast::<libc::pthread_mutex_t>();
        libc::pthread_mutex_lock(mutex);
        let waits = request.byte_add(WAITS_FOR_ROOM).cast::<bool>();
        if waits.read() && take_out(request.cast(), ob1.byte_add(WAITING)) {
            waits.write(false);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
