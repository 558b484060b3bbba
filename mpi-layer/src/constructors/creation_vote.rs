//! Makes constructors on uniform communicators succeed at all living members, or at none.
//!
//! The constructors are `MPI_Comm_create_group`, and with two uniform groups `MPI_Intercomm_create`, `MPI_Comm_accept`
//! and `MPI_Comm_connect`. The last step of Open MPI's constructor, the activation, is an allreduce. A member that has
//! completed it knows that all members have begun it, but not that they have completed it. So each member that has
//! begun it votes on its result, in an agreement of the members.
//! * A member that has completed the activation waits for the votes. All living members have begun it, so they vote,
//!   regardless of further deaths.
//! * A member whose activation has failed returns its error without waiting for the votes: if no member has completed
//!   the activation, some may not have begun it, and never vote. Its agreement continues in the background for the
//!   others.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agreement::vote::{About, Standing, Verdict, statement, verdict};
use crate::agreement::{background, shadow_comm};
use crate::cid::cid_hold;
use crate::properties::communicators;
use crate::properties::error_scope::Scope;
use crate::properties::error_uniformity::Uniformity;
use crate::properties::info_property::{SCOPE, UNIFORMITY};
use crate::uniform::operations;
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::{ERR_INTERN, ERR_OTHER, ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::group;
use openmpi_internals::object::Object;

/// The result of a communicator's activation at this member.
pub struct Activation {
    pub code: c_int,
    /// The activation has begun, so other members may have completed it.
    pub has_begun: bool,
}

/// A constructor called by two groups, which vote if both are uniform.
pub struct Joint {
    is_uniform: bool,
    both_are: AtomicBool,
    /// The last step has begun.
    has_begun: AtomicBool,
    /// All members of both groups have succeeded.
    is_settled: AtomicBool,
}

impl Joint {
    /// For a group that calls with `comm`.
    pub fn new(comm: Object) -> Self {
        Self {
            is_uniform: Uniformity::from_value(communicators::values(comm)[UNIFORMITY]) != Uniformity::Local,
            both_are: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
        }
    }

    /// Whether this process's group is uniform.
    pub fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    /// Notes whether the other group is uniform.
    pub fn other_is(&self, uniform: bool) {
        self.both_are.store(self.is_uniform && uniform, Ordering::Relaxed);
    }

    /// Notes that the last step begins.
    pub fn begins(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Runs the last step, which gives `made` its collectives, and the vote on it if both groups are uniform; returns
    /// its code.
    ///
    /// # Safety
    /// `made` has its context id and its epoch; `comm` is this group's communicator. In an Open MPI of the known
    /// layout.
    pub unsafe fn activate(&self, made: Object, comm: Object, begin: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: as required of the caller. All members agree on whether both groups belong to one mpirun.
        if !self.both_are.load(Ordering::Relaxed) || unsafe { group::of(made) }.is_none() {
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

    /// The error class for both groups, from that of a group that calls with `comm`. A group without a dead member may
    /// learn of the death from the other group, whose scope has revoked its communicator.
    pub fn class(&self, code: c_int, comm: Object) -> c_int {
        let is_revoked = || self.is_uniform && Scope::from_value(communicators::values(comm)[SCOPE]) != Scope::Local;
        if code == ERR_PROC_FAILED && is_revoked() { ERR_REVOKED } else { code }
    }
}

/// Activates a communicator that is being made from `comm`, or from `comm` and another one, and returns a code on which
/// its members agree. It has its context id.
///
/// # Safety
/// Live communicators, in an Open MPI of the known layout; all members of the new one have given it the same context id
/// and call this function, unless they have failed before.
pub unsafe fn cast(made: Object, comm: Object, activate: impl FnOnce() -> Activation) -> c_int {
    let Some(mpi) = Internals::fitting() else { return activate().code };
    // SAFETY: as required of the caller.
    let Some((shadow, module)) = (unsafe { shadow_comm::new_before(made, comm) }) else {
        // A member that cannot vote does not begin, so no member completes the activation and waits for its vote.
        communicators::revoke(Communicator::from_handle(comm));
        return ERR_INTERN;
    };
    // SAFETY: it was made above.
    let Some(members) = (unsafe { group::processes(shadow) }) else {
        // With groups of an unknown layout this branch is taken at all members.
        // SAFETY: no agreement has begun there.
        unsafe { shadow_comm::free(mpi, shadow, module) };
        return activate().code;
    };
    let Activation { code, has_begun } = activate();
    if !has_begun {
        // SAFETY: no agreement has begun there.
        unsafe { shadow_comm::free(mpi, shadow, module) };
        return code;
    }
    if code == 0 {
        operations::hold(made);
        let code = vote(mpi, shadow, module, members, code);
        operations::decided(made, code);
        return code;
    }
    vote(mpi, shadow, module, members, code)
}

fn vote(mpi: &Internals, shadow: Object, module: Object, members: Vec<usize>, code: c_int) -> c_int {
    let vote = statement(About::Word, 0, &[code], Standing::Sound);
    let is_left = code != 0;
    // SAFETY: the first agreement there.
    let has_begun = unsafe { background::begin((shadow, module), members, vote, is_left) };
    if is_left {
        return code;
    }
    if !has_begun {
        return ERR_INTERN;
    }
    let code = loop {
        background::tell_of_deaths();
        // Deaths after a vote do not matter.
        match background::take(mpi, shadow).map(|votes| verdict(votes, 0, 0)) {
            None => mpi.progress(),
            Some(Verdict::Go { flawed: false, .. }) => return 0,
            Some(Verdict::Go { class, .. }) => break class.unwrap_or(ERR_OTHER),
            Some(Verdict::End { class, .. }) => break class,
        }
    };
    // Another member has seen a failure that this process may not have seen yet.
    cid_hold::keep();
    code
}
