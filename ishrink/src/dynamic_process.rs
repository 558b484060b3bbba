//! Implements `MPIX_Comm_ispawn`, `MPIX_Comm_iaccept` and `MPIX_Comm_iconnect`: runs Open MPI's blocking functions on a
//! [fiber](crate::fibers) and on a communicator of the operation ([`operation_comm`]).

use std::ffi::{CStr, CString, c_char, c_int};

use crate::fibers::{self, Fiber};
use crate::generalized_request::{OperationRequest, Target};
use crate::internals::Internals;
use crate::openmpi::{
    ERR_OTHER, ERR_PORT, ERR_PROC_FAILED, ERR_REVOKED, ERR_SPAWN, ERR_UNSUPPORTED, Handle, OpenMpi, mpi_error_of,
};
use crate::operation_comm;
use crate::operation_order::Ticket;
use crate::pmix_nonblocking;
use crate::votes::Vote;

/// At least `MPI_MAX_PORT_NAME`.
const PORT_LENGTH: usize = 4096;
/// Replaces a port: the root reports to other members that no process was spawned (dpm.c, `ompi_dpm_connect_accept`).
const SPAWN_FAILED: &CStr = c":error=50";
/// `MPI_INFO_NULL` of Open MPI in Fortran.
const FORTRAN_INFO_NULL: c_int = 0;

/// The kind of an operation. Only the root has its arguments.
pub enum Action {
    Spawn(Option<Program>),
    /// Accepts at a port.
    Accept(Option<CString>),
    /// Connects at a port.
    Connect(Option<CString>),
}

/// The result of an operation, once all members know it.
#[derive(Debug, PartialEq, Eq)]
enum Outcome<C> {
    Succeeded(C),
    /// Failed at another member: the communicator is revoked, and the operation ends with this class.
    Revoked(C, c_int),
    Failed(c_int),
}

/// The result of an operation: `here` is the local communicator or error, `for_all` is 0 or the error class of all
/// members.
fn outcome<C>(here: Result<C, c_int>, for_all: c_int) -> Outcome<C> {
    match here {
        Ok(newcomm) if for_all == 0 => Outcome::Succeeded(newcomm),
        Ok(newcomm) => Outcome::Revoked(newcomm, for_all),
        Err(_) => Outcome::Failed(for_all),
    }
}

/// The class with which a failed operation ends at all members, however this member learned of the error. `other` is
/// the class without a revocation or a death.
fn error_class(is_revoked: bool, has_death: bool, other: c_int) -> c_int {
    if is_revoked {
        ERR_REVOKED
    } else if has_death {
        ERR_PROC_FAILED
    } else {
        other
    }
}

/// Whether other members may still wait for this one after Open MPI's function has returned this code. The root reports
/// to all members that no process was spawned.
fn leaves_others_waiting(code: c_int) -> bool {
    code != 0 && code != -ERR_SPAWN
}

/// The arguments of a spawn.
pub struct Program {
    pub command: CString,
    /// `None` for `MPI_ARGV_NULL`.
    pub arguments: Option<Vec<CString>>,
    pub count: c_int,
    /// A copy, or `MPI_INFO_NULL`.
    pub info: Handle,
}

/// An operation that a program has begun.
pub struct Call {
    pub comm: Handle,
    pub root: c_int,
    pub action: Action,
    /// The program's array for error codes of spawned processes, and its length; `None` if it ignores them.
    pub codes: Option<(*mut c_int, usize)>,
}

/// Begins an operation; returns its request, or an error code.
///
/// # Safety
/// A live intracommunicator, and variables that stay valid until the operation has completed.
pub unsafe fn start(mpi: &'static OpenMpi, call: Call, target: Target) -> Result<Handle, c_int> {
    let Some(internals) = Internals::get() else { return Err(ERR_UNSUPPORTED) };
    // SAFETY: as required of the caller.
    let (vote, request) = unsafe {
        let vote = Vote::for_next_operation(internals, call.comm).map_err(mpi_error_of)?;
        (vote, OperationRequest::new(mpi, call.comm, target)?)
    };
    let handle = request.handle();
    let ticket = Ticket::take(call.comm);
    let body = move |fiber: &Fiber| {
        // SAFETY: as required of the caller.
        let result = unsafe { call.carry_out(internals, fiber, ticket, vote) };
        request.complete(mpi, result);
    };
    if fibers::start(mpi, body) { Ok(handle) } else { Err(ERR_OTHER) }
}

