//! The operations under way, each as a generalized request of MPI around the request that Open MPI uses inside.
//!
//! Every function that tests, waits or frees, in every language, knows generalized requests. The program's variable is
//! written once, when the operation has completed, so that it need not be what Open MPI expects, and a request that is
//! freed early goes on by itself. While there are operations, the progress loop looks which have completed.

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::agreement::{self, Place};
use crate::openmpi::{Handle, OpenMpi};

/// Where a program wants the new communicator.
#[derive(Clone, Copy)]
pub enum Target {
    C(*mut Handle),
    Fortran(*mut c_int),
}

impl Target {
    /// # Safety
    /// The program's variable still exists.
    unsafe fn write(self, mpi: &OpenMpi, comm: Handle) {
        // SAFETY: as required of the caller; a communicator, or MPI_COMM_NULL.
        unsafe {
            match self {
                Self::C(variable) => variable.write(comm),
                Self::Fortran(variable) => variable.write((mpi.comm_to_fortran)(comm)),
            }
        }
    }
}

struct Operation {
    /// The generalized request that the program has.
    request: Handle,
    /// The error code that it will report, which belongs to it.
    code: *const AtomicI32,
    target: Target,
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
/// Somebody looks which have completed, and has them with him.
static LOOKING: AtomicBool = AtomicBool::new(false);

fn under_way() -> MutexGuard<'static, Operations> {
    UNDER_WAY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts to shrink a communicator; returns the request, or an error code.
///
/// # Safety
/// An intracommunicator that lives, and a variable that stays where it is until the operation has completed.
pub unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    let (mut request, mut inner) = (std::ptr::null_mut(), std::ptr::null_mut());
    let code: *mut AtomicI32 = Box::into_raw(Box::default());
    // SAFETY: functions of the types that MPI wants; the state is freed by the last of them.
    let status = unsafe { (mpi.request_start)(query, free, cancel, code.cast(), &mut request) };
    if status != 0 {
        // SAFETY: made above, and nobody has it.
        drop(unsafe { Box::from_raw(code) });
        return Err(status);
    }
    let made = Box::into_raw(Box::new(std::ptr::null_mut()));
    // SAFETY: as required of the caller, and room for the answers for as long as Open MPI writes them.
    let (status, place) = agreement::watch(|| unsafe { (mpi.ishrink)(comm, made, &mut inner) });
    if status != 0 {
        place.into_iter().for_each(agreement::forget);
        // SAFETY: both were made above, and nobody else has them.
        unsafe {
            drop(Box::from_raw(made));
            (mpi.request_complete)(request);
            (mpi.request_free)(&mut request);
        }
        return Err(status);
    }
    // SAFETY: as required of the caller.
    unsafe { target.write(mpi, mpi.comm_null()) };
    let mut operations = under_way();
    operations.all.push(Operation { request, code, target, made, place });
    operations.inner.push(inner);
    // SAFETY: this library is never unloaded, and the callback may be registered several times.
    unsafe { (mpi.register_progress)(progress) };
    Ok(request)
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
    while !is_over(mpi) {
        let (mut index, mut found) = (-1, 0);
        let count = c_int::try_from(operations.inner.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many requests, and room for the answers; no status is asked for.
        let code = unsafe {
            (mpi.testany)(count, operations.inner.as_mut_ptr(), &mut index, &mut found, std::ptr::null_mut())
        };
        let Some(index) = usize::try_from(index).ok().filter(|_| found != 0) else { break };
        operations.inner.swap_remove(index);
        operations.all.swap_remove(index).end(mpi, code);
        ended += 1;
    }
    let mut all = under_way();
    all.all.append(&mut operations.all);
    all.inner.append(&mut operations.inner);
    if all.all.is_empty() || is_over(mpi) {
        // SAFETY: the loop allows that a callback goes.
        unsafe { (mpi.unregister_progress)(progress) };
    }
    LOOKING.store(false, Ordering::Release);
    ended
}

/// Whether `MPI_Finalize` has synchronised with everybody: the requests that are left go with the library.
fn is_over(mpi: &OpenMpi) -> bool {
    let mut finalized = 0;
    // SAFETY: may be called at any time, with room for the answer.
    unsafe { (mpi.finalized)(&mut finalized) };
    finalized != 0
}

impl Operation {
    /// Open MPI has done its part, with this result.
    fn end(self, mpi: &OpenMpi, code: c_int) {
        self.place.into_iter().for_each(agreement::forget);
        // SAFETY: Open MPI does not write any more; the program's variable and the code stay until the request has
        // completed, which is the last that happens to it here.
        unsafe {
            let made = *Box::from_raw(self.made);
            self.target.write(mpi, if code == 0 { made } else { mpi.comm_null() });
            (*self.code).store(code, Ordering::Relaxed);
            (mpi.request_complete)(self.request);
        }
    }
}

unsafe extern "C" fn query(code: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the state of the request, which lives. Its status is empty, as it should be.
    unsafe { &*code.cast::<AtomicI32>() }.load(Ordering::Relaxed)
}

unsafe extern "C" fn free(code: *mut c_void) -> c_int {
    // SAFETY: the state of the request, for the last time.
    drop(unsafe { Box::from_raw(code.cast::<AtomicI32>()) });
    0
}

/// As for every collective operation nothing can be taken back: the request completes as if nobody had asked.
unsafe extern "C" fn cancel(_code: *mut c_void, _complete: c_int) -> c_int {
    0
}
