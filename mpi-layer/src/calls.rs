//! Calls of one-sided functions that wait for the dead, and how they are left.
//!
//! Loops of Open MPI's `osc/rdma` and `osc/sm` turn the progress loop until an answer is there, or a word in shared memory,
//! and look at nothing else. Where that cannot come any more, the progress loop does not return to them: it unwinds their frames up to the function of
//! ours that has called them. What they have begun is left as it is, so the window is broken from then on.
//!
//! That is done in a wait of these two themselves only, not in another part of MPI that it has called, and not while a living
//! process may still write its answer to the frames.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::line::lock;
use crate::openmpi::Library;
use crate::owners::{Needs, Owner};
use crate::transfers::{self, Awaited};
use crate::waiting::symbol;

/// All that the dead have sent has arrived after this time, in which a process may not run, and so many turns of its loop.
const LATE: Duration = Duration::from_millis(20);
const TURNS: u32 = 8;
/// The first and the last function of osc/rdma and of osc/sm: what lies between is theirs.
const ENDS: [[&CStr; 2]; 2] =
    [[c"ompi_osc_rdma_free", c"ompi_osc_rdma_sync_pscw_peer"], [c"ompi_osc_sm_rput", c"ompi_osc_sm_flush_local_all"]];

/// A function of a window that this thread is in.
enum Call {
    Of(Arc<Owner>, Needs),
    /// One that waits for nothing but an answer, while the window is being made.
    Asking,
}

impl Call {
    fn is_hopeless(&self, awaited: Awaited) -> bool {
        !awaited.living
            && match self {
                Self::Of(owner, needs) => (awaited.dead || owner.refusal(*needs).is_some()) && owner.can_be_left(),
                Self::Asking => awaited.dead,
            }
    }
}

/// What is thrown through a hopeless call.
struct Hopeless;

thread_local! {
    static PRESENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// When the last death is [`LATE`] ago.
static DUE: Mutex<Option<Instant>> = Mutex::new(None);
/// How many turns of the progress loop are left until what waits for the dead is ended.
static LEFT: AtomicU32 = AtomicU32::new(0);
static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);
/// How many calls there are.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// A process has died.
pub fn begin() {
    *lock(&DUE) = Some(Instant::now() + LATE);
    LEFT.store(TURNS, Ordering::Release);
    SOMEBODY_DIED.store(true, Ordering::Release);
    crate::watch_progress();
}

/// A turn of the progress loop; false if no further one is needed.
pub fn look() -> bool {
    if LEFT.load(Ordering::Acquire) > 0 && lock(&DUE).is_some_and(|due| Instant::now() >= due) {
        let less = |left: u32| left.checked_sub(1);
        if LEFT.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(1) {
            transfers::end_with_the_dead();
        }
    }
    LEFT.load(Ordering::Acquire) > 0 || are_watched()
}

/// Whether somebody has died, and a function of a window is being called.
fn are_watched() -> bool {
    SOMEBODY_DIED.load(Ordering::Acquire) && CALLS.load(Ordering::Acquire) > 0
}

/// Calls Open MPI's own function; `None` if it had to be left.
pub fn enter(owner: &Arc<Owner>, needs: Needs, stock: impl FnOnce() -> c_int) -> Option<c_int> {
    enter_call(Call::Of(owner.clone(), needs), stock)
}

/// The same while the window is being made, for a function that asks one process and waits for the answer.
pub fn ask(stock: impl FnOnce() -> c_int) -> Option<c_int> {
    enter_call(Call::Asking, stock)
}

fn enter_call(call: Call, stock: impl FnOnce() -> c_int) -> Option<c_int> {
    CALLS.fetch_add(1, Ordering::AcqRel);
    if are_watched() {
        transfers::forget_the_dead();
        crate::watch_progress();
    }
    let before = PRESENT.replace(Some(call));
    let result = catch_unwind(AssertUnwindSafe(stock));
    PRESENT.replace(before);
    CALLS.fetch_sub(1, Ordering::AcqRel);
    match result {
        Ok(code) => Some(code),
        Err(thrown) if thrown.is::<Hopeless>() => None,
        Err(other) => resume_unwind(other),
    }
}

/// In a turn of the progress loop: what is to be thrown through the call that this thread is in, if that is hopeless.
pub fn verdict() -> Option<Box<dyn Any + Send>> {
    if !are_watched() || LEFT.load(Ordering::Acquire) > 0 || transfers::is_answering() {
        return None;
    }
    let is_hopeless = |call: &Call| call.is_hopeless(transfers::awaited_here());
    let is_hopeless = PRESENT.with_borrow(|present| present.as_ref().is_some_and(is_hopeless));
    (is_hopeless && waits_itself()).then(|| Box::new(Hopeless) as Box<dyn Any + Send>)
}

/// Whether it is osc/rdma or osc/sm that turns the progress loop.
fn waits_itself() -> bool {
    static RANGES: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    let find = || {
        let Some(library) = Library::loaded() else { return Vec::new() };
        let range = |ends: [&CStr; 2]| Some(library.symbol(ends[0])? as usize..library.symbol(ends[1])? as usize);
        ENDS.into_iter().filter_map(range).collect()
    };
    let own = RANGES.get_or_init(find);
    let mut frames = [std::ptr::null_mut::<c_void>(); 32];
    // SAFETY: room for that many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let is_loop = |frame: &&*mut c_void| symbol(**frame).is_some_and(|name| name == "opal_progress");
    let frames = frames.iter().take(usize::try_from(count).unwrap_or(0));
    let mut frames = frames.skip_while(|frame| !is_loop(frame)).skip_while(is_loop);
    frames.next().is_some_and(|frame| own.iter().any(|range| range.contains(&(*frame as usize))))
}
