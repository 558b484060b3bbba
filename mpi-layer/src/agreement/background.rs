//! Runs agreements in the background: members need not wait for them, and they use no communicator of the program.
//!
//! Open MPI notifies agreements of deaths through their communicator. It does not find the
//! [shadow](crate::agreement::shadow_comm) of a communicator that is still being made or is already freed. So this
//! module passes deaths to these agreements itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::agreement::vote::{Statement, Verdict, verdict};
use crate::agreement::{era_guard, shadow_comm};
use crate::cid::cid_hold;
use crate::failure::{deaths, wakeup};
use openmpi_internals::communicator::Internals;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::{group, proc};

/// Agreements of this process that are under way.
static OPEN: Mutex<Vec<Detached>> = Mutex::new(Vec::new());
/// Number of them that no caller waits for.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// Set when a death may have occurred since the last [`tell_of_deaths`].
static IS_CHECK_DUE: AtomicBool = AtomicBool::new(false);

/// An agreement that is under way.
pub struct Detached {
    /// See [`shadow_comm`](crate::agreement::shadow_comm).
    shadow: usize,
    agreements: usize,
    /// 0 until it has begun.
    request: usize,
    statement: Box<Statement>,
    /// The members' processes, and whether the agreement is notified of their death.
    members: Vec<(usize, bool)>,
    /// No caller of this process waits for it.
    is_left: bool,
}

impl Detached {
    /// Returns the agreed statement once it is complete, and frees the agreement's objects.
    fn result(&mut self, mpi: &Internals) -> Option<Statement> {
        let (request, shadow) = (self.request as *mut Request, self.shadow as Object);
        // SAFETY: both are released only here; the entry then leaves the list.
        unsafe {
            if request.is_null() || !Request::is_complete(request) {
                return None;
            }
            Request::give_back(request);
            era_guard::forget(shadow);
            shadow_comm::free(mpi, shadow, self.agreements as Object);
        }
        Some(*self.statement)
    }

    fn result_if_left(&mut self, mpi: &Internals) -> Option<Statement> {
        if self.is_left { self.result(mpi) } else { None }
    }

    fn tell_of_deaths(&mut self) {
        for (rank, (process, is_told)) in (0..).zip(&mut self.members) {
            if !*is_told && proc::is_dead(*process) {
                *is_told = true;
                deaths::note();
                era_guard::member_died(self.shadow as Object, rank, false);
            }
        }
    }
}

/// Begins an agreement among `processes` in which this process contributes `statement`. With `is_left`, no caller waits
/// for it. Returns whether it has begun.
///
/// # Safety
/// A shadow and its module, with no other agreement under way on them.
pub unsafe fn begin(
    (shadow, module): (Object, Object),
    processes: Vec<usize>,
    statement: Statement,
    is_left: bool,
) -> bool {
    let mut statement = Box::new(statement);
    let place = &raw mut *statement;
    // Open MPI reads the set of dead processes when it begins.
    let members = processes.into_iter().map(|process| (process, proc::is_dead(process))).collect();
    let (key, agreements) = (shadow as usize, module as usize);
    add(Detached { shadow: key, agreements, request: 0, statement, members, is_left });
    // SAFETY: as required of the caller; the statement stays in its box until the request completes, or is leaked.
    let request = unsafe { shadow_comm::agree(place, shadow, module) };
    if let Some(begun) = lock(&OPEN).iter_mut().find(|one| one.shadow == key) {
        begun.request = request.map_or(0, |request| request as usize);
    }
    request_check();
    request.is_ok()
}

/// Takes over a begun agreement that no caller will wait for.
///
/// # Safety
/// A live shadow and its module; `request` belongs to an agreement on them that writes its result into `statement`.
pub unsafe fn take_over((shadow, module): (Object, Object), request: *mut Request, statement: Box<Statement>) {
    // SAFETY: as required of the caller.
    let processes = unsafe { group::processes(shadow) }.unwrap_or_default();
    // It may know of deaths since it began. A second notification changes nothing.
    let members = processes.into_iter().map(|process| (process, false)).collect();
    let (shadow, agreements, request) = (shadow as usize, module as usize, request as usize);
    add(Detached { shadow, agreements, request, statement, members, is_left: true });
    request_check();
}

fn add(one: Detached) {
    LEFT.fetch_add(usize::from(one.is_left), Ordering::Relaxed);
    lock(&OPEN).push(one);
}

/// Returns the result of an agreement that a caller waits for, once complete.
pub fn take(mpi: &Internals, shadow: Object) -> Option<Statement> {
    let mut open = lock(&OPEN);
    let index = open.iter().position(|one| one.shadow == shadow as usize)?;
    let result = open[index].result(mpi)?;
    open.swap_remove(index);
    Some(result)
}

/// Frees completed agreements that no caller waits for.
pub fn clear(mpi: &Internals) {
    // The lock is taken by another thread, or by this one further up the stack: that holder does the work.
    let Ok(mut open) = OPEN.try_lock() else { return };
    open.retain_mut(|one| {
        let Some(result) = one.result_if_left(mpi) else { return true };
        LEFT.fetch_sub(1, Ordering::Relaxed);
        if let Verdict::End { .. } = verdict(result, 0, 0) {
            // Another member has seen a failure that this process may not have seen yet.
            cid_hold::keep();
        }
        false
    });
}

/// Whether there are agreements that no caller waits for.
pub fn is_anything_left() -> bool {
    LEFT.load(Ordering::Relaxed) > 0
}

/// Requests that the next turn notifies these agreements of deaths.
pub fn request_check() {
    IS_CHECK_DUE.store(true, Ordering::Release);
    wakeup::request_turns();
}

/// Passes deaths of members to these agreements if a check is due. Called in a turn of the progress loop; returns
/// false, because no further turn is needed.
pub fn tell_of_deaths() -> bool {
    if !IS_CHECK_DUE.swap(false, Ordering::AcqRel) {
        return false;
    }
    if let Some(mpi) = Internals::get() {
        clear(mpi);
        lock(&OPEN).iter_mut().for_each(Detached::tell_of_deaths);
    }
    false
}

/// Drops the list when `MPI_Finalize` tears Open MPI down.
pub fn give_up() {
    // Agreements still under way may write their results, so their memory is leaked.
    std::mem::take(&mut *lock(&OPEN)).into_iter().for_each(std::mem::forget);
    LEFT.store(0, Ordering::Relaxed);
}
