//! Calls ringwatch from MPI's progress loop.
//!
//! A registered callback costs a turn of the loop one tenth of its 13 ns, mostly for the call itself. Where ranks share
//! memory, Open MPI calls its shared-memory transport (btl/sm) in every turn anyway: ringwatch replaces that entry by a
//! function that reads one word and continues in the transport. Elsewhere it registers a callback.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::failure::wakeup;
use openmpi_internals::communicator::Internals;
use openmpi_internals::layout::btl_component::BTL_PROGRESS;
use openmpi_internals::loaded::{self, Library, Progress};
use openmpi_internals::probe;
use openmpi_internals::symbol_table;
use openmpi_internals::variables::MCA_BTL_SM_COMPONENT;

/// The work of a turn.
pub struct Turn {
    /// Does pending work, and returns the number of reported deaths.
    pub run: fn() -> c_int,
    /// The payload that the turn then throws through Open MPI's frames to end a hopeless wait, if any.
    pub verdict: fn() -> Option<Box<dyn Any + Send>>,
}

static TURN: OnceLock<Turn> = OnceLock::new();
/// The transport's own progress function, once ours has replaced it.
static STOCK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Number of calls of our function during the trial.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Replaces the progress function of the shared-memory transport. In `MPI_Init`, before Open MPI uses it.
pub fn stand_in() {
    let Some(library) = Library::loaded() else { return };
    let Some(component) = library.variable(MCA_BTL_SM_COMPONENT) else { return };
    // SAFETY: a variable of libopen-pal, checked to be that transport's component, and written before any other code
    // reads it.
    unsafe {
        let place = component.byte_add(BTL_PROGRESS).cast::<*mut c_void>();
        if probe::is_transport(component, c"sm") && symbol_table::are_of_one_library(*place, component) {
            STOCK.store(*place, Ordering::Release);
            place.write(beside_transport as *mut c_void);
        }
    }
}

/// Makes every turn read `word`, and run `turn` if it is not 0. At the end of `MPI_Init`; false if this Open MPI has no
/// progress loop.
pub fn begin(word: &'static AtomicU32, turn: Turn) -> bool {
    let _ = TURN.set(turn);
    let is_read = is_called_in_every_turn() || loaded::register_progress(alone);
    wakeup::read(is_read.then_some(word));
    is_read
}

/// Whether each turn calls [`beside_transport`]: Open MPI calls a transport without peers only in every eighth turn.
fn is_called_in_every_turn() -> bool {
    const TURNS: u32 = 2;
    TRIED.store(0, Ordering::Relaxed);
    wakeup::read_always();
    (0..TURNS).for_each(|_| loaded::turn_progress());
    TRIED.load(Ordering::Relaxed) >= TURNS
}

/// Stops turns from reading the word.
pub fn end() {
    wakeup::read(None);
    loaded::unregister_progress(alone);
}

/// Processes pending work, for a function of Open MPI that may never turn the loop.
pub fn catch_up() {
    if let (1.., Some(mpi)) = (wakeup::word().load(Ordering::Relaxed), Internals::get()) {
        mpi.progress();
    }
}

/// The registered callback. It unwinds if a wait is hopeless.
unsafe extern "C-unwind" fn alone() -> c_int {
    if wakeup::word().load(Ordering::Relaxed) == 0 { 0 } else { take_turn() }
}

/// The transport's replacement. It unwinds like [`alone`].
unsafe extern "C-unwind" fn beside_transport() -> c_int {
    if wakeup::word().load(Ordering::Relaxed) == 0 { transport() } else { transport_and_turn() }
}

#[cold]
#[inline(never)]
fn transport_and_turn() -> c_int {
    transport() + take_turn()
}

fn transport() -> c_int {
    // SAFETY: called in place of that function, of the same type.
    unsafe { std::mem::transmute::<*mut c_void, Progress>(STOCK.load(Ordering::Relaxed))() }
}

#[cold]
fn take_turn() -> c_int {
    if wakeup::is_always() {
        TRIED.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    let Some(turn) = TURN.get() else { return 0 };
    let events = catch_unwind(turn.run).unwrap_or(0);
    match catch_unwind(turn.verdict).ok().flatten() {
        Some(thrown) => resume_unwind(thrown),
        None => events,
    }
}
