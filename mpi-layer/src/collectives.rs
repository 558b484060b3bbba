//! The functions that stand in a communicator's table in place of Open MPI's own, one for each signature: uniform ones, and
//! those that put errors right.

use std::ffi::c_int;
use std::mem::transmute;

use crate::internals::{
    BCAST, GATHER, INEIGHBOR, NEIGHBOR, NEIGHBOR_INIT, NONBLOCKING, PERSISTENT, REDUCE, SCATTER, SLOTS,
};
use crate::objects::Object;
use crate::requests::Request;
use crate::uniform::{finish, prepare, start};
use crate::uniformity::Uniformity;
use crate::{idle, mended};

/// The functions of one signature: blocking, without blocking, and persistent, each for the slot of a table.
macro_rules! signatures {
    ($($blocking:ident $nonblocking:ident $persistent:ident ($($word:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $blocking<const SLOT: usize, const UNIFORM: bool>(
            $($word: $type,)* comm: Object, module: Object
        ) -> c_int {
            type Stock = unsafe extern "C" fn($($type,)* Object, Object) -> c_int;
            // SAFETY: the stock function of this slot with the arguments that were meant for it.
            let call = |stock| unsafe { transmute::<Object, Stock>(stock)($($word,)* comm, module) };
            if UNIFORM {
                finish(comm, SLOT, call)
            } else {
                mended::ended(call(mended::stock(module, SLOT)), comm)
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
                let code = mended::refusal(comm).unwrap_or_else(|| call(mended::stock(module, SLOT), request));
                mended::started(code, request)
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
                mended::prepared(call(mended::stock(module, SLOT), request), request)
            }
        }
    )*};
}

signatures! {
    barrier ibarrier barrier_init();
    bcast ibcast bcast_init(data: Object, count: c_int, kind: Object, root: c_int);
    exchange iexchange exchange_init(
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object
    );
    allgatherv iallgatherv allgatherv_init(
        sent: Object, count: c_int, kind: Object, got: Object, room: Object, places: Object, as_kind: Object
    );
    alltoallv ialltoallv alltoallv_init(
        sent: Object, counts: Object, from: Object, kind: Object, got: Object, room: Object, to: Object, as_kind: Object
    );
    fold ifold fold_init(sent: Object, got: Object, count: c_int, kind: Object, operation: Object);
    reduce ireduce reduce_init(
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object, root: c_int
    );
    reduce_scatter ireduce_scatter reduce_scatter_init(
        sent: Object, got: Object, counts: Object, kind: Object, operation: Object
    );
    rooted irooted rooted_init(
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object, root: c_int
    );
    gatherv igatherv gatherv_init(
        sent: Object, count: c_int, kind: Object, got: Object, room: Object, places: Object, as_kind: Object, root: c_int
    );
    scatterv iscatterv scatterv_init(
        sent: Object, counts: Object, places: Object, kind: Object, got: Object, room: c_int, as_kind: Object, root: c_int
    );
}

/// A slot of the table, its uniform function, and whether constructors of communicators are made of it.
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

/// The functions that do not block.
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

/// The mended functions, with their slots.
pub fn mended() -> impl Iterator<Item = (usize, Object)> {
    entries::<false>().map(|(slot, function, _)| (slot, function))
}

/// Operations with a root whose function Open MPI does not call at members of two groups that have nothing to do
/// ([`idle`](crate::idle)).
const NOT_EVERYWHERE: [usize; 7] =
    [BCAST, GATHER, REDUCE, SCATTER, NONBLOCKING + BCAST, NONBLOCKING + REDUCE, PERSISTENT + REDUCE];

/// The functions of a table whose stock functions these are, for a uniformity. Where there are two groups constructors are agreed
/// on as a whole; and operations are not of which some members would not hear.
pub fn table(uniformity: Uniformity, has_two_groups: bool, stock: &[Object; SLOTS]) -> [Object; SLOTS] {
    let mut table = *stock;
    let all_are_heard = uniformity == Uniformity::Coll && idle::hear_all();
    for (slot, function, makes_communicators) in entries::<true>() {
        let uniform = match uniformity {
            Uniformity::Local => false,
            Uniformity::Create => makes_communicators && !has_two_groups,
            Uniformity::Coll => !has_two_groups || all_are_heard || !NOT_EVERYWHERE.contains(&slot),
        };
        if uniform && !stock[slot].is_null() {
            table[slot] = function;
        }
    }
    table
}
