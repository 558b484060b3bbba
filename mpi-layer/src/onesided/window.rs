//! Makes windows, and replaces Open MPI's functions on them.
//!
//! Open MPI 5.0 waits for ever for a dead process's answer to a lock, a message or a flush. With ringwatch a function
//! that needs a dead member fails before it begins, and a wait that needs one is left
//! ([`unwind`](crate::onesided::unwind)). The exception is a wait for a lock that the dead process held: the rank
//! reports that it hangs ([`hang_report`](crate::failure::hang_report)).

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::transmute;
use std::sync::OnceLock;

use crate::failure::{hang_report, progress_hook};
use crate::in_front::{guard, in_front};
use crate::onesided::owner::{self, Functions, Kind, Owner};
use crate::onesided::sm_locks::{Component, Locks};
use crate::onesided::unwind::Needs;
use crate::onesided::win_and_file;
use crate::onesided::{am_rdma, unwind};
use openmpi_internals::abi::{OnObject, OscGetData};
use openmpi_internals::communicator::{BARRIER, Internals};
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED};
use openmpi_internals::functions::{
    OMPI_OSC_BASE_SELECT, OMPI_OSC_GET_DATA_BLOCKING, OMPI_OSC_RDMA_FREE, OMPI_OSC_SM_FREE,
};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::osc;
use openmpi_internals::layout::status::OPAL_ERR_UNREACH;
use openmpi_internals::layout::window::W_OSC_MODULE;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::proc;

static FUNCTIONS: Functions =
    Functions { kind: Kind::Window, place: W_OSC_MODULE, is_behind_address: true, all: functions };

