//! Windows: how they are made, and the functions that stand before Open MPI's own.
//!
//! Open MPI 5.0 waits for ever for the answer of a process that has died meanwhile, to a lock, a message or a flush. So what
//! needs a dead member is refused before it begins, and who waits already leaves ([`calls`](crate::calls)), but for one who
//! waits for a lock that the dead held: of that a sentence is said ([`waiting`](crate::waiting)).

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::construction;
use crate::internals::{BARRIER, Internals};
use crate::locks::{Component, Locks};
use crate::objects::Object;
use crate::openmpi::Library;
use crate::owners::{self, Kind, Needs, Owner};
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED};
use crate::{calls, endpoints, progress, transfers, waiting};

/// Of `ompi_win_t`: the module of its component, which begins with its functions.
pub const MODULE: usize = 0x110;

/// What makes a window, Open MPI's choice among its components.
type Select = unsafe extern "C" fn(Object, *mut Object, usize, c_int, Object, c_int, *mut c_int) -> c_int;

/// Asks a process for what lies in its memory, and waits for the answer.
const GET: &CStr = c"ompi_osc_get_data_blocking";
/// Takes apart what cannot be made.
const FREE_HALF: &CStr = c"ompi_osc_rdma_free";
/// `OPAL_ERR_UNREACH`
const UNREACHABLE: c_int = -12;

type Get = unsafe extern "C-unwind" fn(Object, u8, Object, u64, Object, Object, usize) -> c_int;
type Free = unsafe extern "C" fn(Object) -> c_int;

