//! Runs blocking functions of Open MPI without blocking their caller, on fibers.
//!
//! A fiber is a stack of its own. The function leaves it wherever it would wait, and continues in the next turn of the
//! program's progress loop. Open MPI 5.0 waits in three ways when it spawns and connects: it calls `opal_progress`
//! until a request has completed, with threads it waits in `ompi_sync_wait_mt`, and in the runtime
//! ([`pmix_nonblocking`](crate::pmix_nonblocking)). This library defines the exported names of those functions. It
//! handles calls on a fiber, and forwards others to Open MPI.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use openmpi_internals::functions::{
    OMPI_SYNC_WAIT_MT, OPAL_PROGRESS, OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_MT,
    OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_ST,
};
use openmpi_internals::layout::status::OPAL_ERROR;
use openmpi_internals::sync::lock;
use openmpi_internals::wait_sync::WaitSync;

use crate::comm_request::Schedules;
use crate::internals::Internals;
use crate::openmpi::{Handle, OpenMpi, Progress, original};

/// Address space of a stack, in bytes; untouched pages use no memory. Callbacks of the program may run there.
const STACK_SIZE: usize = 1 << 20;

/// State of a fiber beside its stack.
pub struct Fiber {
    yielder: Cell<*const Yielder<(), ()>>,
    /// The object that Open MPI waits for on this stack, or null.
    wait_sync: Cell<*mut WaitSync>,
    /// Number of wakeups when this stack was left.
    wakeups_seen: Cell<usize>,
    pub schedules: Schedules,
    /// Communicators that the operation needs: once one is revoked or has a dead member, waits in the runtime are
    /// hopeless.
    pub depends_on: Cell<[Handle; 2]>,
    /// Whether it chooses context ids together with processes that may arrive late: other communicators must not wait
    /// for them.
    pub releases_cid_turn: Cell<bool>,
    /// Whether the runtime has reported one of the processes as dead.
    pub met_the_dead: Cell<bool>,
}

impl Fiber {
    /// Leaves the stack; returns in the next turn of the progress loop.
    pub fn pause(&self) {
        self.schedules.advance();
        // SAFETY: set when the fiber began, and valid while it runs.
        unsafe { (*self.yielder.get()).suspend(()) };
    }

    /// Whether its operation cannot complete: MPI is finalised, or a communicator is revoked or has a dead member.
    pub fn cannot_complete(&self, internals: &Internals) -> bool {
        let is_broken = |comm: Handle| {
            // SAFETY: the communicators of a running operation are live.
            !comm.is_null() && unsafe { internals.is_revoked(comm) || internals.has_failed_members(comm) }
        };
        OpenMpi::get().is_some_and(OpenMpi::is_finalized) || self.depends_on.get().into_iter().any(is_broken)
    }
}

/// Wakeups after failures. Each makes all waits check their requests again.
struct Wakeups {
    count: AtomicUsize,
    /// The status of the last one.
    status: AtomicI32,
}

impl Wakeups {
    const fn new() -> Self {
        Self { count: AtomicUsize::new(0), status: AtomicI32::new(0) }
    }

    fn announce(&self, status: c_int) {
        self.status.store(status, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The status of the last wakeup between these two counts, if any.
    fn between(&self, seen: usize, count: usize) -> Option<c_int> {
        (seen != count).then(|| self.status.load(Ordering::Relaxed))
    }
}

/// A fiber and its stack.
struct Running {
    fiber: Box<Fiber>,
    stack: Coroutine<(), (), ()>,
}

impl Running {
    /// A fiber that will run `body`; `None` if no stack can be allocated.
    fn new(body: impl FnOnce(&Fiber) + 'static) -> Option<Self> {
        let stack = DefaultStack::new(STACK_SIZE).ok()?;
        let fiber = Box::new(Fiber {
            yielder: Cell::new(std::ptr::null()),
            wait_sync: Cell::new(std::ptr::null_mut()),
            wakeups_seen: Cell::new(0),
            schedules: Schedules::default(),
            depends_on: Cell::new([std::ptr::null_mut(); 2]),
            releases_cid_turn: Cell::new(false),
            met_the_dead: Cell::new(false),
        });
        let own: *const Fiber = &raw const *fiber;
        let stack = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: the box is freed after the coroutine has returned.
            let fiber = unsafe { &*own };
            fiber.yielder.set(yielder);
            let _ = catch_unwind(AssertUnwindSafe(|| body(fiber)));
        });
        Some(Self { fiber, stack })
    }

