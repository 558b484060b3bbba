//! The shrinks under way: requests that Open MPI uses inside, and the promises that are kept when they have completed. While
//! there are any, the progress loop looks which have.
//!
//! Each agrees on a [shadow](crate::shadows) of its communicator, and waits until those have ended that have it before. Without
//! fault tolerance there is none, and its agreements are collective operations of the communicator, in the order in which they
//! begin: those of one communicator are carried out one after another then.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::internals::Internals;
use crate::openmpi::{ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::promises::{Promise, Target};
use crate::shadows::Shadow;

struct Operation {
    promise: Promise,
    /// Where Open MPI puts the communicator, before it can be used.
    made: *mut Handle,
    place: Place,
}

/// Where an operation agrees.
struct Place {
    comm: Handle,
    shadow: Option<Shadow>,
}

/// Operations and Open MPI's requests for them, in the same order.
#[derive(Default)]
struct Operations {
    all: Vec<Operation>,
    inner: Vec<Handle>,
}

// SAFETY: MPI's handles are the process's, and what else is pointed to belongs to the operation.
unsafe impl Send for Operations {}

static UNDER_WAY: Mutex<Operations> = Mutex::new(Operations { all: Vec::new(), inner: Vec::new() });
/// The places where a shrink is carried out, each with those that wait for it.
static LINES: Mutex<BTreeMap<usize, VecDeque<(Place, Promise)>>> = Mutex::new(BTreeMap::new());
/// Somebody looks which have completed, and has them with him.
static LOOKING: AtomicBool = AtomicBool::new(false);

fn under_way() -> MutexGuard<'static, Operations> {
    UNDER_WAY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn lines() -> MutexGuard<'static, BTreeMap<usize, VecDeque<(Place, Promise)>>> {
    LINES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts to shrink a communicator; returns the request, or an error code.
///
/// # Safety
/// An intracommunicator that lives, and a variable that stays where it is until the operation has completed.
pub unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    let inside = Internals::get().ok_or(ERR_UNSUPPORTED)?;
    // SAFETY: as required of the caller.
    let (promise, shadow) = unsafe {
        let promise = Promise::new(mpi, comm, target)?;
        match Shadow::take(inside, comm) {
            Ok(shadow) => (promise, shadow),
            Err(code) => {
                promise.withdraw(mpi);
                return Err(code);
            }
        }
    };
    let (request, place) = (promise.request(), Place { comm, shadow });
    let mut lines = lines();
    if let Some(line) = lines.get_mut(&place.key()) {
        line.push_back((place, promise));
        return Ok(request);
    }
    lines.insert(place.key(), VecDeque::new());
    drop(lines);
    // SAFETY: as required of the caller; the promise keeps the communicator.
    match unsafe { begin(mpi, place, promise) } {
        Ok(()) => Ok(request),
        Err((place, promise, code)) => {
            promise.withdraw(mpi);
            place.leave(mpi);
            Err(code)
        }
    }
}

/// Has Open MPI begin; otherwise returns what it was given and an error code.
///
/// # Safety
/// As of [`start`].
unsafe fn begin(mpi: &OpenMpi, place: Place, promise: Promise) -> Result<(), (Place, Promise, c_int)> {
    let mut inner = std::ptr::null_mut();
    let made = Box::into_raw(Box::new(std::ptr::null_mut()));
    // SAFETY: as required of the caller, and room for the answers for as long as Open MPI writes them.
    let status = unsafe { (mpi.ishrink)(place.begin(), made, &mut inner) };
    if status != 0 {
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(made) });
        return Err((place, promise, status));
    }
    let mut operations = under_way();
    operations.all.push(Operation { promise, made, place });
    operations.inner.push(inner);
    // SAFETY: this library is never unloaded, and the callback may be registered several times.
    unsafe { (mpi.register_progress)(progress) };
    Ok(())
}

// SAFETY: MPI's handles are the process's.
unsafe impl Send for Place {}

impl Place {
    /// What tells it from others.
    fn key(&self) -> usize {
        self.shadow.as_ref().map_or(self.comm as usize, Shadow::key)
    }

    /// The communicator on which an operation agrees that begins now.
    fn begin(&self) -> Handle {
        self.shadow.as_ref().map_or(self.comm, Shadow::begin)
    }

    /// The operation has ended: begins the next one here that can be begun.
    fn leave(self, mpi: &OpenMpi) {
        let key = self.key();
        self.give_back();
        loop {
            let mut lines = lines();
            let Some((place, promise)) = lines.get_mut(&key).and_then(VecDeque::pop_front) else {
                lines.remove(&key);
                return;
            };
            drop(lines);
            // SAFETY: the communicator lives until the operation has completed.
            match unsafe { begin(mpi, place, promise) } {
                Ok(()) => return,
                Err((place, promise, code)) => {
                    place.give_back();
                    promise.keep(mpi, Err(code));
                }
            }
        }
    }

    fn give_back(self) {
        if let (Some(shadow), Some(inside)) = (self.shadow, Internals::get()) {
            shadow.give_back(inside);
        }
    }
}

/// In every turn of the progress loop, while there are operations.
unsafe extern "C" fn progress() -> c_int {
    catch_unwind(|| OpenMpi::get().map_or(0, look)).unwrap_or(0)
}

/// Ends those that have completed; returns how many. Testing makes progress, so this is called by itself.
fn look(mpi: &OpenMpi) -> c_int {
    if LOOKING.swap(true, Ordering::Acquire) {
        return 0;
    }
    let mut operations = std::mem::take(&mut *under_way());
    let mut ended = 0;
    while !mpi.is_over() {
        let (mut index, mut found) = (-1, 0);
        let count = c_int::try_from(operations.inner.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many requests, and room for the answers; no status is asked for.
        let code = unsafe {
            (mpi.testany)(count, operations.inner.as_mut_ptr(), &mut index, &mut found, std::ptr::null_mut())
        };
        let Some(index) = usize::try_from(index).ok().filter(|_| found != 0) else { break };
        operations.inner.swap_remove(index);
        let ending = operations.all.swap_remove(index);
        ending.end(mpi, code);
        ended += 1;
    }
    let mut all = under_way();
    all.all.append(&mut operations.all);
    all.inner.append(&mut operations.inner);
    if all.all.is_empty() || mpi.is_over() {
        // SAFETY: the loop allows that a callback goes.
        unsafe { (mpi.unregister_progress)(progress) };
    }
    LOOKING.store(false, Ordering::Release);
    ended
}

impl Operation {
    /// Open MPI has done its part, with this result.
    fn end(self, mpi: &OpenMpi, code: c_int) {
        // SAFETY: Open MPI does not write any more.
        let made = unsafe { *Box::from_raw(self.made) };
        // Whoever is told may give the communicator up.
        self.place.leave(mpi);
        self.promise.keep(mpi, if code == 0 { Ok(made) } else { Err(code) });
    }
}