impl Call {
    /// # Safety
    /// As for [`start`]; on the fiber.
    unsafe fn carry_out(
        &self,
        internals: &Internals,
        fiber: &Fiber,
        ticket: Ticket,
        vote: Option<Vote>,
    ) -> Result<Handle, c_int> {
        // SAFETY: as required of the caller; no other code knows the communicators made here.
        unsafe {
            let mut newcomm = std::ptr::null_mut();
            let created = operation_comm::create(internals, fiber, &ticket);
            let code = created.map_or_else(|code| code, |own| self.connect(internals, fiber, own, &mut newcomm));
            if let (Err(_), Some(key)) = (created, self.action.published_key()) {
                pmix_nonblocking::publish_refusal(internals, fiber, key);
            }
            let result = if code == 0 { Ok(newcomm) } else { Err(self.error_class(internals, fiber)) };
            if let Ok(mut own) = created {
                if code == 0 {
                    self.pass_errhandler_on(internals, newcomm);
                } else if leaves_others_waiting(code) {
                    (internals.comm_revoke)(own);
                }
                (internals.comm_free)(&mut own);
            }
            if leaves_others_waiting(code) {
                operation_comm::release_cid_turn(internals);
            }
            let result = match vote {
                Some(vote) => self.vote(internals, fiber, vote, result),
                None => result,
            };
            if let Some((codes, count)) = self.codes {
                (0..count).for_each(|index| codes.add(index).write(result.err().unwrap_or(0)));
            }
            result
        }
    }

    /// Makes all members return the same result. Revokes a communicator that not all members have.
    ///
    /// # Safety
    /// As above.
    unsafe fn vote(
        &self,
        internals: &Internals,
        fiber: &Fiber,
        vote: Vote,
        here: Result<Handle, c_int>,
    ) -> Result<Handle, c_int> {
        // SAFETY: as required of the caller.
        unsafe {
            let (class, other) = (here.err().unwrap_or(0), self.action.error_class());
            match outcome(here, vote.cast(internals, fiber, self.comm, class, other)) {
                Outcome::Succeeded(newcomm) => Ok(newcomm),
                Outcome::Revoked(newcomm, class) => {
                    (internals.comm_revoke)(newcomm);
                    Err(class)
                }
                Outcome::Failed(class) => Err(class),
            }
        }
    }

    /// Runs Open MPI's own function on a private communicator; returns an error code.
    ///
    /// # Safety
    /// As above.
    unsafe fn connect(&self, internals: &Internals, fiber: &Fiber, own: Handle, newcomm: &mut Handle) -> c_int {
        fiber.releases_cid_turn.set(true);
        let connect_accept = internals.dpm_connect_accept;
        // SAFETY: as required of the caller.
        unsafe {
            match &self.action {
                Action::Spawn(None) => connect_accept(own, self.root, c"".as_ptr(), false, newcomm),
                Action::Spawn(Some(program)) => {
                    // The spawned processes wait for an answer, so the call continues in spite of deaths.
                    let port = program.spawn(internals, own);
                    connect_accept(own, self.root, port.as_ptr(), false, newcomm)
                }
                Action::Accept(port) | Action::Connect(port) => {
                    fiber.depends_on.set([self.comm, own]);
                    if let Some(key) = self.action.published_key() {
                        pmix_nonblocking::unpublish_refusal(internals, fiber, &key);
                    }
                    let sends_first = matches!(self.action, Action::Connect(_));
                    let port = port.as_ref().map_or(std::ptr::null(), |port| port.as_ptr());
                    connect_accept(own, self.root, port, sends_first, newcomm)
                }
            }
        }
    }

    /// # Safety
    /// As above.
    unsafe fn error_class(&self, internals: &Internals, fiber: &Fiber) -> c_int {
        // SAFETY: as required of the caller.
        let (is_revoked, has_death) = unsafe {
            let has_death = fiber.met_the_dead.get() || internals.has_failed_members(self.comm);
            (internals.is_revoked(self.comm), has_death)
        };
        error_class(is_revoked, has_death, self.action.error_class())
    }

