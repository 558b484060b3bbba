//! Blocking functions of Open MPI that do not block their caller: each runs on a stack of its own, which it leaves wherever
//! it would wait, and enters again in the next turn of the program's progress loop.
//!
//! Open MPI 5.0 waits in three ways where it spawns and connects. It calls `opal_progress` until a request has completed,
//! with threads it waits in `ompi_sync_wait_mt`, and in the runtime ([`runtime`](crate::runtime)): this library stands in
//! front of those functions, and what a fiber calls is done here. All others get Open MPI's.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::internals::Internals;
use crate::openmpi::{Handle, OpenMpi, behind};
use crate::schedules::Schedules;

/// Bytes of address space for a stack; what is not touched takes no memory. Callbacks of the program may run there.
const STACK: usize = 1 << 20;

/// `ompi_wait_sync_t`: somebody waits until `count` is 0.
#[repr(C)]
pub struct Sync {
    count: c_int,
    status: c_int,
    condition: libc::pthread_cond_t,
    lock: libc::pthread_mutex_t,
    neighbours: [*mut Self; 2],
    signaling: bool,
}

impl Sync {
    /// Ends the waiting, with a status of Open MPI: those who wait look at their requests again if it is an error.
    ///
    /// # Safety
    /// What the present or a suspended fiber waits for.
    pub unsafe fn end(sync: *mut Self, status: c_int) {
        // SAFETY: as required of the caller; its owner, which polls, reads it next.
        unsafe {
            (&raw mut (*sync).status).write_volatile(status);
            (&raw mut (*sync).count).write_volatile(0);
            (&raw mut (*sync).signaling).write_volatile(false);
        }
    }
}

/// What belongs to a fiber beside its stack.
pub struct Fiber {
    yielder: Cell<*const Yielder<(), ()>>,
    /// What Open MPI waits for on this stack, or null.
    waits: Cell<*mut Sync>,
    /// How often all had been woken up when this stack was left.
    woken: Cell<usize>,
    pub schedules: Schedules,
    /// The communicators with which the operation stands and falls: if one is revoked, and if a member is dead, there is
    /// nobody to wait for in the runtime.
    pub depends_on: Cell<[Handle; 2]>,
    /// It numbers a communicator together with others who may be far away.
    pub hands_turn_on: Cell<bool>,
    /// The runtime has said that one of the processes is dead.
    pub met_the_dead: Cell<bool>,
}

impl Fiber {
    /// Leaves the stack; returns in the next turn of the progress loop.
    pub fn pause(&self) {
        self.schedules.advance();
        // SAFETY: set as the fiber began, for as long as it runs.
        unsafe { (*self.yielder.get()).suspend(()) };
    }
}

struct Running {
    fiber: Box<Fiber>,
    body: Coroutine<(), (), ()>,
}

impl Running {
    /// Runs until the next wait. What a stack waits for is known to Open MPI only while that stack runs (with threads to
    /// the fiber alone), so whoever is left meanwhile is woken up when it is entered again.
    fn run(&mut self, inside: &Internals) {
        let fiber = &*self.fiber;
        let wakes = WAKES.load(Ordering::Acquire);
        if fiber.woken.get() != wakes && !fiber.waits.get().is_null() {
            // SAFETY: the fiber is suspended in the function that has it.
            unsafe { Sync::end(fiber.waits.get(), WOKEN_WITH.load(Ordering::Relaxed)) };
        }
        let others = inside.exchange_waiting(fiber.waits.get());
        CURRENT.set(&raw const *fiber);
        self.body.resume(());
        CURRENT.set(std::ptr::null());
        let fiber = &*self.fiber;
        fiber.woken.set(WAKES.load(Ordering::Acquire));
        if let Some(others) = others {
            fiber.waits.set(inside.exchange_waiting(others).unwrap_or(std::ptr::null_mut()));
            if fiber.woken.get() != wakes {
                // SAFETY: Open MPI's own function, with the status that it was called with.
                unsafe { (inside.wake_one_thread)(WOKEN_WITH.load(Ordering::Relaxed)) };
            }
        }
    }
}

// SAFETY: a fiber runs in one thread at a time, under the mark below; Open MPI's code has nothing that belongs to a thread.
unsafe impl Send for Running {}

static ALL: Mutex<Vec<Running>> = Mutex::new(Vec::new());
/// Somebody has all fibers with him, and runs them.
static TURNING: AtomicBool = AtomicBool::new(false);
/// How often a failure has woken up all who wait, and with which status the last time.
static WAKES: AtomicUsize = AtomicUsize::new(0);
static WOKEN_WITH: AtomicI32 = AtomicI32::new(0);

thread_local! {
    /// The fiber that this thread runs now, or null.
    static CURRENT: Cell<*const Fiber> = const { Cell::new(std::ptr::null()) };
}

