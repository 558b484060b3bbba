//! `MPIX_Comm_ispawn`, `MPIX_Comm_iaccept` and `MPIX_Comm_iconnect`: what Open MPI does in the functions that block, on a
//! [fiber](crate::fibers) and on a communicator of its own ([`members`]).

use std::ffi::{CStr, CString, c_char, c_int};

use crate::fibers::{self, Fiber};
use crate::internals::Internals;
use crate::members::{self, Ticket};
use crate::openmpi::{
    ERR_OTHER, ERR_PORT, ERR_PROC_FAILED, ERR_REVOKED, ERR_SPAWN, ERR_UNSUPPORTED, Handle, OpenMpi, code_of,
};
use crate::promises::{Promise, Target};
use crate::runtime;
use crate::votes::Vote;

/// At least `MPI_MAX_PORT_NAME`.
const PORT: usize = 4096;
/// In place of a port: how Open MPI has the others know that nobody was spawned (dpm.c, `ompi_dpm_connect_accept`).
const FAILED: &CStr = c":error=50";
/// `MPI_INFO_NULL` of Open MPI in Fortran.
const FORTRAN_INFO_NULL: c_int = 0;

/// What is to be connected with. Only the root has names.
pub enum Other {
    Spawned(Option<Program>),
    Accepted(Option<CString>),
    Connected(Option<CString>),
}

/// What is spawned.
pub struct Program {
    pub command: CString,
    /// `None` for `MPI_ARGV_NULL`.
    pub arguments: Option<Vec<CString>>,
    pub count: c_int,
    /// A copy, or `MPI_INFO_NULL`.
    pub info: Handle,
}

/// An operation that a program has called for.
pub struct Call {
    pub comm: Handle,
    pub root: c_int,
    pub other: Other,
    /// The program's error codes of spawned processes, if it wants them, and how many.
    pub codes: Option<(*mut c_int, usize)>,
}

/// Starts an operation; returns its request, or an error code.
///
/// # Safety
/// An intracommunicator that lives, and variables that stay where they are until the operation has completed.
pub unsafe fn start(mpi: &'static OpenMpi, call: Call, target: Target) -> Result<Handle, c_int> {
    let Some(inside) = Internals::get() else { return Err(ERR_UNSUPPORTED) };
    // SAFETY: as required of the caller.
    let (vote, promise) = unsafe {
        let vote = Vote::of(inside, call.comm).map_err(code_of)?;
        (vote, Promise::new(mpi, call.comm, target)?)
    };
    let request = promise.request();
    let ticket = Ticket::take(call.comm);
    let body = move |fiber: &Fiber| {
        // SAFETY: as required of the caller.
        let result = unsafe { call.carry_out(inside, fiber, ticket, vote) };
        promise.keep(mpi, result);
    };
    if fibers::start(mpi, body) { Ok(request) } else { Err(ERR_OTHER) }
}

impl Call {
    /// # Safety
    /// As for [`start`]; on the fiber.
    unsafe fn carry_out(
        &self,
        inside: &Internals,
        fiber: &Fiber,
        ticket: Ticket,
        vote: Option<Vote>,
    ) -> Result<Handle, c_int> {
        // SAFETY: as required of the caller; what is made here is nobody else's.
        unsafe {
            let mut made = std::ptr::null_mut();
            let gathered = members::gather(inside, fiber, &ticket);
            let code = gathered.map_or_else(|code| code, |own| self.connect(inside, fiber, own, &mut made));
            if let (Err(_), Some(key)) = (gathered, self.key()) {
                runtime::refuse(inside, fiber, key);
            }
            let result = if code == 0 { Ok(made) } else { Err(self.class(inside, fiber)) };
            // Everybody has heard of this one from the root.
            let failed = code != 0 && code != -ERR_SPAWN;
            if let Ok(mut own) = gathered {
                if code == 0 {
                    self.hand_errhandler_on(inside, made);
                } else if failed {
                    // Nobody has to wait for who has left.
                    (inside.revoke)(own);
                }
                (inside.free_communicator)(&mut own);
            }
            if failed {
                members::hand_on_turn(inside);
            }
            let result = match vote {
                Some(vote) => self.settle(inside, fiber, vote, result),
                None => result,
            };
            if let Some((codes, count)) = self.codes {
                (0..count).for_each(|index| codes.add(index).write(result.err().unwrap_or(0)));
            }
            result
        }
    }

