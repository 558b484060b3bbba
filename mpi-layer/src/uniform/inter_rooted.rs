//! Makes `MPI_Reduce` and `MPI_Gather` of an intercommunicator report a death to the root.
//!
//! Open MPI 5.0.7 implements them as the same operation within the sending group, and a message from that group's first
//! member to the root (coll_inter_reduce.c, coll_inter_gather.c). It sends this message even if the operation in the
//! group has failed: with a dead member the root received undefined data, and success. ringwatch sends the message only
//! after success. Otherwise the root waits for it until the death ends the wait. Messages and their order are Open
//! MPI's.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use crate::in_front;
use crate::uniform::request_errors;
use openmpi_internals::communicator::{GATHER, Internals, REDUCE};
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::layout::coll_tag::{MCA_COLL_BASE_TAG_GATHER, MCA_COLL_BASE_TAG_REDUCE};
use openmpi_internals::layout::mpi::{MPI_PROC_NULL, MPI_ROOT};
use openmpi_internals::layout::pml::{PML_RECV, PML_SEND};
use openmpi_internals::layout::send_mode::MCA_PML_BASE_SEND_SYNCHRONOUS;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::pml::Messages;

type Extent = unsafe extern "C" fn(Object, *mut isize, *mut isize) -> c_int;
type Receive = unsafe extern "C" fn(Object, usize, Object, c_int, c_int, Object, *mut c_void) -> c_int;
type Send = unsafe extern "C" fn(*const c_void, usize, Object, c_int, c_int, c_int, Object) -> c_int;
type Gather = unsafe extern "C" fn(Object, c_int, Object, Object, c_int, Object, c_int, Object, Object) -> c_int;
type Reduce = unsafe extern "C" fn(Object, Object, c_int, Object, Object, c_int, Object, Object) -> c_int;

struct Stock {
    messages: Messages,
    extent: Extent,
    true_extent: Extent,
    other_size: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
}

impl Stock {
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Stock>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    /// `None` if this Open MPI lacks a symbol.
    fn find(library: &Library) -> Option<Self> {
        // SAFETY: the types are those of mpi.h and pml.h.
        unsafe {
            Some(Self {
                messages: Messages::find(library)?,
                extent: library.standard(c"PMPI_Type_get_extent")?,
                true_extent: library.standard(c"PMPI_Type_get_true_extent")?,
                other_size: library.standard(c"PMPI_Comm_remote_size")?,
            })
        }
    }

    /// A buffer for `count` elements, and the address of the first one in it.
    ///
    /// # Safety
    /// `datatype` is a datatype.
    unsafe fn buffer(&self, count: usize, datatype: Object) -> (Vec<u8>, Object) {
        let (mut low, mut extent, mut true_low, mut true_extent) = (0, 0, 0, 0);
        // SAFETY: as required of the caller; the pointer is used with that type, whose lowest byte is inside the
        // buffer.
        unsafe {
            (self.extent)(datatype, &mut low, &mut extent);
            (self.true_extent)(datatype, &mut true_low, &mut true_extent);
            let further = count.saturating_sub(1).saturating_mul(extent.unsigned_abs());
            let mut memory = vec![0_u8; true_extent.unsigned_abs().saturating_add(further).max(1)];
            let first = memory.as_mut_ptr().wrapping_offset(-true_low);
            (memory, first.cast())
        }
    }
}

/// Puts the functions in the table of an intercommunicator that has its collectives.
pub fn make(mpi: &Internals, comm: Object) {
    if Stock::get().is_none() || !mpi.is_intercommunicator(comm) {
        return;
    }
    // SAFETY: the communicator is live, and no other thread calls its collectives while it is being made.
    let table = unsafe { mpi.table(comm) };
    table[GATHER].function = gather as Object;
    table[REDUCE].function = reduce as Object;
}

/// The operation at a member of the group without the root. `send` needs the group's result in its buffer.
struct Part<'a> {
    mpi: &'a Internals,
    stock: &'a Stock,
    comm: Object,
    root: c_int,
    tag: c_int,
}

