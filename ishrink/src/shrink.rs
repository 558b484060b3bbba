//! Runs shrinks: pairs requests of Open MPI's own operation with requests of the program. While there are any, a
//! callback of the progress loop ends completed ones.
//!
//! Each shrink agrees on a [shadow](crate::shadow_pool) of its communicator, and waits until earlier shrinks on the
//! same shadow have ended. Without fault tolerance there is no shadow, and the agreements are collective operations of
//! the communicator, in the order in which they begin. Then the shrinks of one communicator run one after another.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::Mutex;

use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;

use crate::comm_request;
use crate::generalized_request::{OperationRequest, Target};
use crate::inheritance::Inheritance;
use crate::internals::Internals;
use crate::openmpi::{ERR_UNSUPPORTED, Handle, OpenMpi, mpi_error_of};
use crate::shadow_pool::Shadow;

/// A shrink that has not begun.
struct Operation {
    request: OperationRequest,
    place: Place,
    inheritance: Inheritance,
}

/// A shrink that Open MPI runs.
struct Begun {
    request: OperationRequest,
    place: Place,
    /// The place for Open MPI's result, before the program can use it.
    newcomm: *mut Handle,
    /// Open MPI's request.
    inner: *mut Request,
}

// SAFETY: MPI's handles belong to the process, and the other pointers to the operation.
unsafe impl Send for Begun {}

/// The place of a shrink's agreements: a shadow, or the communicator itself.
struct Place {
    comm: Handle,
    shadow: Option<Shadow>,
}

/// The operations of each place: one runs, and others wait for it.
struct Queues<T>(BTreeMap<usize, VecDeque<T>>);

impl<T> Queues<T> {
    /// Adds an operation. Returns it if it must begin now; otherwise it waits for earlier ones.
    fn enter(&mut self, place: usize, operation: T) -> Option<T> {
        if let Some(queue) = self.0.get_mut(&place) {
            queue.push_back(operation);
            return None;
        }
        self.0.insert(place, VecDeque::new());
        Some(operation)
    }

    /// Handles the end of a place's running operation. Returns the next one, which must begin now.
    fn next(&mut self, place: usize) -> Option<T> {
        let next = self.0.get_mut(&place).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.0.remove(&place);
        }
        next
    }
}

static UNDER_WAY: Mutex<Vec<Begun>> = Mutex::new(Vec::new());
/// Inheritances of new communicators, keyed by the place of Open MPI's result.
static INHERITANCES: Mutex<BTreeMap<usize, Inheritance>> = Mutex::new(BTreeMap::new());
static QUEUES: Mutex<Queues<Operation>> = Mutex::new(Queues(BTreeMap::new()));

/// Begins to shrink a communicator; returns the request, or an error code.
///
/// # Safety
/// A live intracommunicator, and a variable that stays valid until the operation has completed.
pub unsafe fn start(mpi: &OpenMpi, comm: Handle, target: Target) -> Result<Handle, c_int> {
    let internals = Internals::get().ok_or(ERR_UNSUPPORTED)?;
    // SAFETY: as required of the caller. A member that fails from here on has taken its shadow, like the others.
    let operation = unsafe {
        let place = Place { comm, shadow: Shadow::for_shrink(internals, comm).map_err(mpi_error_of)? };
        match Inheritance::new(internals, comm) {
            Err(code) => {
                place.give_back(internals);
                return Err(mpi_error_of(code));
            }
            Ok(inheritance) => match OperationRequest::new(mpi, comm, target) {
                Err(code) => {
                    inheritance.end(internals);
                    place.give_back(internals);
                    return Err(code);
                }
                Ok(request) => Operation { request, place, inheritance },
            },
        }
    };
    let handle = operation.request.handle();
    let entered = lock(&QUEUES).enter(operation.place.key(), operation);
    let Some(operation) = entered else { return Ok(handle) };
    // SAFETY: as required of the caller; the request holds the communicator.
    match unsafe { begin(mpi, internals, operation) } {
        Ok(()) => Ok(handle),
        Err((request, place, code)) => {
            place.leave(mpi, internals);
            request.discard(mpi);
            Err(code)
        }
    }
}

/// Makes Open MPI begin; otherwise returns the rest of the operation and an error code.
///
/// # Safety
/// As of [`start`].
unsafe fn begin(
    mpi: &OpenMpi,
    internals: &Internals,
    operation: Operation,
) -> Result<(), (OperationRequest, Place, c_int)> {
    let Operation { request, place, inheritance } = operation;
    let (mut inner, newcomm) = (std::ptr::null_mut(), Box::into_raw(Box::new(std::ptr::null_mut())));
    lock(&INHERITANCES).insert(newcomm as usize, inheritance);
    // SAFETY: as required of the caller, and places for the results that stay valid while Open MPI may write them.
    let status = unsafe { (mpi.ishrink)(place.begin(), newcomm, &mut inner) };
    if status != 0 {
        end_inheritance(internals, newcomm);
        // SAFETY: made above, without another owner.
        drop(unsafe { Box::from_raw(newcomm) });
        return Err((request, place, mpi_error_of(status)));
    }
    let mut under_way = lock(&UNDER_WAY);
    under_way.push(Begun { request, place, newcomm, inner });
    // SAFETY: this library is never unloaded, and the callback may be registered several times.
    unsafe { (mpi.register_progress)(progress) };
    Ok(())
}