    /// Enters the stack; returns at its next pause or its end.
    fn enter(&mut self) {
        CURRENT.set(&raw const *self.fiber);
        self.stack.resume(());
        CURRENT.set(std::ptr::null());
    }

    /// Runs until the next pause. Open MPI knows a stack's wait only while that stack runs (with threads only the fiber
    /// knows it). So a wait that a wakeup would have ended meanwhile ends when the stack is entered again.
    fn run(&mut self, internals: &Internals) {
        let fiber = &*self.fiber;
        let before = WAKEUPS.count();
        if let (Some(status), false) =
            (WAKEUPS.between(fiber.wakeups_seen.get(), before), fiber.wait_sync.get().is_null())
        {
            // SAFETY: the fiber is suspended in the function that owns the object.
            unsafe { WaitSync::end(fiber.wait_sync.get(), status) };
        }
        let others = internals.exchange_wait_sync(fiber.wait_sync.get());
        self.enter();
        let fiber = &*self.fiber;
        fiber.wakeups_seen.set(WAKEUPS.count());
        if let Some(others) = others {
            fiber.wait_sync.set(internals.exchange_wait_sync(others).unwrap_or(std::ptr::null_mut()));
            if let Some(status) = WAKEUPS.between(before, fiber.wakeups_seen.get()) {
                // SAFETY: Open MPI's own function, with its original status.
                unsafe { (internals.wakeup_without_threads)(status) };
            }
        }
    }
}

// SAFETY: the mark below makes a fiber run in one thread at a time; Open MPI's code has no thread-local state.
unsafe impl Send for Running {}

static FIBERS: Mutex<Vec<Running>> = Mutex::new(Vec::new());
/// Whether a thread has taken all fibers, and runs them.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);
static WAKEUPS: Wakeups = Wakeups::new();

thread_local! {
    /// The fiber that this thread runs, or null.
    static CURRENT: Cell<*const Fiber> = const { Cell::new(std::ptr::null()) };
}

/// The fiber whose stack this is called on. Never inlined: a fiber may continue in another thread.
#[inline(never)]
pub fn current() -> Option<&'static Fiber> {
    // SAFETY: a fiber is live while it runs, and only its own code gets the reference.
    unsafe { CURRENT.get().as_ref() }
}

/// Runs `body` on a stack of its own; false if none can be allocated. At `MPI_Finalize` the stack is leaked with its
/// contents.
pub fn start(mpi: &OpenMpi, body: impl FnOnce(&Fiber) + 'static) -> bool {
    let Some(running) = Running::new(body) else { return false };
    lock(&FIBERS).push(running);
    // SAFETY: this library is never unloaded; a registered callback is not added again.
    unsafe { (mpi.register_progress)(progress) };
    true
}

/// Called in every turn of the progress loop, while there are fibers.
unsafe extern "C-unwind" fn progress() -> c_int {
    catch_unwind(run_all).unwrap_or(0)
}

/// Replaces Open MPI's wait. On a fiber's stack it does not run progress: callbacks would begin further steps of other
/// operations, which would count as the fiber's own and end with it.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn opal_progress() -> c_int {
    static ORIGINAL: OnceLock<Option<Progress>> = OnceLock::new();
    match current() {
        Some(fiber) => {
            fiber.pause();
            0
        }
        // SAFETY: the original function.
        None => ORIGINAL.get_or_init(|| original(OPAL_PROGRESS)).map_or(0, |progress| unsafe { progress() }),
    }
}

/// Runs each fiber until its next wait; returns the number of ended ones.
fn run_all() -> c_int {
    let (Some(mpi), Some(internals)) = (OpenMpi::get(), Internals::get()) else { return 0 };
    if IS_RUNNING.swap(true, Ordering::Acquire) {
        return 0;
    }
    let mut running = std::mem::take(&mut *lock(&FIBERS));
    let before = running.len();
    if mpi.is_finalized() {
        // Their stacks refer to objects that Open MPI has freed.
        running.drain(..).for_each(std::mem::forget);
    }
    for one in &mut running {
        one.run(internals);
    }
    running.retain(|one| !one.stack.done());
    let ended = before - running.len();
    let mut all = lock(&FIBERS);
    // Fibers started meanwhile come last.
    running.append(&mut all);
    *all = running;
    if all.is_empty() {
        // SAFETY: a callback may be removed while the loop calls it.
        unsafe { (mpi.unregister_progress)(progress) };
    }
    IS_RUNNING.store(false, Ordering::Release);
    c_int::try_from(ended).unwrap_or(0)
}