    /// Gives the new communicator the error handler of the program's communicator.
    ///
    /// # Safety
    /// As above.
    unsafe fn pass_errhandler_on(&self, internals: &Internals, newcomm: Handle) {
        let mut handler = std::ptr::null_mut();
        // SAFETY: as required of the caller, and a place for the handler, which is freed.
        unsafe {
            if (internals.get_errhandler)(self.comm, &mut handler) == 0 {
                (internals.set_errhandler)(newcomm, handler);
                (internals.errhandler_free)(&mut handler);
            }
        }
    }
}

impl Action {
    /// The key under which the root publishes its group's list for the other root.
    fn published_key(&self) -> Option<CString> {
        let (port, end) = match self {
            Self::Accept(port) => (port.as_ref()?, b":accept".as_slice()),
            Self::Connect(port) => (port.as_ref()?, b":connect".as_slice()),
            Self::Spawn(_) => return None,
        };
        CString::new([port.to_bytes(), end].concat()).ok()
    }

    /// The class of an error without a revocation or a death.
    fn error_class(&self) -> c_int {
        if matches!(self, Self::Spawn(_)) { ERR_SPAWN } else { ERR_PORT }
    }
}

impl Program {
    /// Spawns the processes if all members are alive; returns the port for them, or [`SPAWN_FAILED`].
    ///
    /// # Safety
    /// At the root, with the communicator of the operation.
    unsafe fn spawn(&self, internals: &Internals, own: Handle) -> CString {
        let arguments: Option<Vec<*const c_char>> = self
            .arguments
            .as_ref()
            .map(|arguments| arguments.iter().map(|argument| argument.as_ptr()).chain([std::ptr::null()]).collect());
        let arguments = arguments.as_ref().map_or(std::ptr::null(), |arguments| arguments.as_ptr());
        let mut port = [0 as c_char; PORT_LENGTH];
        // SAFETY: as required of the caller; all arguments stay valid until the function has returned.
        unsafe {
            let mut info = self.info;
            let fine = !internals.has_failed_members(own)
                && (internals.dpm_open_port)(port.as_mut_ptr()) == 0
                && (internals.dpm_spawn)(1, &self.command.as_ptr(), &arguments, &self.count, &info, port.as_ptr()) == 0;
            if info != (internals.info_from_fortran)(FORTRAN_INFO_NULL) {
                (internals.info_free)(&mut info);
            }
            if fine { CStr::from_ptr(port.as_ptr()).to_owned() } else { SPAWN_FAILED.to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_counts_more_than_a_death_and_a_death_more_than_what_has_failed() {
        assert_eq!(error_class(true, true, ERR_PORT), ERR_REVOKED);
        assert_eq!(error_class(true, false, ERR_PORT), ERR_REVOKED);
        assert_eq!(error_class(false, true, ERR_SPAWN), ERR_PROC_FAILED);
        assert_eq!(error_class(false, false, Action::Spawn(None).error_class()), ERR_SPAWN);
        assert_eq!(error_class(false, false, Action::Accept(None).error_class()), ERR_PORT);
    }

    #[test]
    fn a_communicator_that_was_not_made_everywhere_is_revoked() {
        assert_eq!(outcome(Ok("made"), 0), Outcome::Succeeded("made"));
        assert_eq!(outcome(Ok("made"), ERR_PROC_FAILED), Outcome::Revoked("made", ERR_PROC_FAILED));
        assert_eq!(outcome::<()>(Err(ERR_PORT), ERR_PROC_FAILED), Outcome::Failed(ERR_PROC_FAILED));
    }

    #[test]
    fn others_wait_for_a_member_that_fails_except_where_nothing_was_spawned() {
        assert!(!leaves_others_waiting(0));
        assert!(!leaves_others_waiting(-ERR_SPAWN));
        assert!(leaves_others_waiting(ERR_PROC_FAILED));
        assert!(leaves_others_waiting(ERR_SPAWN));
    }

    #[test]
    fn the_roots_of_two_groups_publish_under_different_keys() {
        let port = || Some(c"1.0:2".to_owned());
        assert_eq!(Action::Accept(port()).published_key().as_deref(), Some(c"1.0:2:accept"));
        assert_eq!(Action::Connect(port()).published_key().as_deref(), Some(c"1.0:2:connect"));
        assert_eq!(Action::Accept(None).published_key(), None);
        assert_eq!(Action::Spawn(None).published_key(), None);
    }
}
