//! Members that have nothing to do in a collective operation, and hear of its outcome all the same.
//!
//! From these functions Open MPI 5.0.7 returns with success before it calls anything of a component where there is nothing to send or to
//! get: at a member of two groups that gives `MPI_PROC_NULL` and a count of 0, at one without neighbours, and at all where all counts are 0
//! (bcast.c and its kin). Whoever is told of a death before that has an error instead. Where the communicator is uniform such a member is
//! asked for its part in the outcome as everybody else: functions of ours call Open MPI's, which looks at the arguments, and if that
//! has not come to the operation they take part.

use std::ffi::{CStr, c_int, c_void};
use std::mem::{transmute, transmute_copy};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::bindings::{self, Replacement};
use crate::internals::{ALLREDUCE, BCAST, GATHER, NEIGHBOR, NONBLOCKING, PERSISTENT, REDUCE, SCATTER};
use crate::objects::Object;
use crate::openmpi::Library;
use crate::requests::Request;
use crate::{errors, uniform};

/// Of a table of collectives, as those of [`internals`](crate::internals).
const ALLGATHER: usize = 0;
const ALLGATHERV: usize = 1;
const ALLTOALL: usize = 3;
const EXSCAN: usize = 8;
const REDUCE_SCATTER: usize = 12;
const REDUCE_SCATTER_BLOCK: usize = 13;
const SCAN: usize = 14;

/// How many functions they are.
const PLACES: usize = 22;

type Retain = unsafe extern "C" fn(*mut Request, Object, Object) -> c_int;

/// Open MPI's functions at the places of [`FUNCTIONS`], all there before anybody calls one of ours.
static STOCK: [AtomicPtr<c_void>; PLACES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES];

/// Functions of Open MPI that keep the types and operations that a request needs.
struct Keepers {
    retain_types: Retain,
    retain_operation: Retain,
}

static KEEPERS: OnceLock<Keepers> = OnceLock::new();

/// Has programs know of ours, at the end of `MPI_Init` or with the first uniform communicator. Returns whether they do.
pub fn watch() -> bool {
    static ARE_ANNOUNCED: OnceLock<bool> = OnceLock::new();
    *ARE_ANNOUNCED.get_or_init(|| Library::loaded().and_then(|library| stand(&library)).unwrap_or(false))
}

fn stand(library: &Library) -> Option<bool> {
    for (place, (names, _)) in STOCK.iter().zip(FUNCTIONS) {
        place.store(library.symbol(names[0])?, Ordering::Relaxed);
    }
    // SAFETY: the types are those of mpi.h and of coll_base_util.h.
    unsafe {
        let keepers = Keepers {
            retain_types: library.function(c"ompi_coll_base_retain_datatypes")?,
            retain_operation: library.function(c"ompi_coll_base_retain_op")?,
        };
        KEEPERS.set(keepers).ok()?;
        Some(bindings::announce(&replacements()))
    }
}

fn replacements() -> Vec<Replacement> {
    let stock = STOCK.iter().map(|function| function.load(Ordering::Relaxed).cast_const());
    FUNCTIONS.into_iter().zip(stock).map(|((names, ours), stock)| Replacement { names, stock, ours }).collect()
}

/// Has programs call ours, with the first communicator whose collectives are uniform. Returns whether they do, so that those who have
/// nothing to do are heard.
pub fn hear_all() -> bool {
    static ARE_CALLED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the types are those of mpi.h.
    let take_calls = || unsafe { bindings::take_calls(&replacements()) };
    watch() && *ARE_CALLED.get_or_init(take_calls)
}

/// Open MPI's function at this place of [`FUNCTIONS`].
///
/// # Safety
/// Once they are there; a type of pointers to functions that is that function's.
#[inline(always)]
unsafe fn stock<F: Copy>(place: usize) -> F {
    // SAFETY: as required of the caller.
    unsafe { transmute_copy(&STOCK[place].load(Ordering::Relaxed)) }
}

/// Functions in place of the ones at these places. Without uniform communicators they jump to Open MPI's own: what else is done
/// stands by itself, since its registers would have to be saved first.
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

            // SAFETY: Open MPI's function with the arguments that were meant for it; it is there before anybody knows of ours.
            unsafe {
                if uniform::are_there() {
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
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object
    );
    allgatherv 1 c"MPI_Allgatherv" ALLGATHERV, (
        sent: Object, count: c_int, kind: Object, got: Object, room: Object, places: Object, as_kind: Object
    );
    allreduce 2 c"MPI_Allreduce" ALLREDUCE, (sent: Object, got: Object, count: c_int, kind: Object, operation: Object);
    alltoall 3 c"MPI_Alltoall" ALLTOALL, (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object
    );
    bcast 4 c"MPI_Bcast" BCAST, (data: Object, count: c_int, kind: Object, root: c_int);
    exscan 5 c"MPI_Exscan" EXSCAN, (sent: Object, got: Object, count: c_int, kind: Object, operation: Object);
    gather 6 c"MPI_Gather" GATHER, (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object, root: c_int
    );
    reduce 7 c"MPI_Reduce" REDUCE, (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object, root: c_int
    );
    reduce_scatter 8 c"MPI_Reduce_scatter" REDUCE_SCATTER, (
        sent: Object, got: Object, counts: Object, kind: Object, operation: Object
    );
    reduce_scatter_block 9 c"MPI_Reduce_scatter_block" REDUCE_SCATTER_BLOCK, (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object
    );
    scan 10 c"MPI_Scan" SCAN, (sent: Object, got: Object, count: c_int, kind: Object, operation: Object);
    scatter 11 c"MPI_Scatter" SCATTER, (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object, root: c_int
    );
    neighbor_allgather 12 c"MPI_Neighbor_allgather" NEIGHBOR, (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object
    );
    neighbor_alltoall 13 c"MPI_Neighbor_alltoall" NEIGHBOR + 2, (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object
    );
}

