//! Lets members without data or peers in a collective operation take part in its outcome.
//!
//! Open MPI 5.0.7 returns success from these functions before it calls a component if there is nothing to send or
//! receive (bcast.c and similar files): at a member of an intercommunicator that passes `MPI_PROC_NULL` and a count of
//! 0, at a member without neighbours, and at all members if all counts are 0. Members that know of a death by then
//! return an error. In a uniform communicator all members must agree. So programs call ringwatch's functions instead.
//! They call Open MPI's, which check the arguments. If that call has not reached the operation, the member agrees on it
//! with the others.

use std::ffi::{CStr, c_int, c_void};
use std::mem::{transmute, transmute_copy};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::failure::error_report;
use crate::uniform::operations;
use openmpi_internals::abi::CollBaseRetain;
use openmpi_internals::functions::{OMPI_COLL_BASE_RETAIN_DATATYPES, OMPI_COLL_BASE_RETAIN_OP};
use openmpi_internals::in_front;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::coll::{
    ALLGATHER, ALLGATHERV, ALLREDUCE, ALLTOALL, BCAST, EXSCAN, GATHER, NEIGHBOR, NONBLOCKING, PERSISTENT, REDUCE,
    REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, SCATTER,
};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::symbol_table::{self, Replacement};

/// Number of these functions.
const PLACES: usize = 22;

/// Open MPI's functions, indexed as [`FUNCTIONS`]. All are set before any of ours is called.
static STOCK: [AtomicPtr<c_void>; PLACES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES];

/// Functions of Open MPI that retain the datatypes and operations of a request.
struct Keepers {
    retain_types: CollBaseRetain,
    retain_operation: CollBaseRetain,
}

static KEEPERS: OnceLock<Keepers> = OnceLock::new();

/// Makes programs call our functions. At the end of `MPI_Init`.
pub fn install(_: &Installer) -> Result<(), Missing> {
    if are_announced() { Ok(()) } else { Err(Missing::Calls(FUNCTIONS[0].0[1])) }
}

/// Announces our functions to the dynamic linker: at the end of `MPI_Init`, or with the first communicator that is
/// uniform, or has scope global and one member. Returns whether that succeeded.
pub fn are_announced() -> bool {
    static ARE_ANNOUNCED: OnceLock<bool> = OnceLock::new();
    *ARE_ANNOUNCED.get_or_init(|| Library::loaded().and_then(|library| announce(&library)).unwrap_or(false))
}

fn announce(library: &Library) -> Option<bool> {
    for (place, (names, _)) in STOCK.iter().zip(FUNCTIONS) {
        place.store(library.present(names[0])?, Ordering::Relaxed);
    }
    // SAFETY: the types are those of mpi.h and of coll_base_util.h.
    unsafe {
        let keepers = Keepers {
            retain_types: library.function(OMPI_COLL_BASE_RETAIN_DATATYPES)?,
            retain_operation: library.function(OMPI_COLL_BASE_RETAIN_OP)?,
        };
        KEEPERS.set(keepers).ok()?;
        Some(symbol_table::announce(&replacements()))
    }
}

/// Open MPI's own function of this name. A symbol lookup may return ours instead.
pub fn stock_named(name: &CStr) -> Option<*const c_void> {
    let place = FUNCTIONS.iter().position(|(names, _)| names.contains(&name))?;
    let kept = STOCK[place].load(Ordering::Relaxed);
    if kept.is_null() {
        Library::loaded()?.symbol(name).map(<*mut _>::cast_const)
    } else {
        Some(in_front::stock(kept.cast_const()))
    }
}

fn replacements() -> Vec<Replacement> {
    let stock = STOCK.iter().map(|function| function.load(Ordering::Relaxed).cast_const());
    FUNCTIONS.into_iter().zip(stock).map(|((names, ours), stock)| Replacement { names, stock, ours }).collect()
}

