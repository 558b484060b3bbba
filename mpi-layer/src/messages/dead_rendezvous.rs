//! Drops rendezvous messages of dead processes, and ends receives whose sender has died.
//!
//! A rendezvous takes several steps; each end names the other's request by its address. Open MPI ends requests that
//! involve a dead process and reuses them. Fragments that the process sent earlier may arrive later: the report of a
//! death can overtake them, and a broken link can hold them until it recovers. Open MPI then applies them to the reused
//! request. Survivors crashed (`mca_pml_ob1_send_request_put`, `mca_pml_ob1_recv_frag_callback_ack`), waited for ever,
//! or received wrong data. So ringwatch drops every fragment that names requests if its sender is dead.
//!
//! TCP writes incoming data into the receiver's memory on its own. So before a request whose data has begun to arrive
//! is ended, ringwatch closes the connection. It closes no other connection: a live process behind a broken link would
//! notice that when the link recovers, and would continue on its own until it is terminated.
//!
//! Open MPI does not end a receive from any source whose message has begun to arrive from a dead process: it waits for
//! other senders. ringwatch ends it like a receive from that process. A receive that waits for fetch resources stays in
//! a list when it is ended, and the next use of its request corrupts the list. ringwatch removes it from the list
//! first.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock};

use crate::failure::deaths;
use crate::in_front::in_front;
use crate::messages::{sequence_gaps, tcp_to_the_dead};
use openmpi_internals::abi::RequestIsFailed;
use openmpi_internals::btl::{self, Descriptor, Receive};
use openmpi_internals::functions::OMPI_REQUEST_IS_FAILED_FN;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::mpi::MPI_ANY_SOURCE;
use openmpi_internals::layout::ob1_header::{
    MCA_PML_OB1_HDR_TYPE_ACK, MCA_PML_OB1_HDR_TYPE_FIN, MCA_PML_OB1_HDR_TYPE_FRAG, MCA_PML_OB1_HDR_TYPE_PUT,
};
use openmpi_internals::layout::{ob1, ob1_recv_request, pml_request};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::{Object, take_out};
use openmpi_internals::probe;
use openmpi_internals::proc;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{MCA_PML, MCA_PML_BASE_REQUEST_T_CLASS, MCA_PML_OB1};

/// Header types of fragments that name requests by address.
const KINDS: [usize; 4] = [
    MCA_PML_OB1_HDR_TYPE_ACK as usize,
    MCA_PML_OB1_HDR_TYPE_FRAG as usize,
    MCA_PML_OB1_HDR_TYPE_PUT as usize,
    MCA_PML_OB1_HDR_TYPE_FIN as usize,
];
const OURS: [Receive; 4] = [receive::<0>, receive::<1>, receive::<2>, receive::<3>];

/// `mca_pml_base_module_add_procs_fn_t`
type AddProcesses = unsafe extern "C" fn(*const Object, usize) -> c_int;

/// The stock receivers of those fragments.
static STOCK: [OnceLock<Receive>; 4] = [const { OnceLock::new() }; 4];
static STOCK_IS_FAILED: OnceLock<RequestIsFailed> = OnceLock::new();
static STOCK_ADD_PROCESSES: OnceLock<AddProcesses> = OnceLock::new();
static OB1: OnceLock<usize> = OnceLock::new();

/// Set once `MPI_Finalize` has torn the library down: no endpoints and transports are left.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Endpoints of dead processes; `None` if they are to be recomputed after a death.
static FROM_THE_DEAD: Mutex<Option<BTreeSet<usize>>> = Mutex::new(None);

/// Interposes on the receivers of those fragments. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    if !proc::are_known() || !has_known_requests(at)? {
        return Err(Missing::Layout);
    }
    // If a type has no receiver, messages are not those of pml/ob1, and this protection is not needed.
    if !interpose(at.library()) {
        return Ok(());
    }
    let pml = at.variable(MCA_PML)?.cast::<AddProcesses>();
    // SAFETY: the types are those of pml.h and req_ft.h, and ours have the same; the thread in MPI_Init is alone in
    // MPI.
    unsafe {
        let _ =
            (OB1.set(at.variable(MCA_PML_OB1)? as usize), STOCK_IS_FAILED.set(at.function(OMPI_REQUEST_IS_FAILED_FN)?));
        let _ = STOCK_ADD_PROCESSES.set(pml.read());
        pml.write(add_processes);
    }
    // Deaths are known already in MPI_Init.
    if deaths::are_known() {
        interpose_on_failure_check();
    }
    Ok(())
}

fn has_known_requests(at: &Installer) -> Result<bool, Missing> {
    let class = at.variable(MCA_PML_BASE_REQUEST_T_CLASS)?;
    // SAFETY: a class of Open MPI.
    Ok(unsafe { probe::has_size(class, pml_request::SIZE) })
}