    /// How it has ended for all members. What was made here, and not everywhere, nobody can use.
    ///
    /// # Safety
    /// As above.
    unsafe fn settle(
        &self,
        inside: &Internals,
        fiber: &Fiber,
        vote: Vote,
        result: Result<Handle, c_int>,
    ) -> Result<Handle, c_int> {
        // SAFETY: as required of the caller.
        unsafe {
            let code = vote.cast(inside, fiber, self.comm, result.err().unwrap_or(0), self.class_without_death());
            match result {
                Ok(made) if code != 0 => {
                    (inside.revoke)(made);
                    Err(code)
                }
                Ok(made) => Ok(made),
                Err(_) => Err(code),
            }
        }
    }

    /// Open MPI's own function on a communicator that nobody else has; returns an error code.
    ///
    /// # Safety
    /// As above.
    unsafe fn connect(&self, inside: &Internals, fiber: &Fiber, own: Handle, made: &mut Handle) -> c_int {
        fiber.hands_turn_on.set(true);
        // SAFETY: as required of the caller.
        unsafe {
            match &self.other {
                Other::Spawned(None) => (inside.connect_accept)(own, self.root, c"".as_ptr(), false, made),
                Other::Spawned(Some(program)) => {
                    // Who is spawned waits for an answer: this is carried on whoever dies.
                    let port = program.spawn(inside, own);
                    (inside.connect_accept)(own, self.root, port.as_ptr(), false, made)
                }
                Other::Accepted(port) | Other::Connected(port) => {
                    fiber.depends_on.set([self.comm, own]);
                    if let Some(key) = self.key() {
                        runtime::take_refusal_back(inside, fiber, &key);
                    }
                    let first = matches!(self.other, Other::Connected(_));
                    let port = port.as_ref().map_or(std::ptr::null(), |port| port.as_ptr());
                    (inside.connect_accept)(own, self.root, port, first, made)
                }
            }
        }
    }

    /// What everybody is told of a failure, whichever way it has come here.
    ///
    /// # Safety
    /// As above.
    unsafe fn class(&self, inside: &Internals, fiber: &Fiber) -> c_int {
        // SAFETY: as required of the caller.
        unsafe {
            if inside.is_revoked(self.comm) {
                ERR_REVOKED
            } else if fiber.met_the_dead.get() || inside.has_dead_members(self.comm) {
                ERR_PROC_FAILED
            } else {
                self.class_without_death()
            }
        }
    }

    /// The key under which a root that meets another one publishes who comes with it.
    fn key(&self) -> Option<CString> {
        let (port, end) = match &self.other {
            Other::Accepted(port) => (port.as_ref()?, b":accept".as_slice()),
            Other::Connected(port) => (port.as_ref()?, b":connect".as_slice()),
            Other::Spawned(_) => return None,
        };
        CString::new([port.to_bytes(), end].concat()).ok()
    }

    fn class_without_death(&self) -> c_int {
        if matches!(self.other, Other::Spawned(_)) { ERR_SPAWN } else { ERR_PORT }
    }

    /// The new communicator has the error handler of the one that the program has called with.
    ///
    /// # Safety
    /// As above.
    unsafe fn hand_errhandler_on(&self, inside: &Internals, made: Handle) {
        let mut handler = std::ptr::null_mut();
        // SAFETY: as required of the caller, and room for the handler, which is given back.
        unsafe {
            if (inside.errhandler)(self.comm, &mut handler) == 0 {
                (inside.set_errhandler)(made, handler);
                (inside.errhandler_free)(&mut handler);
            }
        }
    }
}

impl Program {
    /// Starts the processes if all who wait for them live; returns the port for them, or what Open MPI says of an error in
    /// its place.
    ///
    /// # Safety
    /// At the root, with the communicator of the operation.
    unsafe fn spawn(&self, inside: &Internals, own: Handle) -> CString {
        let arguments: Option<Vec<*const c_char>> = self
            .arguments
            .as_ref()
            .map(|arguments| arguments.iter().map(|argument| argument.as_ptr()).chain([std::ptr::null()]).collect());
        let arguments = arguments.as_ref().map_or(std::ptr::null(), |arguments| arguments.as_ptr());
        let mut port = [0 as c_char; PORT];
        // SAFETY: as required of the caller; all of it stays until the function has returned.
        unsafe {
            let mut info = self.info;
            let fine = !inside.has_dead_members(own)
                && (inside.open_port)(port.as_mut_ptr()) == 0
                && (inside.start_processes)(1, &self.command.as_ptr(), &arguments, &self.count, &info, port.as_ptr())
                    == 0;
            if info != (inside.info_from_fortran)(FORTRAN_INFO_NULL) {
                (inside.info_free)(&mut info);
            }
            if fine { CStr::from_ptr(port.as_ptr()).to_owned() } else { FAILED.to_owned() }
        }
    }
}