/// Makes programs call our functions, with the first communicator whose collectives are uniform. Returns whether they
/// do, so that members without data or peers take part.
pub fn hear_all() -> bool {
    static ARE_CALLED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the types are those of mpi.h.
    let take_calls = || unsafe { symbol_table::take_calls(&replacements()) };
    are_announced() && *ARE_CALLED.get_or_init(take_calls)
}

/// Open MPI's function at this index of [`FUNCTIONS`].
///
/// # Safety
/// After they are set; `F` is that function's pointer type.
#[inline(always)]
unsafe fn stock<F: Copy>(place: usize) -> F {
    // SAFETY: as required of the caller.
    unsafe { transmute_copy(&STOCK[place].load(Ordering::Relaxed)) }
}

/// Defines blocking functions for these indices. Without uniform communicators they jump to Open MPI's functions. The
/// rest is a separate function, because it would save registers first.
macro_rules! blocking {
    ($($ours:ident $place:literal $name:literal $slot:expr, ($($word:ident: $type:ty),*);)*) => {$(
        unsafe extern "C-unwind" fn $ours($($word: $type,)* comm: Object) -> c_int {
            type Function = unsafe extern "C-unwind" fn($($type,)* Object) -> c_int;

            #[cold]
            #[inline(never)]
            unsafe extern "C-unwind" fn take_part($($word: $type,)* comm: Object) -> c_int {
                // SAFETY: as below.
                finish(comm, $slot, $name, || unsafe { stock::<Function>($place)($($word,)* comm) })
            }

            // SAFETY: Open MPI's function with its original arguments; it is set before ours is reachable.
            unsafe {
                if operations::are_there() {
                    take_part($($word,)* comm)
                } else {
                    stock::<Function>($place)($($word,)* comm)
                }
            }
        }
    )*};
}

blocking! {
    allgather 0 c"MPI_Allgather" ALLGATHER, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int, recvtype: Object
    );
    allgatherv 1 c"MPI_Allgatherv" ALLGATHERV, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcounts: Object,
        displs: Object, recvtype: Object
    );
    allreduce 2 c"MPI_Allreduce" ALLREDUCE, (sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object);
    alltoall 3 c"MPI_Alltoall" ALLTOALL, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int, recvtype: Object
    );
    bcast 4 c"MPI_Bcast" BCAST, (buffer: Object, count: c_int, datatype: Object, root: c_int);
    exscan 5 c"MPI_Exscan" EXSCAN, (sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object);
    gather 6 c"MPI_Gather" GATHER, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int,
        recvtype: Object, root: c_int
    );
    reduce 7 c"MPI_Reduce" REDUCE, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object, root: c_int
    );
    reduce_scatter 8 c"MPI_Reduce_scatter" REDUCE_SCATTER, (
        sendbuf: Object, recvbuf: Object, recvcounts: Object, datatype: Object, op: Object
    );
    reduce_scatter_block 9 c"MPI_Reduce_scatter_block" REDUCE_SCATTER_BLOCK, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object
    );
    scan 10 c"MPI_Scan" SCAN, (sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object);
    scatter 11 c"MPI_Scatter" SCATTER, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int,
        recvtype: Object, root: c_int
    );
    neighbor_allgather 12 c"MPI_Neighbor_allgather" NEIGHBOR, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int, recvtype: Object
    );
    neighbor_alltoall 13 c"MPI_Neighbor_alltoall" NEIGHBOR + 2, (
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int, recvtype: Object
    );
}

