//! What windows have asked of other processes.
//!
//! Open MPI's `osc/rdma` asks another process through a table of four functions (btl_base_am_rdma.h), and gives each a
//! function to call when the answer is there. Functions of ours stand in that table and keep a list of what has not been
//! answered. So it is known for whom a thread waits, and what nobody waits for on the spot is ended in place of the dead:
//! it only counts there, or belongs to a request.
//!
//! What is waited for on the spot is not ended: the answer would be used, and may say where others have their memory.
//!
//! Offsets are those of btl_base_am_rdma.h and osc_rdma_types.h on x86-64.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use crate::endpoints::{self, cut, is_dead, process_of};
use crate::line::lock;
use crate::objects::Object;
use crate::statement::ERR_PROC_FAILED;

/// Of `mca_btl_base_am_rdma_module_t`: its transport, and its functions.
const TRANSPORT: usize = 0x10;
const FUNCTIONS: usize = 0x40;
/// Of `ompi_osc_rdma_pending_op_t`: the window's module, if nobody waits for its end on the spot.
const WINDOW: usize = 0x28;
/// `OPAL_ERR_UNREACH`
const UNREACHABLE: c_int = -12;
/// Bytes between a variable of osc/rdma on the stack and one of a function that it calls, at most.
const FRAMES: usize = 1 << 14;

/// `mca_btl_base_rdma_completion_fn_t`
type Callback = unsafe extern "C" fn(Object, Object, Object, Object, Object, Object, c_int);
/// The functions of a table: their last arguments are flags, order, and what to call with a context and data.
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

const OURS: Functions = Functions { put, get, fetch, swap };

/// Something that a process has been asked for.
struct Transfer {
    process: usize,
    /// Who has asked.
    thread: ThreadId,
    /// The function to call when it has been answered, and its arguments but for the last.
    callback: Callback,
    arguments: [usize; 6],
    /// It is waited for on the spot, and the answer may be written to the stack.
    is_awaited: bool,
    /// No answer counts any more.
    is_lost: bool,
}

static STOCK: OnceLock<Functions> = OnceLock::new();
static UNDER_WAY: Mutex<BTreeMap<usize, Transfer>> = Mutex::new(BTreeMap::new());
static LAST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
}

/// Watches what a window asks of others; false if it does so in another way.
///
/// # Safety
/// The module of a window's component.
pub unsafe fn watch(module: Object) -> bool {
    let tables = endpoints::tables(module);
    for table in &tables {
        // SAFETY: the table was found to be one.
        unsafe {
            let functions = &mut *table.byte_add(FUNCTIONS).cast::<Functions>();
            // One whose transport can do more than others has other functions.
            if functions.is(STOCK.get_or_init(|| *functions)) {
                *functions = OURS;
            }
        }
    }
    !tables.is_empty()
}

/// For whose answers a thread waits.
#[derive(Clone, Copy, Default)]
pub struct Awaited {
    pub living: bool,
    pub dead: bool,
}

/// For whose answers this thread waits.
pub fn awaited_here() -> Awaited {
    let here = thread::current().id();
    let mut awaited = Awaited::default();
    for one in lock(&UNDER_WAY).values().filter(|one| one.is_awaited && one.thread == here) {
        *(if one.is_lost { &mut awaited.dead } else { &mut awaited.living }) = true;
    }
    awaited
}

/// This thread waits for no answer of the dead any more.
pub fn forget_the_dead() {
    let here = thread::current().id();
    lock(&UNDER_WAY).retain(|_, one| one.thread != here || !one.is_lost);
}

/// Whether this thread calls Open MPI's functions for answers: frames of C lie below them.
pub fn is_answering() -> bool {
    ANSWERS.get()
}

/// All that the dead have sent has arrived: ends what they have not answered, and what they might yet send. An answer that a
/// cut link has kept may come when the link is whole again, and would be written to frames that have been left.
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
    // Not under the lock: they may ask for more.
    processes.into_iter().for_each(cut);
    ended.into_iter().for_each(|one| one.complete(ERR_PROC_FAILED));
}

impl Transfer {
    fn complete(self, status: c_int) {
        let [transport, endpoint, local, handle, context, data] = self.arguments.map(|argument| argument as Object);
        let before = ANSWERS.replace(true);
        // SAFETY: what Open MPI would have called in our place, once, with its own arguments.
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

/// Asks for something: `ask` gets the function to call and its argument. Whoever cannot be reached does not answer: that is
/// no error, because Open MPI would end the process where it cannot give a lock back.
fn asked(transfer: Transfer, ask: impl FnOnce(Callback, Object) -> c_int) -> c_int {
    let (number, is_hopeless) = (LAST.fetch_add(1, Ordering::Relaxed), is_dead(transfer.process));
    if is_hopeless && !transfer.is_awaited {
        transfer.complete(ERR_PROC_FAILED);
        return 0;
    }
    lock(&UNDER_WAY).insert(number, Transfer { is_lost: is_hopeless, ..transfer });
    match if is_hopeless { UNREACHABLE } else { ask(answered, number as Object) } {
        UNREACHABLE => 0,
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
    let transport = unsafe { table.byte_add(TRANSPORT).cast::<Object>().read() };
    let arguments = [transport, endpoint, local, handle, context, data].map(|argument| argument as usize);
    let (process, thread) = (process_of(endpoint), thread::current().id());
    Transfer { process, thread, callback, arguments, is_awaited, is_lost: false }
}

/// # Safety
/// The context of an operation on a number.
unsafe fn is_awaited(operation: Object) -> bool {
    // SAFETY: as required of the caller.
    unsafe { operation.byte_add(WINDOW).cast::<Object>().read() }.is_null()
}

/// Whether a variable is on the stack of the caller or a caller of it.
fn is_on_stack(variable: Object) -> bool {
    let here = 0;
    let here = &raw const here as usize;
    (here..here + FRAMES).contains(&(variable as usize))
}

/// The functions of the table: each has two arguments of its own at most, and knows whether its answer is awaited.
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
            let Some(stock) = STOCK.get() else { return UNREACHABLE };
            // SAFETY: with the arguments that were meant for it, but for what is called in the end.
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