struct Stock {
    get: OscGetData,
    free: OnObject,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

thread_local! {
    /// Whether a process did not answer in this thread's constructor.
    static IS_UNANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Interposes on functions with which `osc/rdma` makes windows.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of osc_rdma_comm.h and osc_rdma.h; ours have the same.
    unsafe {
        let _ =
            STOCK.set(Stock { get: at.function(OMPI_OSC_GET_DATA_BLOCKING)?, free: at.function(OMPI_OSC_RDMA_FREE)? });
        at.redirect_all(&[OMPI_OSC_GET_DATA_BLOCKING.by(get_data), OMPI_OSC_RDMA_FREE.by(free_half)])
    }
}

in_front! { stock = STOCK.get(), or OPAL_ERR_UNREACH;
    /// Reads the addresses of other members' memory in the last step of a constructor. Open MPI would wait for dead
    /// members, or use answers that did not arrive. Elsewhere a hopeless wait is left through this function.
    unsafe extern "C-unwind" fn get_data(
        module: Object, transport: u8, endpoint: Object, address: u64, handle: Object, data: Object, size: usize
    ) -> c_int {
        // SAFETY: the stock function with its original arguments.
        let get = || unsafe { (stock.get)(module, transport, endpoint, address, handle, data, size) };
        if !win_and_file::is_under_way() {
            return get();
        }
        guard(OPAL_ERR_UNREACH, || {
            // SAFETY: Open MPI passes the window's module.
            unsafe { am_rdma::record_transfers(module) };
            let code = unwind::ask(get).unwrap_or(OPAL_ERR_UNREACH);
            let code = if proc::is_dead(proc::process_of(endpoint)) { OPAL_ERR_UNREACH } else { code };
            IS_UNANSWERED.set(IS_UNANSWERED.get() || code != 0);
            code
        })
    }
}

in_front! { stock = STOCK.get(), or 0;
    /// Frees nothing if the window's constructor fails after a death or a revocation: other members may have succeeded,
    /// and access that memory.
    unsafe extern "C" fn free_half(window: Object) -> c_int {
        // SAFETY: as above.
        if win_and_file::is_struck() { 0 } else { unsafe { (stock.free)(window) } }
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
    let Some(select) = library.function(OMPI_OSC_BASE_SELECT) else { return ERR_INTERN };
    // SAFETY: a new window, whose module is not chosen yet.
    let is_in_place = unsafe { module_of(window).is_null() };
    owner::created(&FUNCTIONS, window, comm);
    let (code, parts) = win_and_file::run(
        comm,
        // SAFETY: the original arguments, and a duplicate of the communicator.
        |copy| unsafe {
            IS_UNANSWERED.set(false);
            match select(window, plan.memory, plan.size, plan.unit, copy, plan.flavor, plan.model) {
                0 if IS_UNANSWERED.get() => ERR_PROC_FAILED,
                code => code,
            }
        },
        // SAFETY: the window was made, and no other code uses it yet.
        || unsafe { take_apart(window) },
    );
    // SAFETY: as above.
    let module = unsafe { module_of(window) };
    if code == 0 && is_in_place && !module.is_null() {
        // SAFETY: the window has this module, and was made from that communicator.
        let locks = unsafe { locks_of(&library, window, module, comm) };
        owner::completed(window, parts, locks);
    } else {
        owner::forget(window);
    }
    code
}

/// # Safety
/// A window of an Open MPI 5.0.
unsafe fn module_of(window: Object) -> Object {
    // SAFETY: as required of the caller.
    unsafe { window.byte_add(W_OSC_MODULE).cast::<Object>().read() }
}

/// The locks of a window whose waits can be left.
///
/// # Safety
/// A window that has this module and was made from that communicator.
unsafe fn locks_of(library: &Library, window: Object, module: Object, comm: Object) -> Option<Locks> {
    // SAFETY: as required of the caller.
    unsafe {
        let component = if am_rdma::record_transfers(module) {
            Component::Asking
        } else if is_of_shared_memory(library, module) {
            Component::Sharing
        } else {
            return None;
        };
        Locks::find(component, window, module, Internals::get()?, comm)
    }
}

/// Whether all members access each other's memory directly.
///
/// # Safety
/// The module of a window's component.
unsafe fn is_of_shared_memory(library: &Library, module: Object) -> bool {
    // SAFETY: as required of the caller.
    let free = unsafe { *module.cast::<Object>().add(osc::OSC_FREE) };
    library.function(OMPI_OSC_SM_FREE).is_some_and(|stock| stock as Object == free)
}

/// # Safety
/// A window that has its functions.
unsafe fn take_apart(window: Object) {
    // SAFETY: as required of the caller.
    unsafe {
        let module = module_of(window).cast::<Option<OnObject>>();
        if let Some(free) = if module.is_null() { None } else { *module.add(osc::OSC_FREE) } {
            free(window);
        }
    }
}

/// The accumulate operations.
const ACCUMULATES: [usize; 6] = [
    osc::OSC_ACCUMULATE,
    osc::OSC_COMPARE_AND_SWAP,
    osc::OSC_FETCH_AND_OP,
    osc::OSC_GET_ACCUMULATE,
    osc::OSC_RACCUMULATE,
    osc::OSC_RGET_ACCUMULATE,
];

/// Whether all members have reached the freeing of a window, so that none accesses another's memory any more. Open MPI
/// frees its part even if its own barrier fails, and a member may still be in the constructor.
fn all_have_come(owner: &Owner) -> bool {
    let (Some(mpi), Some(part)) = (Internals::fitting(), owner.main_part()) else { return true };
    // SAFETY: a live window's communicator has its collectives, among them the barrier with its module.
    unsafe {
        let slot = &mpi.table(part)[BARRIER];
        transmute::<Object, unsafe extern "C" fn(Object, Object) -> c_int>(slot.function)(part, slot.module) == 0
    }
}

/// Frees a window. The communicators and memory of a damaged one stay until the end: Open MPI would wait in it for dead
/// members.
unsafe extern "C" fn free(window: Object) -> c_int {
    let free = || {
        let Some(owner) = owner::find(window) else { return ERR_INTERN };
        if owner.refusal(Needs::Everybody).is_some() || !all_have_come(&owner) {
            owner::forget(window);
            return 0;
        }
        let stock = owner.stock_function(osc::OSC_FREE);
        // SAFETY: the stock function with its original argument.
        let stock = || unsafe { transmute::<Object, unsafe extern "C-unwind" fn(Object) -> c_int>(stock)(window) };
        let code = unwind::enter(owner.clone(), Needs::Everybody, stock).unwrap_or(0);
        owner::forget(window);
        code
    };
    guard(ERR_INTERN, free)
}

fn call(window: Object, slot: usize, needs: Needs, stock: impl FnOnce(Object) -> c_int) -> c_int {
    let call = || {
        hang_report::moved();
        progress_hook::catch_up();
        let Some(owner) = owner::find(window) else { return ERR_INTERN };
        if let Some(class) = owner.refusal(needs) {
            return class;
        }
        let function = owner.stock_function(slot);
        let stock = || match needs {
            Needs::Rank(target) if ACCUMULATES.contains(&slot) => exclusively(&owner, target, || stock(function)),
            _ => stock(function),
        };
        match unwind::enter(owner.clone(), needs, stock) {
            // The members have agreed on this one. Its communicator may be revoked because of a death during
            // construction.
            Some(code) if slot == osc::OSC_FENCE && owner.is_uniform() => owner.own_class(code),
            Some(code) => owner.refusal(needs).unwrap_or(code),
            None => {
                owner.give_up();
                owner.refusal(needs).unwrap_or(ERR_PROC_FAILED)
            }
        }
    };
    guard(ERR_INTERN, call)
}

/// Calls Open MPI's function while no other member accumulates at this member in shared memory. The wait for that can
/// be interrupted, and does not depend on dead members.
fn exclusively(owner: &Owner, target: c_int, stock: impl FnOnce() -> c_int) -> c_int {
    let (Some(locks), Some(mpi)) = (owner.locks(), Internals::get()) else { return stock() };
    let turn = || {
        mpi.progress();
        owner.refusal(Needs::Rank(target))
    };
    match locks.hold(target, |rank| owner.has_lost(rank), turn) {
        Ok(_held) => stock(),
        Err(class) => class,
    }
}

/// Defines the functions, each with its slot, the members that it needs to complete, and its arguments.
macro_rules! functions {
    ($($slot:ident $name:ident $needs:expr, ($($word:ident: $type:ty),*) of $window:ident;)*) => {
        $(unsafe extern "C" fn $name($($word: $type),*) -> c_int {
            type Stock = unsafe extern "C-unwind" fn($($type),*) -> c_int;
            // SAFETY: the stock function of this slot with its original arguments.
            call($window, osc::$slot, $needs, |stock| unsafe { transmute::<Object, Stock>(stock)($($word),*) })
        })*

        /// The functions in the order of osc.h; null where Open MPI's function stays.
        fn functions() -> Vec<Object> {
            let mut all = vec![std::ptr::null_mut(); osc::SLOTS];
            all[osc::OSC_FREE] = free as Object;
            $(all[osc::$slot] = $name as Object;)*
            all
        }
    };
}

#[rustfmt::skip]
functions! {
    OSC_WIN_ATTACH attach Needs::Nobody, (window: Object, memory: Object, size: usize) of window;
    OSC_WIN_DETACH detach Needs::Nobody, (window: Object, memory: Object) of window;
    OSC_PUT put Needs::Rank(target), (origin: Object, origin_count: c_int, origin_datatype: Object, target: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Object, window: Object) of window;
    OSC_GET get Needs::Rank(target), (origin: Object, origin_count: c_int, origin_datatype: Object, target: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Object, window: Object) of window;
    OSC_ACCUMULATE accumulate Needs::Rank(target), (origin: Object, origin_count: c_int, origin_datatype: Object,
        target: c_int, target_disp: isize, target_count: c_int, target_datatype: Object, op: Object,
        window: Object) of window;
    OSC_COMPARE_AND_SWAP compare_and_swap Needs::Rank(target), (origin: Object, compare: Object, result: Object,
        datatype: Object, target: c_int, target_disp: isize, window: Object) of window;
    OSC_FETCH_AND_OP fetch_and_op Needs::Rank(target), (origin: Object, result: Object, datatype: Object,
        target: c_int, target_disp: isize, op: Object, window: Object) of window;
    OSC_GET_ACCUMULATE get_accumulate Needs::Rank(target), (origin: Object, origin_count: c_int,
        origin_datatype: Object, result: Object, result_count: c_int, result_datatype: Object, target: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Object, op: Object, window: Object) of window;
    OSC_RPUT rput Needs::Rank(target), (origin: Object, origin_count: c_int, origin_datatype: Object, target: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Object, window: Object, request: Object) of window;
    OSC_RGET rget Needs::Rank(target), (origin: Object, origin_count: c_int, origin_datatype: Object, target: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Object, window: Object, request: Object) of window;
    OSC_RACCUMULATE raccumulate Needs::Rank(target), (origin: Object, origin_count: c_int, origin_datatype: Object,
        target: c_int, target_disp: isize, target_count: c_int, target_datatype: Object, op: Object, window: Object,
        request: Object) of window;
    OSC_RGET_ACCUMULATE rget_accumulate Needs::Rank(target), (origin: Object, origin_count: c_int,
        origin_datatype: Object, result: Object, result_count: c_int, result_datatype: Object, target: c_int,
        target_disp: isize, target_count: c_int, target_datatype: Object, op: Object, window: Object,
        request: Object) of window;
    OSC_FENCE fence Needs::Everybody, (assertion: c_int, window: Object) of window;
    OSC_START start Needs::Group(group), (group: Object, assertion: c_int, window: Object) of window;
    OSC_COMPLETE complete Needs::Everybody, (window: Object) of window;
    OSC_POST post Needs::Group(group), (group: Object, assertion: c_int, window: Object) of window;
    OSC_WAIT wait Needs::Everybody, (window: Object) of window;
    OSC_TEST test Needs::Everybody, (window: Object, flag: Object) of window;
    OSC_LOCK lock Needs::Rank(target), (lock_type: c_int, target: c_int, assertion: c_int, window: Object) of window;
    OSC_UNLOCK unlock Needs::Rank(target), (target: c_int, window: Object) of window;
    OSC_LOCK_ALL lock_all Needs::Everybody, (assertion: c_int, window: Object) of window;
    OSC_UNLOCK_ALL unlock_all Needs::Everybody, (window: Object) of window;
    OSC_SYNC sync Needs::Nobody, (window: Object) of window;
    OSC_FLUSH flush Needs::Rank(target), (target: c_int, window: Object) of window;
    OSC_FLUSH_ALL flush_all Needs::Everybody, (window: Object) of window;
    OSC_FLUSH_LOCAL flush_local Needs::Rank(target), (target: c_int, window: Object) of window;
    OSC_FLUSH_LOCAL_ALL flush_local_all Needs::Everybody, (window: Object) of window;
}