struct Stock {
    get: Get,
    free: Free,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

thread_local! {
    /// Somebody did not answer in the constructor that this thread is in.
    static IS_UNANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Stands where `osc/rdma` makes windows.
pub fn watch() {
    let Some(library) = Library::loaded().filter(|_| STOCK.get().is_none()) else { return };
    // SAFETY: the types are those of osc_rdma_comm.h and osc_rdma.h; functions of the same types take their places.
    unsafe {
        let (Some(get), Some(free)) = (library.function(GET), library.function(FREE_HALF)) else { return };
        if STOCK.set(Stock { get, free }).is_ok() {
            library.redirect_all(&[(GET, get_data as *const c_void), (FREE_HALF, free_half as *const _)]);
        }
    }
}

/// In the last step of a constructor everybody asks others where their memory is, and where these have died they would be
/// waited for, or what they have not answered be used. Elsewhere a hopeless wait is left through this function.
unsafe extern "C-unwind" fn get_data(
    module: Object,
    transport: u8,
    endpoint: Object,
    address: u64,
    handle: Object,
    data: Object,
    size: usize,
) -> c_int {
    let Some(stock) = STOCK.get() else { return UNREACHABLE };
    // SAFETY: the stock function with the arguments that were meant for it.
    let get = || unsafe { (stock.get)(module, transport, endpoint, address, handle, data, size) };
    if !construction::is_under_way() {
        return get();
    }
    let ask = || {
        // SAFETY: Open MPI passes the module of the window.
        unsafe { transfers::watch(module) };
        let code = calls::ask(get).unwrap_or(UNREACHABLE);
        let code = if endpoints::is_dead(endpoints::process_of(endpoint)) { UNREACHABLE } else { code };
        IS_UNANSWERED.set(IS_UNANSWERED.get() || code != 0);
        code
    };
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or(UNREACHABLE)
}

/// Who cannot make a window because somebody has died, or the communicator was revoked, frees nothing: others may have made
/// theirs, and ask for what lies there.
unsafe extern "C" fn free_half(window: Object) -> c_int {
    match STOCK.get() {
        // SAFETY: as above.
        Some(stock) if !construction::is_struck() => unsafe { (stock.free)(window) },
        _ => 0,
    }
}

/// Arguments of a window that is being made.
pub struct Plan {
    pub memory: *mut Object,
    pub size: usize,
    pub unit: c_int,
    pub flavor: c_int,
    pub model: *mut c_int,
}

/// Makes a window for the members of a communicator.
pub fn make(window: Object, comm: Object, plan: Plan) -> c_int {
    let Some(library) = Library::loaded() else { return ERR_INTERN };
    // SAFETY: the type is that of osc/base/base.h.
    let Some(select) = (unsafe { library.function::<Select>(c"ompi_osc_base_select") }) else { return ERR_INTERN };
    // SAFETY: a new window, whose module has not been chosen.
    let is_in_place = unsafe { module_of(window).is_null() };
    owners::created(Kind::Window, window, comm);
    let (code, parts) = construction::run(
        comm,
        // SAFETY: the arguments that were meant for it, and a duplicate of the communicator.
        |copy| unsafe {
            IS_UNANSWERED.set(false);
            match select(window, plan.memory, plan.size, plan.unit, copy, plan.flavor, plan.model) {
                0 if IS_UNANSWERED.get() => ERR_PROC_FAILED,
                code => code,
            }
        },
        // SAFETY: the window was made, and nobody has it yet.
        || unsafe { take_apart(window) },
    );
    // SAFETY: as above.
    let module = unsafe { module_of(window) };
    if code == 0 && is_in_place && !module.is_null() {
        // SAFETY: the window has it, and was made of that communicator.
        let locks = unsafe { locks_of(&library, window, module, comm) };
        owners::completed(window, parts, locks);
    } else {
        owners::forget(window);
    }
    code
}

/// # Safety
/// A window of an Open MPI 5.0.
unsafe fn module_of(window: Object) -> Object {
    // SAFETY: as required of the caller.
    unsafe { window.byte_add(MODULE).cast::<Object>().read() }
}

/// The locks of a window in which waits can be left.
///
/// # Safety
/// A window that has this module and was made of that communicator.
unsafe fn locks_of(library: &Library, window: Object, module: Object, comm: Object) -> Option<Locks> {
    // SAFETY: as required of the caller.
    unsafe {
        let component = if transfers::watch(module) {
            Component::Asking
        } else if is_of_shared_memory(library, module) {
            Component::Sharing
        } else {
            return None;
        };
        Locks::of(component, window, module, Internals::get()?, comm)
    }
}

/// Whether all members reach the memory of all without asking anybody.
///
/// # Safety
/// The module of a window's component.
unsafe fn is_of_shared_memory(library: &Library, module: Object) -> bool {
    // SAFETY: as required of the caller.
    let free = unsafe { *module.cast::<Object>().add(FREE) };
    library.symbol(c"ompi_osc_sm_free") == Some(free)
}

/// # Safety
/// A window that has its functions.
unsafe fn take_apart(window: Object) {
    // SAFETY: as required of the caller.
    unsafe {
        let module = module_of(window).cast::<Option<Free>>();
        if let Some(free) = if module.is_null() { None } else { *module.add(FREE) } {
            free(window);
        }
    }
}

const FREE: usize = 3;
const FENCE: usize = 14;
/// Accumulate and its kin.
const ACCUMULATES: [usize; 6] = [6, 7, 8, 9, 12, 13];

/// Whether all members have come to free a window, so that nobody reads in the memory of others any more. Open MPI frees its
/// part of that also where its own barrier fails, and a member may still be in the constructor.
fn all_have_come(owner: &Owner) -> bool {
    let (Some(mpi), Some(part)) = (Internals::fitting(), owner.main_part()) else { return true };
    // SAFETY: the communicator of a window that lives has its collectives, among them the barrier, beside its module.
    unsafe {
        let slot = &mpi.table(part)[BARRIER];
        transmute::<Object, unsafe extern "C" fn(Object, Object) -> c_int>(slot.function)(part, slot.module) == 0
    }
}

/// What a damaged window consists of stays until the end: Open MPI would wait in it for the answers of the dead.
unsafe extern "C" fn free(window: Object) -> c_int {
    let free = || {
        let Some(owner) = owners::of(window) else { return ERR_INTERN };
        if owner.refusal(Needs::Everybody).is_some() || !all_have_come(&owner) {
            owners::forget(window);
            return 0;
        }
        let stock = owner.stock_function(FREE);
        // SAFETY: the stock function with the argument that was meant for it.
        let stock = || unsafe { transmute::<Object, unsafe extern "C-unwind" fn(Object) -> c_int>(stock)(window) };
        let code = calls::enter(&owner, Needs::Everybody, stock).unwrap_or(0);
        owners::forget(window);
        code
    };
    catch_unwind(AssertUnwindSafe(free)).unwrap_or(ERR_INTERN)
}

fn call(window: Object, slot: usize, needs: Needs, stock: impl FnOnce(Object) -> c_int) -> c_int {
    let call = || {
        waiting::moved();
        progress::catch_up();
        let Some(owner) = owners::of(window) else { return ERR_INTERN };
        if let Some(class) = owner.refusal(needs) {
            return class;
        }
        let function = owner.stock_function(slot);
        let stock = || match needs {
            Needs::Rank(to) if ACCUMULATES.contains(&slot) => exclusively(&owner, to, || stock(function)),
            _ => stock(function),
        };
        match calls::enter(&owner, needs, stock) {
            // On this one the members have agreed. Its communicator may be revoked since somebody died as it was made.
            Some(code) if slot == FENCE && owner.is_uniform() => owner.own_class(code),
            Some(code) => owner.refusal(needs).unwrap_or(code),
            None => {
                owner.give_up();
                owner.refusal(needs).unwrap_or(ERR_PROC_FAILED)
            }
        }
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(ERR_INTERN)
}

/// Calls Open MPI's function while nobody else accumulates at this member in memory that all share. Who waits for that is
/// interrupted like any other, and does not wait for the dead.
fn exclusively(owner: &Owner, to: c_int, stock: impl FnOnce() -> c_int) -> c_int {
    let (Some(locks), Some(mpi)) = (owner.locks(), Internals::get()) else { return stock() };
    let turn = || {
        mpi.progress();
        owner.refusal(Needs::Rank(to))
    };
    match locks.hold(to, |rank| owner.has_lost(rank), turn) {
        Ok(_held) => stock(),
        Err(class) => class,
    }
}

/// The functions, each with its slot, without whom it cannot complete, and its arguments.
macro_rules! functions {
    ($($slot:literal $name:ident $needs:expr, ($($word:ident: $type:ty),*) of $window:ident;)*) => {
        $(unsafe extern "C" fn $name($($word: $type),*) -> c_int {
            type Stock = unsafe extern "C-unwind" fn($($type),*) -> c_int;
            // SAFETY: the stock function of this slot with the arguments that were meant for it.
            call($window, $slot, $needs, |stock| unsafe { transmute::<Object, Stock>(stock)($($word),*) })
        })*

        /// The functions in the order of osc.h; null where Open MPI's own stays.
        pub fn functions() -> Vec<Object> {
            let mut all = vec![std::ptr::null_mut(); SLOTS];
            all[FREE] = free as Object;
            $(all[$slot] = $name as Object;)*
            all
        }
    };
}

const SLOTS: usize = 29;

#[rustfmt::skip]
functions! {
    1 attach Needs::Nobody, (window: Object, memory: Object, size: usize) of window;
    2 detach Needs::Nobody, (window: Object, memory: Object) of window;
    4 put Needs::Rank(to), (from: Object, n: c_int, kind: Object, to: c_int, at: isize, room: c_int, as_kind: Object,
        window: Object) of window;
    5 get Needs::Rank(to), (into: Object, n: c_int, kind: Object, to: c_int, at: isize, room: c_int, as_kind: Object,
        window: Object) of window;
    6 accumulate Needs::Rank(to), (from: Object, n: c_int, kind: Object, to: c_int, at: isize, room: c_int,
        as_kind: Object, operation: Object, window: Object) of window;
    7 compare_and_swap Needs::Rank(to), (from: Object, with: Object, result: Object, kind: Object, to: c_int, at: isize,
        window: Object) of window;
    8 fetch_and_op Needs::Rank(to), (from: Object, result: Object, kind: Object, to: c_int, at: isize,
        operation: Object, window: Object) of window;
    9 get_accumulate Needs::Rank(to), (from: Object, n: c_int, kind: Object, result: Object, results: c_int,
        result_kind: Object, to: c_int, at: isize, room: c_int, as_kind: Object, operation: Object,
        window: Object) of window;
    10 rput Needs::Rank(to), (from: Object, n: c_int, kind: Object, to: c_int, at: isize, room: c_int, as_kind: Object,
        window: Object, request: Object) of window;
    11 rget Needs::Rank(to), (into: Object, n: c_int, kind: Object, to: c_int, at: isize, room: c_int, as_kind: Object,
        window: Object, request: Object) of window;
    12 raccumulate Needs::Rank(to), (from: Object, n: c_int, kind: Object, to: c_int, at: isize, room: c_int,
        as_kind: Object, operation: Object, window: Object, request: Object) of window;
    13 rget_accumulate Needs::Rank(to), (from: Object, n: c_int, kind: Object, result: Object, results: c_int,
        result_kind: Object, to: c_int, at: isize, room: c_int, as_kind: Object, operation: Object,
        window: Object, request: Object) of window;
    14 fence Needs::Everybody, (hint: c_int, window: Object) of window;
    15 start Needs::Group(group), (group: Object, hint: c_int, window: Object) of window;
    16 complete Needs::Everybody, (window: Object) of window;
    17 post Needs::Group(group), (group: Object, hint: c_int, window: Object) of window;
    18 wait Needs::Everybody, (window: Object) of window;
    19 test Needs::Everybody, (window: Object, flag: Object) of window;
    20 lock Needs::Rank(to), (kind: c_int, to: c_int, hint: c_int, window: Object) of window;
    21 unlock Needs::Rank(to), (to: c_int, window: Object) of window;
    22 lock_all Needs::Everybody, (hint: c_int, window: Object) of window;
    23 unlock_all Needs::Everybody, (window: Object) of window;
    24 sync Needs::Nobody, (window: Object) of window;
    25 flush Needs::Rank(to), (to: c_int, window: Object) of window;
    26 flush_all Needs::Everybody, (window: Object) of window;
    27 flush_local Needs::Rank(to), (to: c_int, window: Object) of window;
    28 flush_local_all Needs::Everybody, (window: Object) of window;
}
