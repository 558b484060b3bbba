//! Lets leaders agree on an intercommunicator's context id over a bridge that has dead members.
//!
//! Two leaders may use a bridge in which processes outside their groups have died. Open MPI 5.0.7 agrees on the context
//! id there with a tag of collectives (`OMPI_COMM_ALLREDUCE_TAG` in `ompi_comm_allreduce_bridged_reduce_complete`,
//! comm_cid.c), and fails messages with such a tag once any member is dead. While a step of the constructor sends and
//! receives, ringwatch interposes on the PML's functions and replaces the tag by one outside the range of collectives.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::in_front::in_front;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::layout::coll_tag::OMPI_COMM_ALLREDUCE_TAG;
use openmpi_internals::layout::pml::{PML_IRECV, PML_ISEND};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::MCA_PML;

/// The replacement tag. Programs cannot use it, and Open MPI does not.
pub const CONTEXT_ID_TAG: c_int = -6;
pub type Receive = unsafe extern "C" fn(*mut c_void, usize, Object, c_int, c_int, Object, *mut *mut Request) -> c_int;
#[rustfmt::skip]
pub type Send =
    unsafe extern "C" fn(*const c_void, usize, Object, c_int, c_int, c_int, Object, *mut *mut Request) -> c_int;

struct Stock {
    table: usize,
    receive: Receive,
    send: Send,
}

static STOCK: OnceLock<Option<Stock>> = OnceLock::new();
/// Bridges with a step in progress.
static PRESENT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Whether the interposed send function applies [`tag_of`] itself.
static IS_SEND_TAKEN: AtomicBool = AtomicBool::new(false);

/// Calls `stand`, which interposes a send function that applies [`tag_of`] itself and stays from then on.
pub fn take_send(stand: impl FnOnce()) {
    // No step begins or ends while the lock is held.
    let _all = lock(&PRESENT);
    IS_SEND_TAKEN.store(true, Ordering::Release);
    stand();
}

/// Runs a step of a constructor whose leaders communicate over `bridge`.
pub fn step<T>(bridge: usize, step: impl FnOnce() -> T) -> T {
    let Some(stock) = STOCK.get_or_init(Stock::find) else { return step() };
    {
        let mut all = lock(&PRESENT);
        if all.is_empty() {
            stock.put(receive, send);
        }
        all.push(bridge);
    }
    let result = step();
    let mut all = lock(&PRESENT);
    let index = all.iter().position(|one| *one == bridge);
    index.into_iter().for_each(|index| _ = all.swap_remove(index));
    if all.is_empty() {
        stock.put(stock.receive, stock.send);
    }
    result
}

impl Stock {
    /// `None` if this Open MPI has no such table.
    fn find() -> Option<Self> {
        let table = Library::loaded()?.variable(MCA_PML)?.cast::<Object>();
        // SAFETY: the types are those of pml.h.
        unsafe {
            Some(Self {
                table: table as usize,
                receive: table.add(PML_IRECV).cast::<Option<Receive>>().read()?,
                send: table.add(PML_ISEND).cast::<Option<Send>>().read()?,
            })
        }
    }

    /// Writes the functions into the table. The caller holds the lock of [`PRESENT`]. Threads that call the previous
    /// functions meanwhile see no difference except for messages with the replaced tag.
    fn put(&self, receive: Receive, send: Send) {
        let table = self.table as *mut Object;
        // SAFETY: the slots hold functions of these types.
        unsafe {
            table.add(PML_IRECV).cast::<Receive>().write_volatile(receive);
            if !IS_SEND_TAKEN.load(Ordering::Acquire) {
                table.add(PML_ISEND).cast::<Send>().write_volatile(send);
            }
        }
    }
}

/// The tag under which a message on `comm` is sent.
pub fn tag_of(tag: c_int, comm: Object) -> c_int {
    if tag == OMPI_COMM_ALLREDUCE_TAG && lock(&PRESENT).contains(&(comm as usize)) { CONTEXT_ID_TAG } else { tag }
}

in_front! { stock = STOCK.get().and_then(Option::as_ref), or ERR_INTERN;
    unsafe extern "C" fn receive(
        buffer: *mut c_void, count: usize, datatype: Object, source: c_int, tag: c_int, comm: Object,
        request: *mut *mut Request
    ) -> c_int {
        // SAFETY: the stock function with its original arguments except the tag.
        unsafe { (stock.receive)(buffer, count, datatype, source, tag_of(tag, comm), comm, request) }
    }

    unsafe extern "C" fn send(
        buffer: *const c_void, count: usize, datatype: Object, dest: c_int, tag: c_int, mode: c_int, comm: Object,
        request: *mut *mut Request
    ) -> c_int {
        // SAFETY: as above.
        unsafe { (stock.send)(buffer, count, datatype, dest, tag_of(tag, comm), mode, comm, request) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_about_numbers_on_a_bridge_in_use_have_another_tag() {
        let (bridge, other) = (0x1000 as Object, 0x2000 as Object);
        assert_eq!(tag_of(OMPI_COMM_ALLREDUCE_TAG, bridge), OMPI_COMM_ALLREDUCE_TAG);
        lock(&PRESENT).push(bridge as usize);
        assert_eq!(tag_of(OMPI_COMM_ALLREDUCE_TAG, bridge), CONTEXT_ID_TAG);
        assert_eq!(tag_of(OMPI_COMM_ALLREDUCE_TAG, other), OMPI_COMM_ALLREDUCE_TAG);
        assert_eq!(tag_of(7, bridge), 7);
        lock(&PRESENT).clear();
    }
}