fn end_inheritance(internals: &Internals, newcomm: *mut Handle) {
    let inheritance = lock(&INHERITANCES).remove(&(newcomm as usize));
    inheritance.into_iter().for_each(|inheritance| inheritance.end(internals));
}

/// Calls `then` with the inheritance of the communicator that Open MPI stores at `newcomm`, if a shrink makes it.
pub fn with_inheritance<T>(newcomm: *mut Handle, then: impl FnOnce(&Inheritance) -> T) -> Option<T> {
    lock(&INHERITANCES).get(&(newcomm as usize)).map(then)
}

/// Whether a request of Open MPI belongs to a shrink, and is incomplete.
pub fn is_under_way(request: *mut Request) -> bool {
    // SAFETY: the requests of shrinks are live.
    let is_pending = |one: &Begun| unsafe { comm_request::completed_with(one.inner) }.is_none();
    lock(&UNDER_WAY).iter().any(|one| one.inner == request && is_pending(one))
}

// SAFETY: MPI's handles belong to the process.
unsafe impl Send for Place {}

impl Place {
    /// Identifies it in [`QUEUES`].
    fn key(&self) -> usize {
        self.shadow.as_ref().map_or(self.comm as usize, Shadow::key)
    }

    /// The communicator for the agreements of a shrink that begins now.
    fn begin(&self) -> Handle {
        self.shadow.as_ref().map_or(self.comm, Shadow::begin)
    }

    /// Handles the end of a shrink: begins the next one that can begin at this place.
    fn leave(self, mpi: &OpenMpi, internals: &Internals) {
        let key = self.key();
        self.give_back(internals);
        loop {
            // Without the lock, since a begun operation may call this function again.
            let next = lock(&QUEUES).next(key);
            let Some(next) = next else { return };
            // SAFETY: the communicator lives until the operation has completed.
            match unsafe { begin(mpi, internals, next) } {
                Ok(()) => return,
                Err((request, place, code)) => {
                    place.give_back(internals);
                    request.complete(mpi, Err(code));
                }
            }
        }
    }

    fn give_back(self, internals: &Internals) {
        self.shadow.into_iter().for_each(|shadow| shadow.give_back(internals));
    }
}

/// Called in every turn of the progress loop, while there are shrinks.
unsafe extern "C-unwind" fn progress() -> c_int {
    catch_unwind(|| Some(end_completed(OpenMpi::get()?, Internals::get()?))).ok().flatten().unwrap_or(0)
}

/// Ends completed shrinks; returns their number.
fn end_completed(mpi: &OpenMpi, internals: &Internals) -> c_int {
    let is_finalized = mpi.is_finalized();
    let mut ended = 0;
    loop {
        let mut under_way = lock(&UNDER_WAY);
        if under_way.is_empty() || is_finalized {
            // SAFETY: a callback may be removed while the loop calls it.
            unsafe { (mpi.unregister_progress)(progress) };
            return ended;
        }
        // SAFETY: the requests of shrinks are live.
        let completed = |(index, one): (_, &Begun)| unsafe { Some((index, comm_request::completed_with(one.inner)?)) };
        let Some((index, code)) = under_way.iter().enumerate().find_map(completed) else { return ended };
        let one = under_way.swap_remove(index);
        drop(under_way);
        one.end(mpi, internals, code);
        ended += 1;
    }
}

impl Begun {
    /// Ends a shrink whose request in Open MPI has completed with this code.
    fn end(self, mpi: &OpenMpi, internals: &Internals, code: c_int) {
        end_inheritance(internals, self.newcomm);
        // SAFETY: it has completed, so Open MPI does not write any more.
        let newcomm = unsafe {
            Request::give_back(self.inner);
            *Box::from_raw(self.newcomm)
        };
        // Before the request completes: the program may free the communicator afterwards.
        self.place.leave(mpi, internals);
        self.request.complete(mpi, if code == 0 { Ok(newcomm) } else { Err(mpi_error_of(code)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_a_place_one_operation_is_carried_out_and_the_others_wait_in_order() {
        let mut queues = Queues(BTreeMap::new());
        assert_eq!(queues.enter(1, "a"), Some("a"));
        assert_eq!(queues.enter(1, "b"), None);
        assert_eq!(queues.enter(1, "c"), None);
        assert_eq!(queues.enter(2, "d"), Some("d"));
        assert_eq!(queues.next(1), Some("b"));
        assert_eq!(queues.enter(1, "e"), None);
        assert_eq!(queues.next(1), Some("c"));
        assert_eq!(queues.next(1), Some("e"));
        assert_eq!(queues.next(2), None);
    }

    #[test]
    fn a_place_whose_last_operation_has_ended_is_free_again() {
        let mut queues = Queues(BTreeMap::new());
        assert_eq!(queues.enter(1, "a"), Some("a"));
        assert_eq!(queues.next(1), None);
        assert_eq!(queues.enter(1, "b"), Some("b"));
    }
}
