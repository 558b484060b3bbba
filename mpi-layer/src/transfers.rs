//! What windows have asked of other processes.
//!
//! Open MPI's `osc/rdma` asks another process through a table of four functions (btl_base_am_rdma.h), and gives each a
//! function to call when the answer is there. Functions of ours stand in that table and keep a list of what has not been
//! answered. So it is known for whom a thread waits, and what nobody waits for on the spot is ended in place of the dead:
//! it only counts there, or belongs to a request.
//!
//! What is waited for on the spot is not ended: the answer would be used, and may say where others have their memory.
//!
//! Offsets are those of osc_rdma.h, proc.h and bml.h on x86-64; each object is asked for its class first.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use crate::connections::Connections;
use crate::internals::Internals;
use crate::line::lock;
use crate::objects::{Class, Object};
use crate::openmpi::{Library, ProcessName};
use crate::statement::ERR_PROC_FAILED;

/// Of `ompi_osc_rdma_module_t`: whether its transport does without the table, the tables, and how many.
const OTHER_TRANSPORT: usize = 0x430;
const TABLES: usize = 0x438;
const TABLE_COUNT: usize = 0x440;
/// Of `mca_btl_base_am_rdma_module_t`: its transport, and its functions.
const TRANSPORT: usize = 0x10;
const FUNCTIONS: usize = 0x40;
/// Bytes of it, of `ompi_proc_t` and of `mca_bml_base_endpoint_t`, which Open MPI's classes say, too.
const SIZES: [usize; 3] = [0x60, 0x78, 0xe8];
/// Of `ompi_osc_rdma_pending_op_t`: the window's module, if nobody waits for its end on the spot.
const WINDOW: usize = 0x28;
/// Of `ompi_proc_t`: its name, whether it is not known to be dead, and its endpoints.
const NAME: usize = 0x28;
const IS_ACTIVE: usize = 0x40;
const ENDPOINTS: usize = 0x48;
const ENDPOINT_COUNT: usize = 4;
/// Of `mca_bml_base_endpoint_t`: three lists of endpoints of transports; and of each the length and the entries, which have
/// the endpoint last of three words.
const LISTS: [usize; 3] = [0x48, 0x78, 0xa8];
const LENGTH: usize = 0x10;
const ENTRIES: usize = 0x28;
/// `OPAL_ERR_UNREACH`
const UNREACHABLE: c_int = -12;
/// Bytes between a variable of osc/rdma on the stack and one of a function that it calls, at most.
const FRAMES: usize = 1 << 14;

/// `mca_btl_base_rdma_completion_fn_t`
type Callback = unsafe extern "C" fn(Object, Object, Object, Object, Object, Object, c_int);
type Move = unsafe extern "C" fn(
    Object,
    Object,
    Object,
    u64,
    Object,
    Object,
    usize,
    c_int,
    c_int,
    Callback,
    Object,
    Object,
) -> c_int;
type Fetch = unsafe extern "C" fn(
    Object,
    Object,
    Object,
    u64,
    Object,
    Object,
    c_int,
    u64,
    c_int,
    c_int,
    Callback,
    Object,
    Object,
) -> c_int;
type Swap = unsafe extern "C" fn(
    Object,
    Object,
    Object,
    u64,
    Object,
    Object,
    u64,
    u64,
    c_int,
    c_int,
    Callback,
    Object,
    Object,
) -> c_int;

/// The functions of a table.
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