impl Part<'_> {
    /// # Safety
    /// Open MPI's arguments: a buffer for `count` elements at the root.
    unsafe fn receive(&self, recvbuf: Object, count: usize, datatype: Object) -> c_int {
        // SAFETY: as required of the caller; the status is not used.
        unsafe {
            let receive = self.stock.messages.function::<Receive>(PML_RECV);
            receive(recvbuf, count, datatype, 0, self.tag, self.comm, std::ptr::null_mut())
        }
    }

    /// Sends the group's result. `within` runs the operation within the group into a buffer, with the function and the
    /// module of the group's communicator.
    ///
    /// # Safety
    /// `count` elements of a datatype.
    unsafe fn send(
        &self,
        slot: usize,
        count: usize,
        datatype: Object,
        within: impl FnOnce(Object, Object, Object, Object) -> c_int,
    ) -> c_int {
        // SAFETY: as required of the caller; the local side lives as long as the communicator, and has its collectives.
        unsafe {
            let Some(side) = Internals::own_side_of(self.comm) else { return ERR_INTERN };
            let (_memory, first) = self.stock.buffer(count, datatype);
            let entry = &self.mpi.table(side)[slot];
            let code = within(entry.function, first, side, entry.module);
            if code != 0 || self.mpi.rank_in(self.comm) != 0 {
                return code;
            }
            let send = self.stock.messages.function::<Send>(PML_SEND);
            send(first.cast_const(), count, datatype, self.root, self.tag, MCA_PML_BASE_SEND_SYNCHRONOUS, self.comm)
        }
    }
}

/// Runs `part` of an operation; returns its code.
fn carry_out(comm: Object, root: c_int, tag: c_int, part: impl FnOnce(Part) -> c_int) -> c_int {
    let found = Internals::fitting().zip(Stock::get());
    let code = in_front::run(found, ERR_INTERN, |(mpi, stock)| part(Part { mpi, stock, comm, root, tag }));
    request_errors::ended(code, comm)
}

unsafe extern "C" fn gather(
    sendbuf: Object,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: Object,
    recvcount: c_int,
    recvtype: Object,
    root: c_int,
    comm: Object,
    _: Object,
) -> c_int {
    let number = |count: c_int| usize::try_from(count).unwrap_or(0);
    // SAFETY: the arguments are Open MPI's; the function of that slot gets matching arguments.
    carry_out(comm, root, MCA_COLL_BASE_TAG_GATHER, |part| unsafe {
        match root {
            MPI_PROC_NULL => 0,
            MPI_ROOT => {
                let mut others = 0;
                (part.stock.other_size)(comm, &mut others);
                part.receive(recvbuf, number(recvcount) * number(others), recvtype)
            }
            _ => {
                let all = number(sendcount) * number(part.mpi.size_of(comm));
                part.send(GATHER, all, sendtype, |function, first, side, module| {
                    transmute::<Object, Gather>(function)(
                        sendbuf, sendcount, sendtype, first, sendcount, sendtype, 0, side, module,
                    )
                })
            }
        }
    })
}

unsafe extern "C" fn reduce(
    sendbuf: Object,
    recvbuf: Object,
    count: c_int,
    datatype: Object,
    op: Object,
    root: c_int,
    comm: Object,
    _: Object,
) -> c_int {
    let number = usize::try_from(count).unwrap_or(0);
    // SAFETY: as above.
    carry_out(comm, root, MCA_COLL_BASE_TAG_REDUCE, |part| unsafe {
        match root {
            MPI_PROC_NULL => 0,
            MPI_ROOT => part.receive(recvbuf, number, datatype),
            _ => part.send(REDUCE, number, datatype, |function, first, side, module| {
                transmute::<Object, Reduce>(function)(sendbuf, first, count, datatype, op, 0, side, module)
            }),
        }
    })
}