/// The same of those that do not block, or of persistent ones; each with the function of [`Stock`] that keeps what its request needs, and
/// two of its arguments for that.
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
                // SAFETY: the function of that slot with the same arguments; the request is its own.
                let begin = |function, module, own: *mut *mut Request| unsafe {
                    let code = transmute::<Object, OfTable>(function)($($word,)* comm, $($info,)? own, module);
                    if let (0, Some(keepers)) = (code, KEEPERS.get()) {
                        (keepers.$retain)(*own, $first, $second);
                    }
                    code
                };
                // SAFETY: a communicator that Open MPI has looked at if that has success, and the place of its request.
                unsafe { start::<$persistent>(comm, $slot, $name, request, call, begin) }
            }

            // SAFETY: as of those that block.
            unsafe {
                if uniform::are_there() {
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
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object
    ) () retain_operation(operation, kind);
    ibcast 15 c"MPI_Ibcast" NONBLOCKING + BCAST, (
        data: Object, count: c_int, kind: Object, root: c_int
    ) () retain_types(kind, std::ptr::null_mut());
    ireduce 16 c"MPI_Ireduce" NONBLOCKING + REDUCE, (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object, root: c_int
    ) () retain_operation(operation, kind);
    ireduce_scatter 17 c"MPI_Ireduce_scatter" NONBLOCKING + REDUCE_SCATTER, (
        sent: Object, got: Object, counts: Object, kind: Object, operation: Object
    ) () retain_operation(operation, kind);
    ireduce_scatter_block 18 c"MPI_Ireduce_scatter_block" NONBLOCKING + REDUCE_SCATTER_BLOCK, (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object
    ) () retain_operation(operation, kind);
}

begun! { true:
    allreduce_init 19 c"MPI_Allreduce_init" PERSISTENT + ALLREDUCE, (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object
    ) (info) retain_operation(operation, kind);
    reduce_init 20 c"MPI_Reduce_init" PERSISTENT + REDUCE, (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object, root: c_int
    ) (info) retain_operation(operation, kind);
    reduce_scatter_init 21 c"MPI_Reduce_scatter_init" PERSISTENT + REDUCE_SCATTER, (
        sent: Object, got: Object, counts: Object, kind: Object, operation: Object
    ) (info) retain_operation(operation, kind);
}

/// Both names of each function, and ours.
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

/// A blocking call: a member for whom Open MPI had nothing to do agrees on the operation. Returns the code, of which the error handler
/// knows.
fn finish(comm: Object, slot: usize, name: &'static CStr, call: impl FnOnce() -> c_int) -> c_int {
    let (code, was_reached) = uniform::reaches(call);
    if code != 0 || was_reached || uniform::function_of(comm, slot).is_none() {
        return code;
    }
    let code = uniform::finish(comm, slot, |_| 0);
    if code != 0 {
        errors::raise(comm, code, name);
    }
    code
}

/// One that does not block, or a persistent one: such a member has the request without effect that Open MPI gives for that, and gets
/// one of the operation that all have a part in.
///
/// # Safety
/// A communicator that lives if `call` has success, and the place of the request; `begin` calls the function of a table with its module.
unsafe fn start<const PERSISTS: bool>(
    comm: Object,
    slot: usize,
    name: &'static CStr,
    request: *mut *mut Request,
    call: impl FnOnce() -> c_int,
    begin: impl FnOnce(Object, Object, *mut *mut Request) -> c_int,
) -> c_int {
    let (code, was_reached) = uniform::reaches(call);
    let Some((function, module)) = (if code != 0 || was_reached { None } else { uniform::function_of(comm, slot) })
    else {
        return code;
    };
    // SAFETY: as required of the caller; nobody has used the request that is there.
    unsafe {
        let (idle, mut own) = (*request, std::ptr::null_mut());
        // Of two groups some may have something to do: all have to count the operation then.
        let is_of_two = uniform::is_intercommunicator(comm);
        let code = match (is_of_two, PERSISTS) {
            (true, _) => begin(function, module, &mut own),
            (false, false) => uniform::start(comm, slot, &mut own, |_, _| 0),
            (false, true) => uniform::prepare(comm, slot, &mut own, |_, place| {
                place.write(idle);
                0
            }),
        };
        if code != 0 {
            errors::raise(comm, code, name);
            return code;
        }
        if is_of_two || !PERSISTS {
            Request::give_back(idle);
        }
        request.write(own);
    }
    0
}