fn interpose(library: &Library) -> bool {
    // SAFETY: fragments that are not dropped go to the stock receiver.
    let interposed = |((kind, ours), stock)| unsafe { btl::stand(library, kind, ours, stock) };
    KINDS.into_iter().zip(OURS).zip(&STOCK).all(interposed)
}

/// Handles the death of a communicator's member. The first call interposes on the check whether a request has failed.
/// Each wait makes that check, so it stays untouched until then.
pub fn member_died() {
    *lock(&FROM_THE_DEAD) = None;
    interpose_on_failure_check();
}

fn interpose_on_failure_check() {
    static FIRST: Once = Once::new();
    if let (Some(library), Some(_)) = (Library::loaded(), STOCK_IS_FAILED.get()) {
        // SAFETY: our function calls the stock one.
        FIRST.call_once(|| _ = unsafe { library.stand(OMPI_REQUEST_IS_FAILED_FN, is_failed) });
    }
}

/// Notes that `MPI_Finalize` has torn the library down.
pub fn closed() {
    IS_OVER.store(true, Ordering::Release);
    *lock(&FROM_THE_DEAD) = None;
}

/// Whether a message or a request can involve a dead process.
fn can_be_from_the_dead() -> bool {
    deaths::are_known() && !IS_OVER.load(Ordering::Acquire)
}

/// Whether an endpoint leads to a dead process.
fn leads_to_the_dead(endpoint: Object) -> bool {
    lock(&FROM_THE_DEAD).get_or_insert_with(proc::of_the_dead).contains(&(endpoint as usize))
}

/// Receives a fragment of one of the [`KINDS`].
unsafe extern "C" fn receive<const KIND: usize>(transport: Object, message: *const Descriptor) {
    // SAFETY: Open MPI passes a message, which goes to the stock receiver.
    unsafe {
        if can_be_from_the_dead() && leads_to_the_dead((*message).endpoint) {
            return;
        }
        if let Some(stock) = STOCK[KIND].get() {
            stock(transport, message);
        }
    }
}

in_front! { stock = STOCK_ADD_PROCESSES.get(), or 0;
    /// pml/ob1 registers its receivers again whenever processes are added.
    unsafe extern "C" fn add_processes(processes: *const Object, count: usize) -> c_int {
        // SAFETY: Open MPI's own function with its own arguments.
        let code = unsafe { stock(processes, count) };
        Library::loaded().iter().for_each(|library| {
            interpose(library);
            sequence_gaps::stand_again(library);
        });
        code
    }
}

in_front! { stock = STOCK_IS_FAILED.get(), or false;
    unsafe extern "C" fn is_failed(request: *mut Request) -> bool {
        // SAFETY: Open MPI passes a live request, and the stock function gets the same.
        unsafe {
            let sender = if can_be_from_the_dead() { sender(request) } else { None };
            let Some(process) = sender.filter(|process| proc::is_dead(*process)) else {
                return stock(request);
            };
            tcp_to_the_dead::cut(process);
            stop_waiting_for_room(request);
            let peer = request.byte_add(pml_request::REQ_PEER).cast::<c_int>();
            if peer.read() != MPI_ANY_SOURCE {
                return stock(request);
            }
            peer.write(Request::source(request));
            let failed = stock(request);
            peer.write(MPI_ANY_SOURCE);
            failed
        }
    }
}

/// The sender of a message that has begun, but not finished, to arrive for this request.
///
/// # Safety
/// A live request.
unsafe fn sender(request: *mut Request) -> Option<usize> {
    // SAFETY: as required of the caller; the request of a message has these fields.
    unsafe {
        let is_arriving = Request::is_message(request)
            && request.byte_add(pml_request::REQ_TYPE).cast::<c_int>().read() == pml_request::MCA_PML_REQUEST_RECV
            && !Request::is_complete(request)
            && Request::has_begun_to_arrive(request);
        is_arriving.then(|| request.byte_add(pml_request::REQ_PROC).cast::<usize>().read())
    }
}

/// Removes a receive request from the list of those that wait for fetch resources.
///
/// # Safety
/// The request of a receive.
unsafe fn stop_waiting_for_room(request: *mut Request) {
    let Some(ob1) = OB1.get().map(|address| *address as Object) else { return };
    // SAFETY: as required of the caller; the lock protects the list, and the request is searched for in it.
    unsafe {
        let mutex = ob1.byte_add(ob1::LOCK).cast::<libc::pthread_mutex_t>();
        libc::pthread_mutex_lock(mutex);
        let waits = request.byte_add(ob1_recv_request::REQ_PENDING).cast::<bool>();
        if waits.read() && take_out(request.cast(), ob1.byte_add(ob1::RECV_PENDING)) {
            waits.write(false);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
