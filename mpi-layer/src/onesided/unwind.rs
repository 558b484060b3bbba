//! Leaves one-sided functions that wait for a dead process, by unwinding their frames.
//!
//! Open MPI's `osc/rdma` and `osc/sm` wait in loops that turn the progress loop until an answer, or a word in shared
//! memory, is there. They check nothing else. If that cannot arrive, ringwatch's part of the progress loop does not
//! return to them: it unwinds their frames up to the function of this module that has called them. The operation stays
//! incomplete, so the window is broken from then on.
//!
//! ringwatch does so only if one of these two components waits itself, not another part of MPI that it has called, and
//! only if no living process can still write an answer into the frames.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::failure::hang_report::symbol;
use crate::failure::wakeup;
use crate::onesided::am_rdma::{self, Awaited};
use openmpi_internals::functions::OPAL_PROGRESS;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::symbol::Variable;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{OSC_RDMA_BEGINS, OSC_RDMA_ENDS, OSC_SM_BEGINS, OSC_SM_ENDS};

/// Time, during which a process may not run, and number of turns after which all data of a dead process has arrived.
const LATE: Duration = Duration::from_millis(20);
const TURNS: u32 = 8;
/// The first and the last function of osc/rdma and of osc/sm: all code in between belongs to them.
const ENDS: [[Variable<c_void>; 2]; 2] = [[OSC_RDMA_BEGINS, OSC_RDMA_ENDS], [OSC_SM_BEGINS, OSC_SM_ENDS]];

/// The members that an operation needs to complete.
#[derive(Clone, Copy)]
pub enum Needs {
    Nobody,
    Rank(c_int),
    /// A group of members.
    Group(Object),
    Everybody,
}

/// A window, one of whose functions may have to be left.
pub trait Window: Send + Sync {
    /// Whether an operation that needs these members cannot succeed.
    fn is_refused(&self, needs: Needs) -> bool;

    /// Whether a hopeless wait in a function of Open MPI can be left.
    fn can_be_left(&self) -> bool;
}

/// A call of a window's function in this thread.
enum Call {
    Of(Arc<dyn Window>, Needs),
    /// A call that only waits for an answer while the window is being made.
    Asking,
}

impl Call {
    fn is_hopeless(&self, awaited: Awaited) -> bool {
        !awaited.living
            && match self {
                Self::Of(window, needs) => (awaited.dead || window.is_refused(*needs)) && window.can_be_left(),
                Self::Asking => awaited.dead,
            }
    }
}

/// The payload that unwinds a hopeless call.
struct Hopeless;

thread_local! {
    static PRESENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Time of the last death plus [`LATE`].
static DUE: Mutex<Option<Instant>> = Mutex::new(None);
/// Number of turns until requests to dead processes are completed.
static LEFT: AtomicU32 = AtomicU32::new(0);
/// Whether a window, complete or not, has a dead member or was interrupted.
static IS_ANY_DAMAGED: AtomicBool = AtomicBool::new(false);
/// Number of calls.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Notes that a member of a window, complete or not, is dead, or that a scope has interrupted a window.
pub fn note_damage() {
    *lock(&DUE) = Some(Instant::now() + LATE);
    LEFT.store(TURNS, Ordering::Release);
    IS_ANY_DAMAGED.store(true, Ordering::Release);
    wakeup::request_turns();
}

/// Completes requests to dead processes once all data that they sent has arrived. Called in a turn of the progress
/// loop; false if no further turn is needed.
pub fn end_transfers_with_the_dead() -> bool {
    if LEFT.load(Ordering::Acquire) > 0 && lock(&DUE).is_some_and(|due| Instant::now() >= due) {
        let less = |left: u32| left.checked_sub(1);
        if LEFT.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) == Ok(1) {
            am_rdma::end_with_the_dead();
        }
    }
    LEFT.load(Ordering::Acquire) > 0 || are_watched()
}

/// Whether a call of a one-sided function exists that may have to be left.
fn are_watched() -> bool {
    IS_ANY_DAMAGED.load(Ordering::Acquire) && CALLS.load(Ordering::Acquire) > 0
}

/// Calls Open MPI's function; `None` if it had to be left.
pub fn enter(window: Arc<dyn Window>, needs: Needs, stock: impl FnOnce() -> c_int) -> Option<c_int> {
    enter_call(Call::Of(window, needs), stock)
}

