//! How MPI's progress loop comes to look for what there is to do.
//!
//! A callback of its own costs a turn of the loop one tenth of its 13 ns, most of that for being called. Where ranks share
//! memory, Open MPI calls its transport for that (btl/sm) in every turn: a function that stands in the transport's place looks
//! at one word and goes on to it. Everywhere else there is a callback.
//!
//! Offsets are those of mca.h and btl.h on x86-64.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::internals::Internals;
use crate::openmpi::{self, Library, Progress};
use crate::{RANK, calls};

/// Of `mca_btl_base_component_t`: name and major version of its framework, its own name, and its part of the progress loop.
const FRAMEWORK: usize = 40;
const FRAMEWORK_VERSION: usize = 72;
const NAME: usize = 84;
const TRANSPORT: usize = 272;

/// The word that says whether there is anything to do, of this rank's slot once it is known.
static CALL: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
static NEVER: AtomicU32 = AtomicU32::new(0);
static ALWAYS: AtomicU32 = AtomicU32::new(1);
/// The transport's own part of the progress loop, once ours stands in its place.
static STOCK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Turns in which ours was called while it was tried.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Stands in the place of the transport for shared memory. In `MPI_Init`, before Open MPI has any of its peers.
pub fn stand_in() {
    let Some(library) = Library::loaded() else { return };
    let Some(component) = library.symbol(c"mca_btl_sm_component") else { return };
    // SAFETY: a variable of libopen-pal that is written before anybody is told what it holds, if it is what it is held for.
    unsafe {
        let text = |place| CStr::from_ptr(component.byte_add(place).cast::<c_char>());
        let place = component.byte_add(TRANSPORT).cast::<*mut c_void>();
        let is_known = text(FRAMEWORK) == c"btl" && component.byte_add(FRAMEWORK_VERSION).cast::<c_int>().read() == 3;
        if is_known && text(NAME) == c"sm" && openmpi::are_of_one_library(*place, component) {
            STOCK.store(*place, Ordering::Release);
            place.write(beside_transport as *mut c_void);
        }
    }
}

/// From now on every turn looks at `word`, and does what there is to do where it is not 0. At the end of `MPI_Init`; false if
/// this Open MPI has no progress loop.
pub fn begin(word: &'static AtomicU32) -> bool {
    let is_looked_at = is_called_in_every_turn() || openmpi::register_progress(alone);
    let word = if is_looked_at { word } else { &NEVER };
    CALL.store((&raw const *word).cast_mut(), Ordering::Release);
    is_looked_at
}

/// Whether [`beside_transport`] is: of a transport without peers every eighth turn is enough for Open MPI.
fn is_called_in_every_turn() -> bool {
    const TURNS: u32 = 2;
    TRIED.store(0, Ordering::Relaxed);
    CALL.store((&raw const ALWAYS).cast_mut(), Ordering::Release);
    (0..TURNS).for_each(|_| openmpi::turn_progress());
    TRIED.load(Ordering::Relaxed) >= TURNS
}

/// No turn looks any more.
pub fn end() {
    CALL.store((&raw const NEVER).cast_mut(), Ordering::Release);
    openmpi::unregister_progress(alone);
}

/// Has a turn do what there is to do, which is told again as turns begin.
pub fn ask() {
    if looks() {
        word().store(1, Ordering::Release);
    }
}

/// What there is to do is done, for a function of Open MPI that may never turn the loop.
pub fn catch_up() {
    if let (1.., Some(mpi)) = (word().load(Ordering::Relaxed), Internals::get()) {
        mpi.progress();
    }
}

/// Whether turns look.
pub fn looks() -> bool {
    !std::ptr::eq(word(), &NEVER)
}

fn word() -> &'static AtomicU32 {
    // SAFETY: a static, or of the segment of this rank, which stays.
    unsafe { &*CALL.load(Ordering::Relaxed) }
}

/// Does not return to a wait that is hopeless.
unsafe extern "C-unwind" fn alone() -> c_int {
    if word().load(Ordering::Relaxed) == 0 { 0 } else { look() }
}

/// As [`alone`].
unsafe extern "C-unwind" fn beside_transport() -> c_int {
    if word().load(Ordering::Relaxed) == 0 { transport() } else { transport_and_look() }
}

#[cold]
#[inline(never)]
fn transport_and_look() -> c_int {
    transport() + look()
}

fn transport() -> c_int {
    // SAFETY: called in the place of that function, of the same type.
    unsafe { std::mem::transmute::<*mut c_void, Progress>(STOCK.load(Ordering::Relaxed))() }
}

#[cold]
fn look() -> c_int {
    if std::ptr::eq(word(), &ALWAYS) {
        TRIED.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    let Some(rank) = RANK.get() else { return 0 };
    let events = catch_unwind(|| rank.look()).unwrap_or(0);
    match catch_unwind(calls::verdict).ok().flatten() {
        Some(thrown) => resume_unwind(thrown),
        None => events,
    }
}