/// The same for nonblocking or persistent functions. Each names the function of [`Stock`] that retains the needs of its
/// request, and two arguments for it.
macro_rules! begun {
    ($persistent:literal: $(
        $ours:ident $place:literal $name:literal $slot:expr, ($($word:ident: $type:ty),*) ($($info:ident)?)
        $retain:ident($first:ident, $second:expr);
    )*) => {$(
        unsafe extern "C-unwind" fn $ours(
            $($word: $type,)* comm: Object, $($info: Object,)? request: *mut *mut Request
        ) -> c_int {
            type Function = unsafe extern "C-unwind" fn(
                $($type,)* Object, $(begun!(@object $info),)? *mut *mut Request
            ) -> c_int;
            type OfTable = unsafe extern "C" fn(
                $($type,)* Object, $(begun!(@object $info),)? *mut *mut Request, Object
            ) -> c_int;

            #[cold]
            #[inline(never)]
            unsafe extern "C-unwind" fn take_part(
                $($word: $type,)* comm: Object, $($info: Object,)? request: *mut *mut Request
            ) -> c_int {
                // SAFETY: as below.
                let call = || unsafe { stock::<Function>($place)($($word,)* comm, $($info,)? request) };
                // SAFETY: the function of that slot with the same arguments, and a request of its own.
                let begin = |function, module, own: *mut *mut Request| unsafe {
                    let code = transmute::<Object, OfTable>(function)($($word,)* comm, $($info,)? own, module);
                    if let (0, Some(keepers)) = (code, KEEPERS.get()) {
                        (keepers.$retain)(*own, $first, $second);
                    }
                    code
                };
                // SAFETY: a communicator that Open MPI has checked if the call succeeds, and the place of its request.
                unsafe { start::<$persistent>(comm, $slot, $name, request, call, begin) }
            }

            // SAFETY: as for the blocking functions.
            unsafe {
                if operations::are_there() {
                    take_part($($word,)* comm, $($info,)? request)
                } else {
                    stock::<Function>($place)($($word,)* comm, $($info,)? request)
                }
            }
        }
    )*};
    (@object $info:ident) => { Object };
}

begun! { false:
    iallreduce 14 c"MPI_Iallreduce" NONBLOCKING + ALLREDUCE, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object
    ) () retain_operation(op, datatype);
    ibcast 15 c"MPI_Ibcast" NONBLOCKING + BCAST, (
        buffer: Object, count: c_int, datatype: Object, root: c_int
    ) () retain_types(datatype, std::ptr::null_mut());
    ireduce 16 c"MPI_Ireduce" NONBLOCKING + REDUCE, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object, root: c_int
    ) () retain_operation(op, datatype);
    ireduce_scatter 17 c"MPI_Ireduce_scatter" NONBLOCKING + REDUCE_SCATTER, (
        sendbuf: Object, recvbuf: Object, recvcounts: Object, datatype: Object, op: Object
    ) () retain_operation(op, datatype);
    ireduce_scatter_block 18 c"MPI_Ireduce_scatter_block" NONBLOCKING + REDUCE_SCATTER_BLOCK, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object
    ) () retain_operation(op, datatype);
}

begun! { true:
    allreduce_init 19 c"MPI_Allreduce_init" PERSISTENT + ALLREDUCE, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object
    ) (info) retain_operation(op, datatype);
    reduce_init 20 c"MPI_Reduce_init" PERSISTENT + REDUCE, (
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object, root: c_int
    ) (info) retain_operation(op, datatype);
    reduce_scatter_init 21 c"MPI_Reduce_scatter_init" PERSISTENT + REDUCE_SCATTER, (
        sendbuf: Object, recvbuf: Object, recvcounts: Object, datatype: Object, op: Object
    ) (info) retain_operation(op, datatype);
}