/// Replaces Open MPI's wait in a program with threads.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_sync_wait_mt(sync: *mut WaitSync) -> c_int {
    let Some(fiber) = current() else {
        static ORIGINAL: OnceLock<Option<unsafe extern "C" fn(*mut WaitSync) -> c_int>> = OnceLock::new();
        // SAFETY: the original function with its argument.
        return ORIGINAL.get_or_init(|| original(OMPI_SYNC_WAIT_MT)).map_or(OPAL_ERROR, |wait| unsafe { wait(sync) });
    };
    // SAFETY: the object lives until this returns.
    unsafe {
        while WaitSync::is_waiting(sync) {
            fiber.wait_sync.set(sync);
            fiber.pause();
        }
        fiber.wait_sync.set(std::ptr::null_mut());
        if WaitSync::status(sync) == 0 { 0 } else { OPAL_ERROR }
    }
}

type Wakeup = unsafe extern "C" fn(c_int);

macro_rules! wakeups {
    ($($name:ident: $function:ident)*) => {$(
        /// Handles a failure that Open MPI has found: all waits check their requests again.
        ///
        /// # Safety
        /// Called by Open MPI in place of its own function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) {
            static ORIGINAL: OnceLock<Option<Wakeup>> = OnceLock::new();
            // SAFETY: the original function with its argument.
            ORIGINAL.get_or_init(|| original($function)).iter().for_each(|wakeup| unsafe { wakeup(status) });
            WAKEUPS.announce(status);
        }
    )*};
}

wakeups! {
    opal_threads_base_wait_sync_global_wakeup_st: OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_ST
    opal_threads_base_wait_sync_global_wakeup_mt: OPAL_THREADS_BASE_WAIT_SYNC_GLOBAL_WAKEUP_MT
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn is_current(fiber: &Fiber) -> bool {
        current().is_some_and(|current| std::ptr::eq(current, fiber))
    }

    #[test]
    fn a_fiber_runs_from_pause_to_pause_and_is_the_current_one_only_while_it_runs() {
        let steps = Rc::new(Cell::new(0));
        let counted = steps.clone();
        let mut running = Running::new(move |fiber| {
            for step in 1..=3 {
                assert!(is_current(fiber));
                counted.set(step);
                fiber.pause();
            }
        })
        .expect("there is memory for a stack");
        for step in 1..=3 {
            assert!(!running.stack.done());
            running.enter();
            assert_eq!(steps.get(), step);
            assert!(current().is_none());
        }
        running.enter();
        assert!(running.stack.done());
    }

    #[test]
    fn fibers_that_run_in_turn_do_not_mix() {
        let run = |mut running: [Running; 2]| {
            while running.iter().any(|one| !one.stack.done()) {
                running.iter_mut().filter(|one| !one.stack.done()).for_each(Running::enter);
            }
        };
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let numbered = |number: u32| {
            let order = order.clone();
            Running::new(move |fiber| {
                for step in 0..2 {
                    order.borrow_mut().push((number, step));
                    fiber.pause();
                    assert!(is_current(fiber));
                }
            })
            .expect("there is memory for a stack")
        };
        run([numbered(1), numbered(2)]);
        assert_eq!(*order.borrow(), [(1, 0), (2, 0), (1, 1), (2, 1)]);
    }

    #[test]
    fn a_panic_ends_the_fiber_alone() {
        let mut running = Running::new(|_| panic!("on the fiber")).expect("there is memory for a stack");
        running.enter();
        assert!(running.stack.done());
        assert!(current().is_none());
    }

    #[test]
    fn a_wait_hears_of_the_wakeups_since_its_stack_was_left_and_of_no_earlier_ones() {
        let wakeups = Wakeups::new();
        wakeups.announce(-1);
        let seen = wakeups.count();
        assert_eq!(wakeups.between(seen, wakeups.count()), None);
        wakeups.announce(-2);
        wakeups.announce(-3);
        assert_eq!(wakeups.between(seen, wakeups.count()), Some(-3));
    }
}
