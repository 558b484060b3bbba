//! Tracks pending requests of windows to other processes, and completes those to dead ones.
//!
//! Open MPI's `osc/rdma` accesses another process's memory through a table of four functions (btl_base_am_rdma.h), with
//! a completion callback for each request. ringwatch replaces the functions in that table, and lists the pending
//! requests. So it knows the processes that a thread waits for. It completes a request to a dead process with an error
//! if no thread waits for it: its completion is only counted, or belongs to an MPI request.
//!
//! A request that a thread waits for is not completed: Open MPI would use the result, which may be an address in
//! another process's memory.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use crate::messages::tcp_to_the_dead::cut;
use openmpi_internals::error_class::ERR_PROC_FAILED;
use openmpi_internals::layout::status::OPAL_ERR_UNREACH;
use openmpi_internals::layout::{am_rdma, osc_rdma_pending_op};
use openmpi_internals::object::Object;
use openmpi_internals::proc::{self, is_dead, process_of};
use openmpi_internals::sync::lock;

/// Upper bound in bytes of the stack distance between a variable of osc/rdma and one of a function that it calls.
const FRAMES: usize = 1 << 14;

/// `mca_btl_base_rdma_completion_fn_t`
type Callback = unsafe extern "C" fn(Object, Object, Object, Object, Object, Object, c_int);
/// The functions of a table. Their last arguments are flags, order, callback, context and data.
#[rustfmt::skip]
type Move = unsafe extern "C" fn(
    Object, Object, Object, u64, Object, Object, usize, c_int, c_int, Callback, Object, Object,
) -> c_int;
#[rustfmt::skip]
type Fetch = unsafe extern "C" fn(
    Object, Object, Object, u64, Object, Object, c_int, u64, c_int, c_int, Callback, Object, Object,
) -> c_int;
#[rustfmt::skip]
type Swap = unsafe extern "C" fn(
    Object, Object, Object, u64, Object, Object, u64, u64, c_int, c_int, Callback, Object, Object,
) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
struct Functions {
    put: Move,
    get: Move,
    fetch: Fetch,
    swap: Swap,
}

const _: () = assert!(am_rdma::AM_BTL_PUT + offset_of!(Functions, get) == am_rdma::AM_BTL_GET);
const _: () = assert!(am_rdma::AM_BTL_PUT + offset_of!(Functions, fetch) == am_rdma::AM_BTL_ATOMIC_FOP);
const _: () = assert!(am_rdma::AM_BTL_PUT + offset_of!(Functions, swap) == am_rdma::AM_BTL_ATOMIC_CSWAP);

const OURS: Functions = Functions { put, get, fetch, swap };

/// A pending request to a process.
struct Transfer {
    process: usize,
    /// The requesting thread.
    thread: ThreadId,
    /// The completion callback, and its arguments except the last.
    callback: Callback,
    arguments: [usize; 6],
    /// The thread waits for the answer, which may be written to its stack.
    is_awaited: bool,
    /// An answer is ignored from now on.
    is_lost: bool,
}

static STOCK: OnceLock<Functions> = OnceLock::new();
static UNDER_WAY: Mutex<BTreeMap<usize, Transfer>> = Mutex::new(BTreeMap::new());
static LAST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
}

/// Tracks requests of a window from now on; false if the window uses another mechanism.
///
/// # Safety
/// The module of a window's component.
pub unsafe fn record_transfers(module: Object) -> bool {
    let tables = proc::tables(module);
    for table in &tables {
        // SAFETY: the table was checked to be one.
        unsafe {
            let functions = &mut *table.byte_add(am_rdma::AM_BTL_PUT).cast::<Functions>();
            // A table whose transport has native operations has other functions.
            if functions.is(STOCK.get_or_init(|| *functions)) {
                *functions = OURS;
            }
        }
    }
    !tables.is_empty()
}

/// The kinds of processes whose answers a thread waits for.
#[derive(Clone, Copy, Default)]
pub struct Awaited {
    pub living: bool,
    pub dead: bool,
}

/// The kinds of processes whose answers this thread waits for.
pub fn awaited_here() -> Awaited {
    let here = thread::current().id();
    let mut awaited = Awaited::default();
    for one in lock(&UNDER_WAY).values().filter(|one| one.is_awaited && one.thread == here) {
        *(if one.is_lost { &mut awaited.dead } else { &mut awaited.living }) = true;
    }
    awaited
}

/// Forgets the lost requests for which this thread has waited.
pub fn forget_the_dead() {
    let here = thread::current().id();
    lock(&UNDER_WAY).retain(|_, one| one.thread != here || !one.is_lost);
}

/// Whether this thread is inside a completion callback: its C frames are below any wait.
pub fn is_answering() -> bool {
    ANSWERS.get()
}