/// Both names of each function, and our function.
const FUNCTIONS: [([&CStr; 2], *const c_void); PLACES] = [
    ([c"PMPI_Allgather", c"MPI_Allgather"], allgather as *const _),
    ([c"PMPI_Allgatherv", c"MPI_Allgatherv"], allgatherv as *const _),
    ([c"PMPI_Allreduce", c"MPI_Allreduce"], allreduce as *const _),
    ([c"PMPI_Alltoall", c"MPI_Alltoall"], alltoall as *const _),
    ([c"PMPI_Bcast", c"MPI_Bcast"], bcast as *const _),
    ([c"PMPI_Exscan", c"MPI_Exscan"], exscan as *const _),
    ([c"PMPI_Gather", c"MPI_Gather"], gather as *const _),
    ([c"PMPI_Reduce", c"MPI_Reduce"], reduce as *const _),
    ([c"PMPI_Reduce_scatter", c"MPI_Reduce_scatter"], reduce_scatter as *const _),
    ([c"PMPI_Reduce_scatter_block", c"MPI_Reduce_scatter_block"], reduce_scatter_block as *const _),
    ([c"PMPI_Scan", c"MPI_Scan"], scan as *const _),
    ([c"PMPI_Scatter", c"MPI_Scatter"], scatter as *const _),
    ([c"PMPI_Neighbor_allgather", c"MPI_Neighbor_allgather"], neighbor_allgather as *const _),
    ([c"PMPI_Neighbor_alltoall", c"MPI_Neighbor_alltoall"], neighbor_alltoall as *const _),
    ([c"PMPI_Iallreduce", c"MPI_Iallreduce"], iallreduce as *const _),
    ([c"PMPI_Ibcast", c"MPI_Ibcast"], ibcast as *const _),
    ([c"PMPI_Ireduce", c"MPI_Ireduce"], ireduce as *const _),
    ([c"PMPI_Ireduce_scatter", c"MPI_Ireduce_scatter"], ireduce_scatter as *const _),
    ([c"PMPI_Ireduce_scatter_block", c"MPI_Ireduce_scatter_block"], ireduce_scatter_block as *const _),
    ([c"PMPI_Allreduce_init", c"MPI_Allreduce_init"], allreduce_init as *const _),
    ([c"PMPI_Reduce_init", c"MPI_Reduce_init"], reduce_init as *const _),
    ([c"PMPI_Reduce_scatter_init", c"MPI_Reduce_scatter_init"], reduce_scatter_init as *const _),
];

/// Ends a blocking call: a member that Open MPI gave no part agrees on the operation. Returns the code, which the error
/// handler has seen.
fn finish(comm: Object, slot: usize, name: &'static CStr, call: impl FnOnce() -> c_int) -> c_int {
    let (code, was_reached) = operations::reaches(call);
    if code != 0 || was_reached || operations::function_of(comm, slot).is_none() {
        return code;
    }
    let code = operations::finish(comm, slot, |_| 0);
    if code != 0 {
        error_report::raise(comm, code, name);
    }
    code
}

/// Ends a nonblocking or persistent call: a member without a part has an idle request of Open MPI, and gets a request
/// of the operation in which all take part.
///
/// # Safety
/// A live communicator if `call` succeeds, and the place of the request; `begin` calls a function of a table with its
/// module.
unsafe fn start<const PERSISTS: bool>(
    comm: Object,
    slot: usize,
    name: &'static CStr,
    request: *mut *mut Request,
    call: impl FnOnce() -> c_int,
    begin: impl FnOnce(Object, Object, *mut *mut Request) -> c_int,
) -> c_int {
    let (code, was_reached) = operations::reaches(call);
    let Some((function, module)) = (if code != 0 || was_reached { None } else { operations::function_of(comm, slot) })
    else {
        return code;
    };
    // SAFETY: as required of the caller; the idle request is not used yet.
    unsafe {
        let (idle, mut own) = (*request, std::ptr::null_mut());
        // In an intercommunicator other members may have a part: all have to count the operation then.
        let is_of_two = operations::is_intercommunicator(comm);
        let code = match (is_of_two, PERSISTS) {
            (true, _) => begin(function, module, &mut own),
            (false, false) => operations::start(comm, slot, &mut own, |_, _| 0),
            (false, true) => operations::prepare(comm, slot, &mut own, |_, place| {
                place.write(idle);
                0
            }),
        };
        if code != 0 {
            error_report::raise(comm, code, name);
            return code;
        }
        if is_of_two || !PERSISTS {
            Request::give_back(idle);
        }
        request.write(own);
    }
    0
}
