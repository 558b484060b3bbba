//! `MPI_Comm_create_group` on a uniform communicator makes one at all living members of the group, or at none; and so do
//! `MPI_Intercomm_create`, and `MPI_Comm_accept` with `MPI_Comm_connect`, with two uniform groups.
//!
//! The last step of Open MPI's constructor, the activation, is a reduction to all: whoever has come through it knows that all
//! members have begun it, but not that they come through, too. So whoever has begun it votes when it has ended, in an agreement
//! of the group. Who has come through waits for the votes, which all living members cast, whoever dies meanwhile. Who has not
//! has failed whatever the others say, and does not wait: where nobody has come through some members may not have come as far
//! as to vote, and never will. But as long as its agreement is under way it takes part in it, for the others.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::handles::Communicator;
use crate::internals::Internals;
use crate::objects::Object;
use crate::property::{SCOPE, UNIFORMITY};
use crate::scope::Scope;
use crate::statement::{
    About, ERR_INTERN, ERR_OTHER, ERR_PROC_FAILED, ERR_REVOKED, Standing, Verdict, statement, verdict,
};
use crate::uniformity::Uniformity;
use crate::{communicators, detached, members, numbers, uniform};

/// How the activation of a communicator has ended here.
pub struct Activation {
    pub code: c_int,
    /// Others may have come through.
    pub has_begun: bool,
}

/// A constructor whose call two groups have made, which vote if both are uniform.
pub struct Joint {
    is_uniform: bool,
    both_are: AtomicBool,
    /// The last step has begun.
    has_begun: AtomicBool,
    /// All members of both groups have succeeded.
    is_settled: AtomicBool,
}

impl Joint {
    /// Of a group that calls with `comm`.
    pub fn of(comm: Object) -> Self {
        Self {
            is_uniform: Uniformity::of(communicators::values(comm)[UNIFORMITY]) != Uniformity::Local,
            both_are: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
        }
    }

    /// Whether this process's group is uniform.
    pub fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    /// What is known about the other group.
    pub fn other_is(&self, uniform: bool) {
        self.both_are.store(self.is_uniform && uniform, Ordering::Relaxed);
    }

    /// The last step begins.
    pub fn begins(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// The last step, which gives `made` its collectives, and the vote on it if both groups are uniform; returns its code.
    ///
    /// # Safety
    /// A communicator that has its number and its epoch, and the one that this group uses for it, in an Open MPI that fits.
    pub unsafe fn activate(&self, made: Object, comm: Object, begin: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: as required of the caller. Either the members of both groups belong to one mpirun, or they do for nobody.
        if !self.both_are.load(Ordering::Relaxed) || unsafe { members::of(made) }.is_none() {
            return begin();
        }
        let activate = || Activation { code: begin(), has_begun: self.has_begun.load(Ordering::Relaxed) };
        // SAFETY: as required of the caller.
        let code = unsafe { cast(made, comm, activate) };
        self.is_settled.store(code == 0, Ordering::Relaxed);
        code
    }

    /// Whether all members of both groups are known to have succeeded.
    pub fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// The class of an error for both groups, of which one may have lost nobody, and hear of the death from the other one, which its scope
    /// has revoked. Of a group that calls with `comm`.
    pub fn class(&self, code: c_int, comm: Object) -> c_int {
        let is_revoked = || self.is_uniform && Scope::of(communicators::values(comm)[SCOPE]) != Scope::Local;
        if code == ERR_PROC_FAILED && is_revoked() { ERR_REVOKED } else { code }
    }
}

/// Activates a communicator that is being made of `comm`, or of that and another one, and has its number, and returns a code on which
/// its members agree.
///
/// # Safety
/// Communicators that live, in an Open MPI that fits; all members of the new one have it numbered alike and call this, unless
/// they have failed before.
pub unsafe fn cast(made: Object, comm: Object, activate: impl FnOnce() -> Activation) -> c_int {
    let Some(mpi) = Internals::fitting() else { return activate().code };
    // SAFETY: as required of the caller.
    let Some((shadow, module)) = (unsafe { mpi.shadows.new_before(made, comm) }) else {
        // Who cannot vote does not begin, so that nobody comes through, and nobody waits for it.
        communicators::revoke(Communicator::from_handle(comm));
        return ERR_INTERN;
    };
    // SAFETY: it was made above.
    let Some(members) = (unsafe { members::processes(shadow) }) else {
        // Where Open MPI has other groups that is so at all members.
        // SAFETY: no agreement has begun there.
        unsafe { mpi.shadows.free(&mpi.classes, shadow, module) };
        return activate().code;
    };
    let Activation { code, has_begun } = activate();
    if !has_begun {
        // SAFETY: no agreement has begun there.
        unsafe { mpi.shadows.free(&mpi.classes, shadow, module) };
        return code;
    }
    if code == 0 {
        uniform::hold(made);
        let code = vote(mpi, shadow, module, members, code);
        uniform::decided(made, code);
        return code;
    }
    vote(mpi, shadow, module, members, code)
}

fn vote(mpi: &Internals, shadow: Object, module: Object, members: Vec<usize>, code: c_int) -> c_int {
    let vote = statement(About::Word, 0, &[code], Standing::Sound);
    let is_left = code != 0;
    // SAFETY: the first agreement there.
    let has_begun = unsafe { detached::begin(mpi, (shadow, module), members, vote, is_left) };
    if is_left {
        return code;
    }
    if !has_begun {
        return ERR_INTERN;
    }
    let code = loop {
        detached::look();
        // Who has died since it voted does not matter.
        match detached::take(mpi, shadow).map(|votes| verdict(votes, 0, 0)) {
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
