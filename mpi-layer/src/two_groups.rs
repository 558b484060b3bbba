//! `MPI_Reduce` and `MPI_Gather` between two groups, whose root gets the result, or an error.
//!
//! Open MPI 5.0.7 makes them of one within the group, and of a message of its first member to the root, which that sends whatever
//! has become of the first (coll_inter_reduce.c and coll_inter_gather.c): with a dead member the root was given whatever lay in
//! memory, with success. Here that message is not sent then, and the root, which waits for it, hears of the death. Messages and
//! their order are Open MPI's.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::internals::{GATHER, Internals, REDUCE};
use crate::mended;
use crate::messages::Messages;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::statement::ERR_INTERN;

/// `MCA_COLL_BASE_TAG_GATHER` and `_REDUCE`
const GATHER_TAG: c_int = -19;
const REDUCE_TAG: c_int = -21;
/// Of `mca_pml_base_module_t`: those that block. And `MCA_PML_BASE_SEND_STANDARD`.
const RECEIVE: usize = 9;
const SEND: usize = 12;
const STANDARD: c_int = 0;
/// `MPI_PROC_NULL` and `MPI_ROOT`
const NOBODY: c_int = -2;
const ROOT: c_int = -4;

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

    /// `None` if this Open MPI lacks something.
    fn find(library: &Library) -> Option<Self> {
        // SAFETY: the types are those of mpi.h and pml.h.
        unsafe {
            Some(Self {
                messages: Messages::find(library)?,
                extent: library.function(c"PMPI_Type_get_extent")?,
                true_extent: library.function(c"PMPI_Type_get_true_extent")?,
                other_size: library.function(c"PMPI_Comm_remote_size")?,
            })
        }
    }

    /// Room for so many, and where in it the first one is put.
    ///
    /// # Safety
    /// A data type.
    unsafe fn room(&self, count: usize, kind: Object) -> (Vec<u8>, Object) {
        let (mut low, mut extent, mut true_low, mut true_extent) = (0, 0, 0, 0);
        // SAFETY: as required of the caller; the pointer is used as one of that type, whose lowest byte is in the room.
        unsafe {
            (self.extent)(kind, &mut low, &mut extent);
            (self.true_extent)(kind, &mut true_low, &mut true_extent);
            let further = count.saturating_sub(1).saturating_mul(extent.unsigned_abs());
            let mut room = vec![0_u8; true_extent.unsigned_abs().saturating_add(further).max(1)];
            let first = room.as_mut_ptr().wrapping_offset(-true_low);
            (room, first.cast())
        }
    }
}

/// Puts them in the table of a communicator that has its collectives, if it has two groups.
pub fn make(mpi: &Internals, comm: Object) {
    if Stock::get().is_none() || !mpi.is_intercommunicator(comm) {
        return;
    }
    // SAFETY: the communicator lives, and nobody calls its collectives while it is being made.
    let table = unsafe { mpi.table(comm) };
    table[GATHER].function = gather as Object;
    table[REDUCE].function = reduce as Object;
}

/// What a member of the group without the root has to send is in the room if the operation within the group has succeeded.
struct Part<'a> {
    mpi: &'a Internals,
    stock: &'a Stock,
    comm: Object,
    root: c_int,
    tag: c_int,
}

impl Part<'_> {
    /// # Safety
    /// Open MPI's arguments: room for so many at the root.
    unsafe fn receive(&self, room: Object, count: usize, kind: Object) -> c_int {
        // SAFETY: as required of the caller; nobody asks for the status.
        unsafe {
            let receive = self.stock.messages.function::<Receive>(RECEIVE);
            receive(room, count, kind, 0, self.tag, self.comm, std::ptr::null_mut())
        }
    }

    /// `within` has the group's own part put into some room, with the function and the module of the group's communicator.
    ///
    /// # Safety
    /// So many of a data type.
    unsafe fn send(
        &self,
        slot: usize,
        count: usize,
        kind: Object,
        within: impl FnOnce(Object, Object, Object, Object) -> c_int,
    ) -> c_int {
        // SAFETY: as required of the caller; the own side lives as long as the communicator, and has its collectives.
        unsafe {
            let Some(side) = Internals::own_side_of(self.comm) else { return ERR_INTERN };
            let (_room, first) = self.stock.room(count, kind);
            let entry = &self.mpi.table(side)[slot];
            let code = within(entry.function, first, side, entry.module);
            if code != 0 || self.mpi.rank_in(self.comm) != 0 {
                return code;
            }
            let send = self.stock.messages.function::<Send>(SEND);
            send(first.cast_const(), count, kind, self.root, self.tag, STANDARD, self.comm)
        }
    }
}

/// Runs `part` of an operation; returns its code.
fn carry_out(comm: Object, root: c_int, tag: c_int, part: impl FnOnce(Part) -> c_int) -> c_int {
    let run = || {
        let (Some(mpi), Some(stock)) = (Internals::fitting(), Stock::get()) else { return ERR_INTERN };
        part(Part { mpi, stock, comm, root, tag })
    };
    mended::ended(catch_unwind(AssertUnwindSafe(run)).unwrap_or(ERR_INTERN), comm)
}

unsafe extern "C" fn gather(
    sent: Object,
    count: c_int,
    kind: Object,
    got: Object,
    room: c_int,
    as_kind: Object,
    root: c_int,
    comm: Object,
    _: Object,
) -> c_int {
    let number = |count: c_int| usize::try_from(count).unwrap_or(0);
    // SAFETY: the arguments are Open MPI's; the function of that slot gets those that are meant for it.
    carry_out(comm, root, GATHER_TAG, |part| unsafe {
        match root {
            NOBODY => 0,
            ROOT => {
                let mut others = 0;
                (part.stock.other_size)(comm, &mut others);
                part.receive(got, number(room) * number(others), as_kind)
            }
            _ => {
                let all = number(count) * number(part.mpi.size_of(comm));
                part.send(GATHER, all, kind, |function, first, side, module| {
                    transmute::<Object, Gather>(function)(sent, count, kind, first, count, kind, 0, side, module)
                })
            }
        }
    })
}

unsafe extern "C" fn reduce(
    sent: Object,
    got: Object,
    count: c_int,
    kind: Object,
    operation: Object,
    root: c_int,
    comm: Object,
    _: Object,
) -> c_int {
    let number = usize::try_from(count).unwrap_or(0);
    // SAFETY: as above.
    carry_out(comm, root, REDUCE_TAG, |part| unsafe {
        match root {
            NOBODY => 0,
            ROOT => part.receive(got, number, kind),
            _ => part.send(REDUCE, number, kind, |function, first, side, module| {
                transmute::<Object, Reduce>(function)(sent, first, count, kind, operation, 0, side, module)
            }),
        }
    })
}