/// The same while the window is being made, for a function that asks one process and waits for the answer.
pub fn ask(stock: impl FnOnce() -> c_int) -> Option<c_int> {
    enter_call(Call::Asking, stock)
}

fn enter_call(call: Call, stock: impl FnOnce() -> c_int) -> Option<c_int> {
    CALLS.fetch_add(1, Ordering::AcqRel);
    if are_watched() {
        am_rdma::forget_the_dead();
        wakeup::request_turns();
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

/// Returns the payload to unwind this thread's call, if that is hopeless. Called in a turn of the progress loop.
pub fn verdict() -> Option<Box<dyn Any + Send>> {
    if !are_watched() || LEFT.load(Ordering::Acquire) > 0 || am_rdma::is_answering() {
        return None;
    }
    let is_hopeless = |call: &Call| call.is_hopeless(am_rdma::awaited_here());
    let is_hopeless = PRESENT.with_borrow(|present| present.as_ref().is_some_and(is_hopeless));
    (is_hopeless && waits_itself()).then(|| Box::new(Hopeless) as Box<dyn Any + Send>)
}

/// Whether osc/rdma or osc/sm itself turns the progress loop.
fn waits_itself() -> bool {
    static RANGES: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    let find = || {
        let Some(library) = Library::loaded() else { return Vec::new() };
        let address = |end| library.variable(end).map(|end| end as usize);
        ENDS.into_iter().filter_map(|[begin, end]| Some(address(begin)?..address(end)?)).collect()
    };
    let own = RANGES.get_or_init(find);
    let mut frames = [std::ptr::null_mut::<c_void>(); 32];
    // SAFETY: the array has room for that many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let is_loop =
        |frame: &&*mut c_void| symbol(**frame).is_some_and(|name| name.as_bytes() == OPAL_PROGRESS.name().to_bytes());
    let frames = frames.iter().take(usize::try_from(count).unwrap_or(0));
    let mut frames = frames.skip_while(|frame| !is_loop(frame)).skip_while(is_loop);
    frames.next().is_some_and(|frame| own.iter().any(|range| range.contains(&(*frame as usize))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window in which this rank is dead.
    struct Fake {
        dead: c_int,
        can_be_left: bool,
    }

    impl Window for Fake {
        fn is_refused(&self, needs: Needs) -> bool {
            match needs {
                Needs::Nobody => false,
                Needs::Rank(rank) => rank == self.dead,
                Needs::Group(_) | Needs::Everybody => true,
            }
        }

        fn can_be_left(&self) -> bool {
            self.can_be_left
        }
    }

    fn call(needs: Needs, can_be_left: bool) -> Call {
        Call::Of(Arc::new(Fake { dead: 3, can_be_left }), needs)
    }

    const NOBODY: Awaited = Awaited { living: false, dead: false };

    #[test]
    fn a_wait_is_hopeless_that_needs_the_dead() {
        for (needs, is_hopeless) in
            [(Needs::Nobody, false), (Needs::Rank(2), false), (Needs::Rank(3), true), (Needs::Everybody, true)]
        {
            assert_eq!(call(needs, true).is_hopeless(NOBODY), is_hopeless);
            assert!(!call(needs, false).is_hopeless(NOBODY), "what cannot be left is not");
        }
    }

    #[test]
    fn an_answer_of_the_dead_is_not_waited_for_and_one_of_the_living_is() {
        let of_dead = Awaited { living: false, dead: true };
        let of_both = Awaited { living: true, dead: true };
        assert!(call(Needs::Rank(2), true).is_hopeless(of_dead) && Call::Asking.is_hopeless(of_dead));
        assert!(
            !call(Needs::Rank(3), true).is_hopeless(of_both),
            "its answer would be written into frames that are gone"
        );
        assert!(!Call::Asking.is_hopeless(of_both) && !Call::Asking.is_hopeless(NOBODY));
    }

    #[test]
    fn what_is_thrown_ends_the_call_and_no_other_panic_is_swallowed() {
        let window: Arc<dyn Window> = Arc::new(Fake { dead: 3, can_be_left: true });
        assert_eq!(enter(window.clone(), Needs::Everybody, || 5), Some(5));
        assert_eq!(enter(window.clone(), Needs::Everybody, || resume_unwind(Box::new(Hopeless))), None);
        let other = AssertUnwindSafe(|| enter(window, Needs::Everybody, || resume_unwind(Box::new("another"))));
        assert!(catch_unwind(other).is_err());
        assert!(PRESENT.with_borrow(Option::is_none), "no call is left");
    }
}
