//! The shrinks under way: requests that Open MPI uses inside, and the promises that are kept when they have completed. While
//! there are any, the progress loop looks which have.
//!
//! Each agrees on a [shadow](crate::shadows) of its communicator, and waits until those have ended that have it before. Without
//! fault tolerance there is none, and its agreements are collective operations of the communicator, in the order in which they
//! begin: those of one communicator are carried out one after another then.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard};

use crate::inheritance::Inheritance;
use crate::internals::Internals;
use crate::openmpi::{ERR_UNSUPPORTED, Handle, OpenMpi, code_of};
use crate::promises::{Promise, Target};
use crate::schedules;
use crate::shadows::Shadow;

/// An operation that is not begun.
struct Operation {
    promise: Promise,
    place: Place,
    inheritance: Inheritance,
}

/// One that Open MPI carries out.
struct Begun {
    promise: Promise,
    place: Place,
    /// Where Open MPI puts the communicator, before it can be used.
    made: *mut Handle,
    /// Open MPI's request.
    inner: Handle,
}

// SAFETY: MPI's handles are the process's, and what else is pointed to belongs to the operation.
unsafe impl Send for Begun {}

/// Where an operation agrees.
struct Place {
    comm: Handle,
    shadow: Option<Shadow>,
}

static UNDER_WAY: Mutex<Vec<Begun>> = Mutex::new(Vec::new());
/// What communicators inherit that are being made, by where Open MPI puts them.
static HEIRS: Mutex<BTreeMap<usize, Inheritance>> = Mutex::new(BTreeMap::new());
/// The places where a shrink is carried out, each with those that wait for it.
static LINES: Mutex<BTreeMap<usize, VecDeque<Operation>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts to shrink a communicator; returns the request, or an error code.
///
/// # Safety
/// An intracommunicator that lives, and a variable that stays where it is until the operation has completed.
pub unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    let inside = Internals::get().ok_or(ERR_UNSUPPORTED)?;
    // SAFETY: as required of the caller. Whoever fails from here on has had his turn, as the others.
    let operation = unsafe {
        let place = Place { comm, shadow: Shadow::take(inside, comm).map_err(code_of)? };
        match Inheritance::new(inside, comm) {
            Err(code) => {
                place.give_back(inside);
                return Err(code_of(code));
            }
            Ok(inheritance) => match Promise::new(mpi, comm, target) {
                Err(code) => {
                    inheritance.end(inside);
                    place.give_back(inside);
                    return Err(code);
                }
                Ok(promise) => Operation { promise, place, inheritance },
            },
        }
    };
    let request = operation.promise.request();
    let mut lines = lock(&LINES);
    if let Some(line) = lines.get_mut(&operation.place.key()) {
        line.push_back(operation);
        return Ok(request);
    }
    lines.insert(operation.place.key(), VecDeque::new());
    drop(lines);
    // SAFETY: as required of the caller; the promise keeps the communicator.
    match unsafe { begin(mpi, inside, operation) } {
        Ok(()) => Ok(request),
        Err((promise, place, code)) => {
            place.leave(mpi, inside);
            promise.withdraw(mpi);
            Err(code)
        }
    }
}

/// Has Open MPI begin; otherwise returns what is left of the operation and an error code.
///
/// # Safety
/// As of [`start`].
unsafe fn begin(mpi: &OpenMpi, inside: &Internals, operation: Operation) -> Result<(), (Promise, Place, c_int)> {
    let Operation { promise, place, inheritance } = operation;
    let (mut inner, made) = (std::ptr::null_mut(), Box::into_raw(Box::new(std::ptr::null_mut())));
    lock(&HEIRS).insert(made as usize, inheritance);
    // SAFETY: as required of the caller, and room for the answers for as long as Open MPI writes them.
    let status = unsafe { (mpi.ishrink)(place.begin(), made, &mut inner) };
    if status != 0 {
        end_inheritance(inside, made);
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(made) });
        return Err((promise, place, code_of(status)));
    }
    let mut under_way = lock(&UNDER_WAY);
    under_way.push(Begun { promise, place, made, inner });
    // SAFETY: this library is never unloaded, and the callback may be registered several times.
    unsafe { (mpi.register_progress)(progress) };
    Ok(())
}

fn end_inheritance(inside: &Internals, made: *mut Handle) {
    let inheritance = lock(&HEIRS).remove(&(made as usize));
    inheritance.into_iter().for_each(|inheritance| inheritance.end(inside));
}

/// Calls with what the communicator inherits that Open MPI puts there, if it is one of an operation.
pub fn with_inheritance<T>(made: *mut Handle, then: impl FnOnce(&Inheritance) -> T) -> Option<T> {
    lock(&HEIRS).get(&(made as usize)).map(then)
}

/// Whether a request of Open MPI's is that of an operation, and has not completed.
pub fn is_under_way(request: Handle) -> bool {
    // SAFETY: those of operations live.
    lock(&UNDER_WAY).iter().any(|one| one.inner == request && unsafe { schedules::result_of(request) }.is_none())
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
    fn leave(self, mpi: &OpenMpi, inside: &Internals) {
        let key = self.key();
        self.give_back(inside);
        loop {
            let mut lines = lock(&LINES);
            let Some(next) = lines.get_mut(&key).and_then(VecDeque::pop_front) else {
                lines.remove(&key);
                return;
            };
            drop(lines);
            // SAFETY: the communicator lives until the operation has completed.
            match unsafe { begin(mpi, inside, next) } {
                Ok(()) => return,
                Err((promise, place, code)) => {
                    place.give_back(inside);
                    promise.keep(mpi, Err(code));
                }
            }
        }
    }

    fn give_back(self, inside: &Internals) {
        self.shadow.into_iter().for_each(|shadow| shadow.give_back(inside));
    }
}

/// In every turn of the progress loop, while there are operations.
unsafe extern "C" fn progress() -> c_int {
    let look = || Some(look(OpenMpi::get()?, Internals::get()?));
    catch_unwind(look).ok().flatten().unwrap_or(0)
}

/// Ends those that have completed; returns how many.
fn look(mpi: &OpenMpi, inside: &Internals) -> c_int {
    let is_over = mpi.is_over();
    let mut ended = 0;
    loop {
        let mut under_way = lock(&UNDER_WAY);
        if under_way.is_empty() || is_over {
            // SAFETY: the loop allows that a callback goes.
            unsafe { (mpi.unregister_progress)(progress) };
            return ended;
        }
        // SAFETY: the requests of operations live.
        let result = |(index, one): (_, &Begun)| unsafe { Some((index, schedules::result_of(one.inner)?)) };
        let Some((index, code)) = under_way.iter().enumerate().find_map(result) else { return ended };
        let one = under_way.swap_remove(index);
        drop(under_way);
        one.end(mpi, inside, code);
        ended += 1;
    }
}

impl Begun {
    /// Open MPI has done its part, with this result.
    fn end(self, mpi: &OpenMpi, inside: &Internals, code: c_int) {
        end_inheritance(inside, self.made);
        // SAFETY: it has completed, and Open MPI does not write any more.
        let made = unsafe {
            schedules::give_back(self.inner);
            *Box::from_raw(self.made)
        };
        // Whoever is told may give the communicator up.
        self.place.leave(mpi, inside);
        self.promise.keep(mpi, if code == 0 { Ok(made) } else { Err(code_of(code)) });
    }
}