/// Completes requests to dead processes with an error, and closes their connections, after all data that they sent has
/// arrived. Otherwise an answer that a broken link has held would be written to frames that have been left.
pub fn end_with_the_dead() {
    let (mut ended, mut processes) = (Vec::new(), BTreeSet::new());
    {
        let mut all = lock(&UNDER_WAY);
        let dead: Vec<usize> = all.iter().filter(|(_, one)| is_dead(one.process)).map(|(number, _)| *number).collect();
        for number in dead {
            processes.extend(all.get(&number).map(|one| one.process));
            match all.get_mut(&number) {
                Some(one) if one.is_awaited => one.is_lost = true,
                _ => ended.extend(all.remove(&number)),
            }
        }
    }
    // Without the lock: a callback may make further requests.
    processes.into_iter().for_each(cut);
    ended.into_iter().for_each(|one| one.complete(ERR_PROC_FAILED));
}

impl Transfer {
    fn complete(self, status: c_int) {
        let [transport, endpoint, local, handle, context, data] = self.arguments.map(|argument| argument as Object);
        let before = ANSWERS.replace(true);
        // SAFETY: the callback that Open MPI would have called, once, with its own arguments.
        unsafe { (self.callback)(transport, endpoint, local, handle, context, data, status) };
        ANSWERS.set(before);
    }
}

impl Functions {
    fn is(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.put, other.put)
            && std::ptr::fn_addr_eq(self.get, other.get)
            && std::ptr::fn_addr_eq(self.fetch, other.fetch)
            && std::ptr::fn_addr_eq(self.swap, other.swap)
    }
}

/// Makes a request: `ask` gets the callback and its argument. An unreachable process does not answer. That is no error
/// here, because Open MPI ends the process if it cannot release a lock.
fn asked(transfer: Transfer, ask: impl FnOnce(Callback, Object) -> c_int) -> c_int {
    let (number, is_hopeless) = (LAST.fetch_add(1, Ordering::Relaxed), is_dead(transfer.process));
    if is_hopeless && !transfer.is_awaited {
        transfer.complete(ERR_PROC_FAILED);
        return 0;
    }
    lock(&UNDER_WAY).insert(number, Transfer { is_lost: is_hopeless, ..transfer });
    match if is_hopeless { OPAL_ERR_UNREACH } else { ask(answered, number as Object) } {
        OPAL_ERR_UNREACH => 0,
        code => {
            if code != 0 {
                lock(&UNDER_WAY).remove(&number);
            }
            code
        }
    }
}

unsafe extern "C" fn answered(
    _transport: Object,
    _endpoint: Object,
    _local: Object,
    _handle: Object,
    number: Object,
    _data: Object,
    status: c_int,
) {
    let transfer = lock(&UNDER_WAY).remove(&(number as usize));
    if let Some(transfer) = transfer.filter(|one| !one.is_lost) {
        transfer.complete(status);
    }
}

/// # Safety
/// Arguments of a function of a table.
unsafe fn transfer(
    table: Object,
    endpoint: Object,
    [local, handle]: [Object; 2],
    callback: Callback,
    [context, data]: [Object; 2],
    is_awaited: bool,
) -> Transfer {
    // SAFETY: as required of the caller.
    let transport = unsafe { table.byte_add(am_rdma::BTL).cast::<Object>().read() };
    let arguments = [transport, endpoint, local, handle, context, data].map(|argument| argument as usize);
    let (process, thread) = (process_of(endpoint), thread::current().id());
    Transfer { process, thread, callback, arguments, is_awaited, is_lost: false }
}

/// # Safety
/// The context of an atomic operation.
unsafe fn is_awaited(operation: Object) -> bool {
    // SAFETY: as required of the caller.
    unsafe { operation.byte_add(osc_rdma_pending_op::MODULE).cast::<Object>().read() }.is_null()
}

/// Whether a variable is in the stack frames of the callers.
fn is_on_stack(variable: Object) -> bool {
    let here = 0;
    let here = &raw const here as usize;
    (here..here + FRAMES).contains(&(variable as usize))
}

/// Defines the functions of the table. Each has at most two own arguments, and a test whether a thread waits for its
/// answer.
macro_rules! functions {
    ($($name:ident ($($word:ident: $type:ty),*) $is_awaited:ident;)*) => {
        $(#[allow(clippy::too_many_arguments, reason = "as Open MPI has them")]
        unsafe extern "C" fn $name(
            table: Object,
            endpoint: Object,
            local: Object,
            remote: u64,
            handle: Object,
            remote_handle: Object,
            $($word: $type,)*
            flags: c_int,
            order: c_int,
            callback: Callback,
            context: Object,
            data: Object,
        ) -> c_int {
            let Some(stock) = STOCK.get() else { return OPAL_ERR_UNREACH };
            // SAFETY: the stock function with its original arguments except the callback.
            unsafe {
                let one = transfer(table, endpoint, [local, handle], callback, [context, data], $is_awaited(context));
                asked(one, |callback, context| {
                    (stock.$name)(
                        table, endpoint, local, remote, handle, remote_handle, $($word,)* flags, order, callback, context, data,
                    )
                })
            }
        })*
    };
}

functions! {
    put(size: usize) is_on_stack;
    get(size: usize) is_on_stack;
    fetch(operation: c_int, operand: u64) is_awaited;
    swap(compare: u64, value: u64) is_awaited;
}