/// Processes by their endpoints.
static PROCESSES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Watches what a window asks of others; false if it does so in another way.
///
/// # Safety
/// The module of a window's component.
pub unsafe fn watch(module: Object) -> bool {
    let Some(open_mpi) = OpenMpi::get() else { return false };
    let tables = open_mpi.tables(module);
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
    lock(&PROCESSES).clear();
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

/// All that the dead have sent has arrived: ends what they have not answered, and what they might yet send.
pub fn end_with_the_dead() {
    let mut ended = Vec::new();
    {
        let mut all = lock(&UNDER_WAY);
        let dead: Vec<usize> = all.iter().filter(|(_, one)| is_dead(one.process)).map(|(number, _)| *number).collect();
        for number in dead {
            match all.get_mut(&number) {
                Some(one) if one.is_awaited => one.is_lost = true,
                _ => ended.extend(all.remove(&number)),
            }
        }
    }
    // Not under the lock: they may ask for more.
    let processes: BTreeSet<usize> = ended.iter().map(|one| one.process).collect();
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

#[rustfmt::skip]
unsafe extern "C" fn put(
    table: Object, endpoint: Object, local: Object, remote: u64, handle: Object, remote_handle: Object, size: usize,
    flags: c_int, order: c_int, callback: Callback, context: Object, data: Object,
) -> c_int {
    let Some(stock) = STOCK.get() else { return UNREACHABLE };
    // SAFETY: with the arguments that were meant for it, but for what is called in the end.
    unsafe {
        let one = transfer(table, endpoint, [local, handle], callback, [context, data], is_on_stack(context));
        asked(one, |callback, context| (stock.put)(
            table, endpoint, local, remote, handle, remote_handle, size, flags, order, callback, context, data,
        ))
    }
}

#[rustfmt::skip]
unsafe extern "C" fn get(
    table: Object, endpoint: Object, local: Object, remote: u64, handle: Object, remote_handle: Object, size: usize,
    flags: c_int, order: c_int, callback: Callback, context: Object, data: Object,
) -> c_int {
    let Some(stock) = STOCK.get() else { return UNREACHABLE };
    // SAFETY: with the arguments that were meant for it, but for what is called in the end.
    unsafe {
        let one = transfer(table, endpoint, [local, handle], callback, [context, data], is_on_stack(context));
        asked(one, |callback, context| (stock.get)(
            table, endpoint, local, remote, handle, remote_handle, size, flags, order, callback, context, data,
        ))
    }
}

#[rustfmt::skip]
unsafe extern "C" fn fetch(
    table: Object, endpoint: Object, local: Object, remote: u64, handle: Object, remote_handle: Object, operation: c_int, operand: u64,
    flags: c_int, order: c_int, callback: Callback, context: Object, data: Object,
) -> c_int {
    let Some(stock) = STOCK.get() else { return UNREACHABLE };
    // SAFETY: with the arguments that were meant for it, but for what is called in the end.
    unsafe {
        let one = transfer(table, endpoint, [local, handle], callback, [context, data], is_awaited(context));
        asked(one, |callback, context| (stock.fetch)(
            table, endpoint, local, remote, handle, remote_handle, operation, operand, flags, order, callback, context, data,
        ))
    }
}

#[rustfmt::skip]
unsafe extern "C" fn swap(
    table: Object, endpoint: Object, local: Object, remote: u64, handle: Object, remote_handle: Object, compare: u64, value: u64,
    flags: c_int, order: c_int, callback: Callback, context: Object, data: Object,
) -> c_int {
    let Some(stock) = STOCK.get() else { return UNREACHABLE };
    // SAFETY: with the arguments that were meant for it, but for what is called in the end.
    unsafe {
        let one = transfer(table, endpoint, [local, handle], callback, [context, data], is_awaited(context));
        asked(one, |callback, context| (stock.swap)(
            table, endpoint, local, remote, handle, remote_handle, compare, value, flags, order, callback, context, data,
        ))
    }
}

/// Whether Open MPI holds a process dead.
fn is_dead(process: usize) -> bool {
    // SAFETY: a process that Open MPI has known, and keeps as long as it has windows with it.
    process != 0 && unsafe { !(process as Object).byte_add(IS_ACTIVE).cast::<bool>().read_volatile() }
}

/// Closes the connections to a process that is dead.
fn cut(process: usize) {
    if let Some(connections) = Connections::get() {
        // SAFETY: as above.
        connections.cut(unsafe { (process as Object).byte_add(NAME).cast::<ProcessName>().read() });
    }
}

/// The process to which an endpoint leads, or 0.
fn process_of(endpoint: Object) -> usize {
    if let Some(process) = lock(&PROCESSES).get(&(endpoint as usize)) {
        return *process;
    }
    let all = OpenMpi::get().map_or(BTreeMap::new(), OpenMpi::processes);
    let process = all.get(&(endpoint as usize)).copied().unwrap_or(0);
    lock(&PROCESSES).extend(all);
    process
}

/// What is used of Open MPI here.
struct OpenMpi {
    /// Classes of tables, of processes and of their endpoints.
    classes: [usize; 3],
    all_processes: unsafe extern "C" fn(*mut usize) -> *mut Object,
    memory: File,
}

impl OpenMpi {
    /// `None` if this Open MPI lacks something, or has other objects.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<OpenMpi>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        let classes = [
            library.symbol(c"mca_btl_base_am_rdma_module_t_class")?,
            library.symbol(c"ompi_proc_t_class")?,
            library.symbol(c"mca_bml_base_endpoint_t_class")?,
        ];
        // SAFETY: classes of Open MPI.
        let fits = classes.iter().zip(SIZES).all(|(class, size)| unsafe { (*class.cast::<Class>()).size } == size);
        // SAFETY: the type is that of proc.h.
        let all_processes = unsafe { library.function(c"ompi_proc_all")? };
        let memory = File::open("/proc/self/mem").ok().filter(|_| fits)?;
        Some(Self { classes: classes.map(|class| class as usize), all_processes, memory })
    }

    /// A word of this process's memory, where a wrong address is an error and no crash.
    fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address as u64).ok().map(|()| usize::from_ne_bytes(bytes))
    }

    /// The tables of a window's module; none if it is of another component or transport.
    fn tables(&self, module: Object) -> Vec<Object> {
        let at = |offset| self.word(module as usize + offset);
        let find = || {
            let count = (at(OTHER_TRANSPORT)? & 0xff == 0).then_some(at(TABLE_COUNT)? & 0xff)?;
            let list = at(TABLES)?;
            (0..count)
                .map(|index| {
                    let table = self.word(list + 8 * index)?;
                    (self.word(table)? == self.classes[0]).then_some(table as Object)
                })
                .collect::<Option<Vec<Object>>>()
        };
        find().unwrap_or_default()
    }

    /// All processes that Open MPI knows, by their endpoints.
    fn processes(&self) -> BTreeMap<usize, usize> {
        let (mut all, mut count) = (BTreeMap::new(), 0);
        let Some(mpi) = Internals::get() else { return all };
        // SAFETY: Open MPI's list, whose memory and references are the caller's.
        unsafe {
            let list = (self.all_processes)(&mut count);
            for index in 0..if list.is_null() { 0 } else { count } {
                let process = list.add(index).read();
                for endpoint in self.endpoints(process as usize) {
                    all.insert(endpoint, process as usize);
                }
                mpi.classes.release(process);
            }
            libc::free(list.cast());
        }
        all
    }

    /// The endpoints of all transports to a process.
    fn endpoints(&self, process: usize) -> Vec<usize> {
        let is = |object: usize, class: usize| object != 0 && self.word(object) == Some(self.classes[class]);
        let words = (0..ENDPOINT_COUNT).filter_map(|index| self.word(process + ENDPOINTS + 8 * index));
        let Some(own) = words.filter(|_| is(process, 1)).find(|word| is(*word, 2)) else { return Vec::new() };
        let entries = |list: usize| {
            let (length, first) = (self.word(own + list + LENGTH)?, self.word(own + list + ENTRIES)?);
            Some((0..length).filter_map(move |index| self.word(first + 24 * index + 16)))
        };
        LISTS.into_iter().filter_map(entries).flatten().collect()
    }
}