/// The fiber on whose stack this is called. Never in line: a fiber may wake up in another thread.
#[inline(never)]
pub fn current() -> Option<&'static Fiber> {
    // SAFETY: what is set there lives while it runs, and only its own code gets it.
    unsafe { CURRENT.get().as_ref() }
}

fn all() -> MutexGuard<'static, Vec<Running>> {
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Has `body` run on a stack of its own; false if there is no memory for one. What it calls must bear to be left for ever.
pub fn start(mpi: &OpenMpi, body: impl FnOnce(&Fiber) + 'static) -> bool {
    let Ok(stack) = DefaultStack::new(STACK) else { return false };
    let fiber = Box::new(Fiber {
        yielder: Cell::new(std::ptr::null()),
        waits: Cell::new(std::ptr::null_mut()),
        woken: Cell::new(0),
        schedules: Schedules::default(),
        depends_on: Cell::new([std::ptr::null_mut(); 2]),
        hands_turn_on: Cell::new(false),
        met_the_dead: Cell::new(false),
    });
    let own: *const Fiber = &raw const *fiber;
    let body = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
        // SAFETY: the box is freed after the coroutine has returned.
        let fiber = unsafe { &*own };
        fiber.yielder.set(yielder);
        let _ = catch_unwind(AssertUnwindSafe(|| body(fiber)));
    });
    all().push(Running { fiber, body });
    // SAFETY: this library is never unloaded; a callback that is there already is not added again.
    unsafe { (mpi.register_progress)(progress) };
    true
}

/// In every turn of the progress loop, while there are fibers.
unsafe extern "C" fn progress() -> c_int {
    catch_unwind(turn).unwrap_or(0)
}

/// Where Open MPI waits. Progress is made by the program's loop alone: what the loop does for others would begin further
/// steps on a fiber's stack, which counted as the fiber's own and ended with it.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn opal_progress() -> c_int {
    static BEHIND: OnceLock<Option<unsafe extern "C-unwind" fn() -> c_int>> = OnceLock::new();
    match current() {
        Some(fiber) => {
            fiber.pause();
            0
        }
        // SAFETY: the type is that of opal_progress.h.
        None => unsafe { BEHIND.get_or_init(|| behind(c"opal_progress")).map_or(0, |progress| progress()) },
    }
}

/// Lets each fiber run until it waits again; returns how many have ended.
fn turn() -> c_int {
    let (Some(mpi), Some(inside)) = (OpenMpi::get(), Internals::get()) else { return 0 };
    if TURNING.swap(true, Ordering::Acquire) {
        return 0;
    }
    let mut running = std::mem::take(&mut *all());
    let before = running.len();
    if mpi.is_over() {
        // Their stacks are full of what Open MPI has taken apart.
        running.drain(..).for_each(std::mem::forget);
    }
    for one in &mut running {
        one.run(inside);
    }
    running.retain(|one| !one.body.done());
    let ended = before - running.len();
    let mut all = all();
    running.append(&mut all);
    *all = running;
    if all.is_empty() {
        // SAFETY: the loop allows that a callback goes.
        unsafe { (mpi.unregister_progress)(progress) };
    }
    TURNING.store(false, Ordering::Release);
    c_int::try_from(ended).unwrap_or(0)
}

/// Where Open MPI waits in a program with threads.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_sync_wait_mt(sync: *mut Sync) -> c_int {
    let Some(fiber) = current() else {
        static BEHIND: OnceLock<Option<unsafe extern "C" fn(*mut Sync) -> c_int>> = OnceLock::new();
        // SAFETY: the type is that of wait_sync.h; passed on as it came.
        return unsafe { BEHIND.get_or_init(|| behind(c"ompi_sync_wait_mt")).map_or(-1, |wait| wait(sync)) };
    };
    // SAFETY: what is waited for lives until this returns.
    unsafe {
        while (&raw const (*sync).count).read_volatile() > 0 {
            fiber.waits.set(sync);
            fiber.pause();
        }
        fiber.waits.set(std::ptr::null_mut());
        if (*sync).status == 0 { 0 } else { -1 }
    }
}

type Wake = unsafe extern "C" fn(c_int);

macro_rules! wakers {
    ($($name:ident: $text:literal)*) => {$(
        /// A failure: all who wait look again whether they still can.
        ///
        /// # Safety
        /// Called by Open MPI in place of its own function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) {
            static BEHIND: OnceLock<Option<Wake>> = OnceLock::new();
            // SAFETY: the type is that of wait_sync.h; passed on as it came.
            BEHIND.get_or_init(|| unsafe { behind($text) }).iter().for_each(|wake| unsafe { wake(status) });
            WOKEN_WITH.store(status, Ordering::Relaxed);
            WAKES.fetch_add(1, Ordering::Release);
        }
    )*};
}

wakers! {
    opal_threads_base_wait_sync_global_wakeup_st: c"opal_threads_base_wait_sync_global_wakeup_st"
    opal_threads_base_wait_sync_global_wakeup_mt: c"opal_threads_base_wait_sync_global_wakeup_mt"
}
