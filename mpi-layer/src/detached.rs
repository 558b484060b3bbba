//! Agreements that end by themselves: nobody has to wait for them, and no communicator of the program stands for them.
//!
//! Open MPI tells the members of a communicator of deaths by that communicator, and does not find the
//! [shadow](crate::shadows) of one that is not made yet or that is freed. So these are told here.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::internals::Internals;
use crate::line::lock;
use crate::objects::Object;
use crate::requests::Request;
use crate::statement::{Statement, Verdict, verdict};
use crate::{agreements, endpoints, members, numbers};

/// The agreements of this process that go on.
static OPEN: Mutex<Vec<Detached>> = Mutex::new(Vec::new());
/// How many of them nobody waits for.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// Somebody may have died since they were told of deaths.
static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);

/// An agreement that goes on.
pub struct Detached {
    /// See [`shadows`](crate::shadows).
    shadow: usize,
    agreements: usize,
    /// 0 until it has begun.
    request: usize,
    statement: Box<Statement>,
    /// The processes of the members, and whether the agreement knows that they are dead.
    members: Vec<(usize, bool)>,
    /// Nobody waits for it here.
    is_left: bool,
}

impl Detached {
    /// What was agreed on, once it has been. It is taken apart then.
    fn result(&mut self, mpi: &Internals) -> Option<Statement> {
        let (request, shadow) = (self.request as *mut Request, self.shadow as Object);
        // SAFETY: both are given back only here; it is taken off the list then.
        unsafe {
            if request.is_null() || !Request::is_complete(request) {
                return None;
            }
            Request::give_back(request);
            agreements::forget(shadow);
            mpi.shadows.free(&mpi.classes, shadow, self.agreements as Object);
        }
        Some(*self.statement)
    }

    fn result_if_left(&mut self, mpi: &Internals) -> Option<Statement> {
        if self.is_left { self.result(mpi) } else { None }
    }

    fn tell_of_deaths(&mut self) {
        for (rank, (process, is_told)) in (0..).zip(&mut self.members) {
            if !*is_told && endpoints::is_dead(*process) {
                *is_told = true;
                agreements::member_died(self.shadow as Object, rank, false);
            }
        }
    }
}

/// Begins one in which this process says `statement`, among `processes`; nobody waits for it if it `is_left`. Returns whether
/// it has begun.
///
/// # Safety
/// A shadow and its module, in which no other agreement is under way.
pub unsafe fn begin(
    mpi: &Internals,
    (shadow, module): (Object, Object),
    processes: Vec<usize>,
    statement: Statement,
    is_left: bool,
) -> bool {
    let mut statement = Box::new(statement);
    let place = &raw mut *statement;
    // Open MPI asks who is dead as it begins.
    let members = processes.into_iter().map(|process| (process, endpoints::is_dead(process))).collect();
    let (key, agreements) = (shadow as usize, module as usize);
    add(Detached { shadow: key, agreements, request: 0, statement, members, is_left });
    // SAFETY: as required of the caller; the statement stays in its box until the request has completed, or for ever.
    let request = unsafe { mpi.shadows.agree(place, shadow, module) };
    if let Some(begun) = lock(&OPEN).iter_mut().find(|one| one.shadow == key) {
        begun.request = request.map_or(0, |request| request as usize);
    }
    somebody_died();
    request.is_ok()
}

/// Takes over one that has begun, for which nobody will wait.
///
/// # Safety
/// A shadow that lives and its module; the request is that of an agreement there, which has its result put into `statement`.
pub unsafe fn take_over((shadow, module): (Object, Object), request: *mut Request, statement: Box<Statement>) {
    // SAFETY: as required of the caller.
    let processes = unsafe { members::processes(shadow) }.unwrap_or_default();
    // Who has died since it began may have been told to it or not; the second time changes nothing.
    let members = processes.into_iter().map(|process| (process, false)).collect();
    let (shadow, agreements, request) = (shadow as usize, module as usize, request as usize);
    add(Detached { shadow, agreements, request, statement, members, is_left: true });
    somebody_died();
}

fn add(one: Detached) {
    LEFT.fetch_add(usize::from(one.is_left), Ordering::Relaxed);
    lock(&OPEN).push(one);
}

/// The result of one that somebody waits for.
pub fn take(mpi: &Internals, shadow: Object) -> Option<Statement> {
    let mut open = lock(&OPEN);
    let index = open.iter().position(|one| one.shadow == shadow as usize)?;
    let result = open[index].result(mpi)?;
    open.swap_remove(index);
    Some(result)
}

/// Takes those apart that have ended and that nobody waits for.
pub fn clear(mpi: &Internals) {
    // Another thread, or this one further up, does it otherwise.
    let Ok(mut open) = OPEN.try_lock() else { return };
    open.retain_mut(|one| {
        let Some(result) = one.result_if_left(mpi) else { return true };
        LEFT.fetch_sub(1, Ordering::Relaxed);
        if let Verdict::End { .. } = verdict(result, 0, 0) {
            // Others have seen a failure, and this process perhaps not yet.
            numbers::keep();
        }
        false
    });
}

/// Whether there are any that nobody waits for.
pub fn is_anything_left() -> bool {
    LEFT.load(Ordering::Relaxed) > 0
}

/// A process has died.
pub fn somebody_died() {
    SOMEBODY_DIED.store(true, Ordering::Release);
    crate::watch_progress();
}

/// A turn of the progress loop. False if no further turn is needed.
pub fn look() -> bool {
    if !SOMEBODY_DIED.swap(false, Ordering::AcqRel) {
        return false;
    }
    if let Some(mpi) = Internals::get() {
        clear(mpi);
        lock(&OPEN).iter_mut().for_each(Detached::tell_of_deaths);
    }
    false
}

/// `MPI_Finalize` takes Open MPI apart.
pub fn give_up() {
    // Agreements that are under way still may write their results.
    std::mem::take(&mut *lock(&OPEN)).into_iter().for_each(std::mem::forget);
    LEFT.store(0, Ordering::Relaxed);
}
