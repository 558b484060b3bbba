//! Replaces functions in a communicator's table of collectives, one function per signature. There are two kinds:
//! uniform ones, and ones that only correct errors.

use std::ffi::c_int;
use std::mem::transmute;

use crate::properties::error_uniformity::Uniformity;
use crate::uniform::operations::{finish, prepare, start};
use crate::uniform::{inter_rooted, operations, pmpi_without_peers, request_errors};
use openmpi_internals::communicator::{
    BCAST, GATHER, INEIGHBOR, Internals, NEIGHBOR, NEIGHBOR_INIT, NONBLOCKING, PERSISTENT, REDUCE, SCATTER, SLOTS,
};
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;

/// Puts the correcting functions in the table of a communicator that has its collectives.
pub fn mend(comm: Object) {
    let Some(mpi) = Internals::fitting() else { return };
    // SAFETY: the communicator is live, and no other thread calls its collectives while it is being made.
    let table = unsafe { mpi.table(comm) };
    for (slot, function, _) in entries::<false>() {
        let entry = &mut table[slot];
        // SAFETY: the pointer beside a function is its module.
        if !entry.function.is_null() && unsafe { Internals::function_of(entry.module, slot) } == entry.function {
            entry.function = function;
        }
    }
    inter_rooted::make(mpi, comm);
}

/// Makes a communicator's operations uniform, or not uniform again. It has its collectives.
pub fn make_uniform(comm: Object, uniformity: Uniformity) {
    let (Some(mpi), Some(line)) = (Internals::get(), operations::line_for(comm, uniformity)) else { return };
    let functions = table(uniformity, line.has_two_groups(), &line.stock());
    // SAFETY: the communicator is live, and no other thread calls its collectives while its info changes.
    let slots = unsafe { mpi.table(comm) };
    slots.iter_mut().zip(functions).for_each(|(slot, function)| slot.function = function);
}

