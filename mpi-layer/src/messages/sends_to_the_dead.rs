//! Makes messages to dead processes fail at once.
//!
//! Open MPI removes a connection on which a message failed from that process's list of connections (pml_ob1_sendreq.c,
//! `mca_pml_ob1_match_completion_free` and related functions). With an empty list, a later message reads an invalid
//! address (`mca_bml_base_btl_array_get_next`). Programs with several pending nonblocking collectives, or with
//! persistent ones, send such messages. ringwatch sends nothing to a process that Open MPI holds dead.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

use crate::failure::{deaths, error_class};
use crate::in_front::in_front;
use crate::messages::bridge_tags;
use openmpi_internals::abi::{Isend, Send};
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_PROC_FAILED;
use openmpi_internals::functions::{MCA_PML_OB1_ISEND, MCA_PML_OB1_SEND};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::communicator::C_LOCAL_GROUP;
use openmpi_internals::layout::pml::{PML_ISEND, PML_SEND};
use openmpi_internals::object::Object;
use openmpi_internals::own_request;
use openmpi_internals::request::Request;
use openmpi_internals::variables::MCA_PML;
use openmpi_internals::{group, proc};

/// The PML's table, and the functions of pml/ob1.
struct Stock {
    table: usize,
    isend: Isend,
    send: Send,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Finds the send functions. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    if !proc::are_known() {
        return Err(Missing::Layout);
    }
    let table = at.variable(MCA_PML)?;
    // SAFETY: the types are those of pml.h.
    unsafe {
        let (isend, send): (Isend, Send) = (at.function(MCA_PML_OB1_ISEND)?, at.function(MCA_PML_OB1_SEND)?);
        let stands = |place, function| table.cast::<Object>().add(place).read() == function;
        // Another PML than pml/ob1 needs no protection.
        if stands(PML_ISEND, isend as Object) && stands(PML_SEND, send as Object) {
            let _ = STOCK.set(Stock { table: table as usize, isend, send });
        }
    }
    if deaths::are_known() {
        member_died();
    }
    Ok(())
}

/// Handles the death of a communicator's member. The first call interposes on the send functions, which stay untouched
/// until then.
pub fn member_died() {
    static FIRST: Once = Once::new();
    let Some(stock) = STOCK.get() else { return };
    FIRST.call_once(|| {
        bridge_tags::take_send(|| {
            for (place, function) in [(PML_ISEND, isend as Object), (PML_SEND, send as Object)] {
                // SAFETY: a word of that table, written atomically: a reader gets the old or the new function.
                unsafe { (*(stock.table as *const AtomicPtr<c_void>).add(place)).store(function, Ordering::Release) };
            }
        });
    });
}

/// The class with which a message to rank `dest` of a communicator fails.
///
/// # Safety
/// A live communicator.
unsafe fn failure(comm: Object, dest: c_int) -> Option<c_int> {
    let dest = usize::try_from(dest).ok()?;
    // SAFETY: as required of the caller; a process that is not resolved yet has an odd number instead of an address.
    unsafe {
        let [_, other] = comm.byte_add(C_LOCAL_GROUP).cast::<[Object; 2]>().read();
        let process = group::list(other)?.get(dest)?.load(Ordering::Acquire);
        let is_dead = process & 1 == 0 && proc::is_dead(process);
        is_dead.then(|| Internals::fitting().map_or(ERR_PROC_FAILED, |mpi| error_class::of_failure(mpi, comm)))
    }
}

in_front! { stock = STOCK.get(), or ERR_PROC_FAILED;
    unsafe extern "C-unwind" fn isend(
        buffer: *const c_void, count: usize, datatype: Object, dest: c_int, tag: c_int, mode: c_int, comm: Object,
        request: *mut *mut Request
    ) -> c_int {
        // SAFETY: Open MPI passes a live communicator, and a place for a request.
        unsafe {
            match (Internals::get(), failure(comm, dest)) {
                (Some(mpi), Some(class)) => own_request::fail(mpi, comm, class, request),
                _ => (stock.isend)(buffer, count, datatype, dest, bridge_tags::tag_of(tag, comm), mode, comm, request),
            }
        }
    }

    unsafe extern "C-unwind" fn send(
        buffer: *const c_void, count: usize, datatype: Object, dest: c_int, tag: c_int, mode: c_int, comm: Object
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            failure(comm, dest).unwrap_or_else(|| (stock.send)(buffer, count, datatype, dest, tag, mode, comm))
        }
    }
}
