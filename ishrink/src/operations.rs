//! The shrinks under way: requests that Open MPI uses inside, and the promises that are kept when they have completed. While
//! there are any, the progress loop looks which have.
//!
//! Those of one communicator are carried out one after another. Each consists of several agreements, which the members tell
//! apart by their order alone; and the next step of one may come before or after that of another at each member.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::agreement::{self, Place};
use crate::openmpi::{Handle, OpenMpi};
use crate::promises::{Promise, Target};

struct Operation {
    comm: usize,
    promise: Promise,
    /// Where Open MPI puts the communicator, before it can be used.
    made: *mut Handle,
    place: Option<Place>,
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
/// The communicators that are being shrunk, each with what waits for its turn there.
static LINES: Mutex<BTreeMap<usize, VecDeque<Promise>>> = Mutex::new(BTreeMap::new());
/// Somebody looks which have completed, and has them with him.
static LOOKING: AtomicBool = AtomicBool::new(false);

fn under_way() -> MutexGuard<'static, Operations> {
    UNDER_WAY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn lines() -> MutexGuard<'static, BTreeMap<usize, VecDeque<Promise>>> {
    LINES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts to shrink a communicator; returns the request, or an error code.
///
/// # Safety
/// An intracommunicator that lives, and a variable that stays where it is until the operation has completed.
pub unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    // SAFETY: as required of the caller.
    let promise = unsafe { Promise::new(mpi, comm, target) }?;
    let request = promise.request();
    let mut lines = lines();
    if let Some(line) = lines.get_mut(&(comm as usize)) {
        line.push_back(promise);
        return Ok(request);
    }
    lines.insert(comm as usize, VecDeque::new());
    drop(lines);
    // SAFETY: as required of the caller.
    match unsafe { begin(mpi, comm, promise) } {
        Ok(()) => Ok(request),
        Err((promise, code)) => {
            promise.withdraw(mpi);
            begin_next(mpi, comm);
            Err(code)
        }
    }
}

/// The communicator's operation has ended: begins the next one that can be begun.
fn begin_next(mpi: &OpenMpi, comm: Handle) {
    loop {
        let mut lines = lines();
        let Some(promise) = lines.get_mut(&(comm as usize)).and_then(VecDeque::pop_front) else {
            lines.remove(&(comm as usize));
            return;
        };
        drop(lines);
        // SAFETY: the communicator lives until the operation has completed.
        match unsafe { begin(mpi, comm, promise) } {
            Ok(()) => return,
            Err((promise, code)) => promise.keep(mpi, Err(code)),
        }
    }
}

/// Has Open MPI begin; otherwise returns the promise and an error code.
///
/// # Safety
/// As of [`start`].
unsafe fn begin(mpi: &OpenMpi, comm: Handle, promise: Promise) -> Result<(), (Promise, c_int)> {
    let mut inner = std::ptr::null_mut();
    let made = Box::into_raw(Box::new(std::ptr::null_mut()));
    // SAFETY: as required of the caller, and room for the answers for as long as Open MPI writes them.
    let (status, place) = agreement::watch(|| unsafe { (mpi.ishrink)(comm, made, &mut inner) });
    if status != 0 {
        place.into_iter().for_each(agreement::forget);
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(made) });
        return Err((promise, status));
    }
    let mut operations = under_way();
    operations.all.push(Operation { comm: comm as usize, promise, made, place });
    operations.inner.push(inner);
    // SAFETY: this library is never unloaded, and the callback may be registered several times.
    unsafe { (mpi.register_progress)(progress) };
    Ok(())
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
        let comm = ending.comm as Handle;
        ending.end(mpi, code);
        begin_next(mpi, comm);
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
        self.place.into_iter().for_each(agreement::forget);
        // SAFETY: Open MPI does not write any more.
        let made = unsafe { *Box::from_raw(self.made) };
        self.promise.keep(mpi, if code == 0 { Ok(made) } else { Err(code) });
    }
}