/// Defines the functions of one signature: blocking, nonblocking and persistent. Each is generic over the table's slot.
macro_rules! signatures {
    ($($blocking:ident $nonblocking:ident $persistent:ident ($($word:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $blocking<const SLOT: usize, const UNIFORM: bool>(
            $($word: $type,)* comm: Object, module: Object
        ) -> c_int {
            type Stock = unsafe extern "C" fn($($type,)* Object, Object) -> c_int;
            // SAFETY: the stock function of this slot with its original arguments.
            let call = |stock| unsafe { transmute::<Object, Stock>(stock)($($word,)* comm, module) };
            if UNIFORM {
                finish(comm, SLOT, call)
            } else {
                request_errors::ended(call(request_errors::stock(module, SLOT)), comm)
            }
        }

        unsafe extern "C" fn $nonblocking<const SLOT: usize, const UNIFORM: bool>(
            $($word: $type,)* comm: Object, request: *mut *mut Request, module: Object
        ) -> c_int {
            type Stock = unsafe extern "C" fn($($type,)* Object, *mut *mut Request, Object) -> c_int;
            let call = |stock, request| {
                // SAFETY: as above.
                unsafe { transmute::<Object, Stock>(stock)($($word,)* comm, request, module) }
            };
            if UNIFORM {
                start(comm, SLOT, request, call)
            } else {
                request_errors::begin(comm, SLOT, request, || call(request_errors::stock(module, SLOT), request))
            }
        }

        unsafe extern "C" fn $persistent<const SLOT: usize, const UNIFORM: bool>(
            $($word: $type,)* comm: Object, info: Object, request: *mut *mut Request, module: Object
        ) -> c_int {
            type Stock = unsafe extern "C" fn($($type,)* Object, Object, *mut *mut Request, Object) -> c_int;
            let call = |stock, request| {
                // SAFETY: as above.
                unsafe { transmute::<Object, Stock>(stock)($($word,)* comm, info, request, module) }
            };
            if UNIFORM {
                prepare(comm, SLOT, request, call)
            } else {
                request_errors::prepared(call(request_errors::stock(module, SLOT), request), request)
            }
        }
    )*};
}

signatures! {
    barrier ibarrier barrier_init();
    bcast ibcast bcast_init(buffer: Object, count: c_int, datatype: Object, root: c_int);
    exchange iexchange exchange_init(
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int, recvtype: Object
    );
    allgatherv iallgatherv allgatherv_init(
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcounts: Object,
        displs: Object, recvtype: Object
    );
    alltoallv ialltoallv alltoallv_init(
        sendbuf: Object, sendcounts: Object, sdispls: Object, sendtype: Object, recvbuf: Object,
        recvcounts: Object, rdispls: Object, recvtype: Object
    );
    fold ifold fold_init(sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object);
    reduce ireduce reduce_init(
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object, root: c_int
    );
    reduce_scatter ireduce_scatter reduce_scatter_init(
        sendbuf: Object, recvbuf: Object, recvcounts: Object, datatype: Object, op: Object
    );
    rooted irooted rooted_init(
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcount: c_int,
        recvtype: Object, root: c_int
    );
    gatherv igatherv gatherv_init(
        sendbuf: Object, sendcount: c_int, sendtype: Object, recvbuf: Object, recvcounts: Object,
        displs: Object, recvtype: Object, root: c_int
    );
    scatterv iscatterv scatterv_init(
        sendbuf: Object, sendcounts: Object, displs: Object, sendtype: Object, recvbuf: Object,
        recvcount: c_int, recvtype: Object, root: c_int
    );
}

/// A slot of the table, its uniform function, and whether Open MPI's constructors of communicators use it.
type Entry = (usize, Object, bool);

macro_rules! entries {
    ($uniform:ident $(($slot:expr, $signature:ident, $part:expr)),* $(,)?) => {
        [$(($slot, $signature::<{ $slot }, $uniform> as Object, $part)),*]
    };
}

/// All functions, in the order of coll.h.
fn entries<const UNIFORM: bool>() -> impl Iterator<Item = Entry> {
    let blocking = entries![
        UNIFORM(0, exchange, true),
        (1, allgatherv, false),
        (2, fold, true),
        (3, exchange, false),
        (4, alltoallv, false),
        (5, alltoallv, false),
        (6, barrier, false),
        (7, bcast, true),
        (8, fold, false),
        (9, rooted, false),
        (10, gatherv, false),
        (11, reduce, false),
        (12, reduce_scatter, false),
        (13, fold, true),
        (14, fold, false),
        (15, rooted, false),
        (16, scatterv, false),
    ];
    let neighbours = entries![
        UNIFORM(NEIGHBOR, exchange, false),
        (NEIGHBOR + 1, allgatherv, false),
        (NEIGHBOR + 2, exchange, false),
        (NEIGHBOR + 3, alltoallv, false),
        (NEIGHBOR + 4, alltoallv, false),
    ];
    blocking.into_iter().chain(neighbours).chain(background::<UNIFORM>())
}

/// The nonblocking functions.
fn background<const UNIFORM: bool>() -> impl Iterator<Item = Entry> {
    let nonblocking = entries![
        UNIFORM(NONBLOCKING, iexchange, false),
        (NONBLOCKING + 1, iallgatherv, false),
        (NONBLOCKING + 2, ifold, true),
        (NONBLOCKING + 3, iexchange, false),
        (NONBLOCKING + 4, ialltoallv, false),
        (NONBLOCKING + 5, ialltoallv, false),
        (NONBLOCKING + 6, ibarrier, false),
        (NONBLOCKING + 7, ibcast, true),
        (NONBLOCKING + 8, ifold, false),
        (NONBLOCKING + 9, irooted, false),
        (NONBLOCKING + 10, igatherv, false),
        (NONBLOCKING + 11, ireduce, true),
        (NONBLOCKING + 12, ireduce_scatter, false),
        (NONBLOCKING + 13, ifold, false),
        (NONBLOCKING + 14, ifold, false),
        (NONBLOCKING + 15, irooted, false),
        (NONBLOCKING + 16, iscatterv, false),
    ];
    let persistent = entries![
        UNIFORM(PERSISTENT, exchange_init, false),
        (PERSISTENT + 1, allgatherv_init, false),
        (PERSISTENT + 2, fold_init, false),
        (PERSISTENT + 3, exchange_init, false),
        (PERSISTENT + 4, alltoallv_init, false),
        (PERSISTENT + 5, alltoallv_init, false),
        (PERSISTENT + 6, barrier_init, false),
        (PERSISTENT + 7, bcast_init, false),
        (PERSISTENT + 8, fold_init, false),
        (PERSISTENT + 9, rooted_init, false),
        (PERSISTENT + 10, gatherv_init, false),
        (PERSISTENT + 11, reduce_init, false),
        (PERSISTENT + 12, reduce_scatter_init, false),
        (PERSISTENT + 13, fold_init, false),
        (PERSISTENT + 14, fold_init, false),
        (PERSISTENT + 15, rooted_init, false),
        (PERSISTENT + 16, scatterv_init, false),
    ];
    let neighbours = entries![
        UNIFORM(INEIGHBOR, iexchange, false),
        (INEIGHBOR + 1, iallgatherv, false),
        (INEIGHBOR + 2, iexchange, false),
        (INEIGHBOR + 3, ialltoallv, false),
        (INEIGHBOR + 4, ialltoallv, false),
        (NEIGHBOR_INIT, exchange_init, false),
        (NEIGHBOR_INIT + 1, allgatherv_init, false),
        (NEIGHBOR_INIT + 2, exchange_init, false),
        (NEIGHBOR_INIT + 3, alltoallv_init, false),
        (NEIGHBOR_INIT + 4, alltoallv_init, false),
    ];
    nonblocking.into_iter().chain(persistent).chain(neighbours)
}

/// Operations with a root. Open MPI does not call their function at members of an intercommunicator that have no part
/// in them ([`pmpi_without_peers`](crate::uniform::pmpi_without_peers)).
const NOT_EVERYWHERE: [usize; 7] =
    [BCAST, GATHER, REDUCE, SCATTER, NONBLOCKING + BCAST, NONBLOCKING + REDUCE, PERSISTENT + REDUCE];

/// The functions of a table for a uniformity, from its stock functions. On intercommunicators constructors are agreed
/// on as a whole, and operations that would bypass some members are not uniform.
fn table(uniformity: Uniformity, has_two_groups: bool, stock: &[Object; SLOTS]) -> [Object; SLOTS] {
    let mut table = *stock;
    let all_are_heard = uniformity == Uniformity::Coll && pmpi_without_peers::hear_all();
    for (slot, function, makes_communicators) in entries::<true>() {
        let is_uniform = is_uniform(uniformity, has_two_groups, all_are_heard, slot, makes_communicators);
        if is_uniform && !stock[slot].is_null() {
            table[slot] = function;
        }
    }
    table
}

/// Whether the operation of a slot is uniform. `all_are_heard`: members without a part take part in its outcome;
/// `makes_communicators`: Open MPI's constructors use it.
fn is_uniform(
    uniformity: Uniformity,
    has_two_groups: bool,
    all_are_heard: bool,
    slot: usize,
    makes_communicators: bool,
) -> bool {
    match uniformity {
        Uniformity::Local => false,
        Uniformity::Create => makes_communicators && !has_two_groups,
        Uniformity::Coll => !has_two_groups || all_are_heard || !NOT_EVERYWHERE.contains(&slot),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The uniform slots.
    fn uniform(uniformity: Uniformity, has_two_groups: bool, all_are_heard: bool) -> BTreeSet<usize> {
        let is_uniform = |entry: &Entry| is_uniform(uniformity, has_two_groups, all_are_heard, entry.0, entry.2);
        entries::<true>().filter(is_uniform).map(|entry| entry.0).collect()
    }

    #[test]
    fn each_collective_function_of_open_mpi_has_one_of_ours() {
        let slots: Vec<usize> = entries::<true>().map(|entry| entry.0).collect();
        let distinct: BTreeSet<usize> = slots.iter().copied().collect();
        // The agreements follow after the last one.
        assert_eq!((slots.len(), distinct), (66, (0..66).collect()));
        let mended: Vec<usize> = entries::<false>().map(|entry| entry.0).collect();
        assert_eq!(mended, slots);
    }

    #[test]
    fn nothing_is_uniform_where_nobody_asks() {
        for (two, heard) in [(false, false), (false, true), (true, false), (true, true)] {
            assert!(uniform(Uniformity::Local, two, heard).is_empty());
        }
    }

    #[test]
    fn constructors_of_one_group_are_uniform_by_what_they_are_made_of() {
        let made_of = uniform(Uniformity::Create, false, false);
        assert!([0, 2, BCAST, 13, NONBLOCKING + 2, NONBLOCKING + BCAST].iter().all(|slot| made_of.contains(slot)));
        assert!(!made_of.contains(&6), "a barrier is no part of a constructor");
        // The members of both groups agree on each constructor as a whole.
        assert!(uniform(Uniformity::Create, true, true).is_empty());
    }

    #[test]
    fn among_two_groups_an_operation_is_uniform_only_if_all_members_hear_of_it() {
        let all = uniform(Uniformity::Coll, false, false);
        assert_eq!(all.len(), 66);
        assert_eq!(uniform(Uniformity::Coll, true, true), all);
        let left: BTreeSet<usize> = &all - &uniform(Uniformity::Coll, true, false);
        assert_eq!(left, NOT_EVERYWHERE.into());
    }
}
