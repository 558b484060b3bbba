//! `MPI_Comm_create_group` on a uniform communicator makes one at all living members of the group, or at none.
//!
//! The last step of Open MPI's constructor, the activation, is a reduction to all: whoever has come through it knows that all
//! members have begun it, but not that they come through, too. So whoever has begun it votes when it has ended, in an agreement
//! of the group. Who has come through waits for the votes, which all living members cast, whoever dies meanwhile. Who has not
//! has failed whatever the others say, and does not wait: where nobody has come through some members may not have come as far
//! as to vote, and never will. But as long as its agreement is under way it takes part in it, for the others.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::handles::Communicator;
use crate::internals::Internals;
use crate::line::lock;
use crate::objects::Object;
use crate::requests::Request;
use crate::statement::{About, ERR_INTERN, ERR_OTHER, Standing, Statement, Verdict, statement, verdict};
use crate::{agreements, communicators, endpoints, members, numbers, uniform};

/// The votes of this process that are not counted yet.
static OPEN: Mutex<Vec<Ballot>> = Mutex::new(Vec::new());
/// Somebody may have died since they were told of deaths.
static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);

struct Ballot {
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

impl Ballot {
    /// What was agreed on, once it has been. The ballot is taken apart then.
    fn result(&mut self, mpi: &Internals) -> Option<Verdict> {
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
        // Who has died since it voted does not matter.
        Some(verdict(*self.statement, 0, 0))
    }

    /// Open MPI does not find the shadow.
    fn tell_of_deaths(&mut self) {
        for (rank, (process, is_told)) in (0..).zip(&mut self.members) {
            if !*is_told && endpoints::is_dead(*process) {
                *is_told = true;
                agreements::member_died(self.shadow as Object, rank, false);
            }
        }
    }
}

/// How the activation of a communicator has ended here.
pub struct Activation {
    pub code: c_int,
    /// Others may have come through.
    pub has_begun: bool,
}

/// Activates a communicator that is being made of `comm` and has its number, and returns a code on which its members agree.
///
/// # Safety
/// Communicators that live, in an Open MPI that fits; all members of the new one have it numbered alike and call this, unless
/// they have failed before.
pub unsafe fn cast(made: Object, comm: Object, activate: impl FnOnce() -> Activation) -> c_int {
    let Some(mpi) = Internals::fitting() else { return activate().code };
    // SAFETY: as required of the caller. Where Open MPI has other groups that is so at all members.
    let Some(members) = (unsafe { members::processes(made) }) else { return activate().code };
    // SAFETY: as required of the caller.
    let Some((shadow, module)) = (unsafe { mpi.shadows.new_before(made, comm) }) else {
        // Who cannot vote does not begin, so that nobody comes through, and nobody waits for it.
        communicators::revoke(Communicator::from_handle(comm));
        return ERR_INTERN;
    };
    let Activation { code, has_begun } = activate();
    if !has_begun {
        // SAFETY: no agreement has begun there.
        unsafe { mpi.shadows.free(&mpi.classes, shadow, module) };
        return code;
    }
    if code == 0 {
        return uniform::waiting_in(made, || vote(mpi, shadow, module, members, code));
    }
    vote(mpi, shadow, module, members, code)
}

fn vote(mpi: &Internals, shadow: Object, module: Object, members: Vec<usize>, code: c_int) -> c_int {
    let mut statement = Box::new(statement(About::Word, 0, &[code], Standing::Sound));
    let place = &raw mut *statement;
    // Open MPI asks who is dead as it begins.
    let members = members.into_iter().map(|process| (process, endpoints::is_dead(process))).collect();
    let is_left = code != 0;
    let (key, agreements) = (shadow as usize, module as usize);
    lock(&OPEN).push(Ballot { shadow: key, agreements, request: 0, statement, members, is_left });
    // SAFETY: the statement stays in its box until the request has completed, or for ever.
    let request = unsafe { mpi.shadows.agree(place, shadow, module) };
    if let Some(ballot) = lock(&OPEN).iter_mut().find(|ballot| ballot.shadow == key) {
        ballot.request = request.map_or(0, |request| request as usize);
    }
    somebody_died();
    if is_left {
        return code;
    }
    if request.is_err() {
        return ERR_INTERN;
    }
    let code = loop {
        look();
        match take(mpi, key) {
            None => mpi.progress(),
            Some(Verdict::Go { flawed: false, .. }) => return 0,
            Some(Verdict::Go { class, .. }) => break class.unwrap_or(ERR_OTHER),
            Some(Verdict::End { class, .. }) => break class,
        }
    };
    // Of a failure that others have seen, and this process perhaps not yet.
    numbers::keep();
    code
}

/// The result of a ballot of this process that somebody waits for.
fn take(mpi: &Internals, shadow: usize) -> Option<Verdict> {
    let mut open = lock(&OPEN);
    let index = open.iter().position(|ballot| ballot.shadow == shadow)?;
    let verdict = open[index].result(mpi)?;
    open.swap_remove(index);
    Some(verdict)
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
    let mut open = lock(&OPEN);
    if let Some(mpi) = Internals::get().filter(|_| !open.is_empty()) {
        open.retain_mut(|ballot| !ballot.is_left || ballot.result(mpi).is_none());
        open.iter_mut().for_each(Ballot::tell_of_deaths);
    }
    false
}

/// `MPI_Finalize` takes Open MPI apart.
pub fn give_up() {
    // Agreements that are under way still may write their results.
    std::mem::take(&mut *lock(&OPEN)).into_iter().for_each(std::mem::forget);
}
