//! The functions that spawn and connect, as C calls them, see `ringwatch.h`, and what they have in common with those of
//! [Fortran](crate::fortran).

use std::ffi::{CStr, CString, c_char, c_int};

use crate::check;
use crate::dynamic::{self, Call, Other, Program};
use crate::internals::Internals;
use crate::openmpi::{ERR_ARG, ERR_INFO, ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::promises::Target;

/// Starts to spawn processes.
///
/// # Safety
/// The handles are those of the MPI in this process; strings are terminated, and the list of arguments with a null. The
/// variables of the results stay where they are until the request has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_ispawn(
    command: *const c_char,
    arguments: *const *const c_char,
    count: c_int,
    info: Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    codes: *mut c_int,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as required of the caller.
    let words = || unsafe {
        let arguments = (!arguments.is_null()).then(|| {
            let all = (0..).map(|index| *arguments.add(index)).take_while(|argument| !argument.is_null());
            all.map(|argument| CStr::from_ptr(argument).to_owned()).collect()
        });
        Some((text(command)?, arguments))
    };
    // SAFETY: as required of the caller.
    unsafe { hand_out(spawn(words, count, info, root, comm, room(intercomm, request), codes), request) }
}

/// Starts to accept a connection.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_iaccept(
    port: *const c_char,
    _info: Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { hand_out(start_at(|| text(port), root, comm, room(intercomm, request), Other::Accepted), request) }
}

/// Starts to connect.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_iconnect(
    port: *const c_char,
    _info: Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { hand_out(start_at(|| text(port), root, comm, room(intercomm, request), Other::Connected), request) }
}

/// # Safety
/// A terminated string, if there is one.
unsafe fn text(start: *const c_char) -> Option<CString> {
    // SAFETY: as required of the caller.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_owned())
}

/// Where a program in C wants the new communicator; `None` if it leaves no room for that, or for the request.
fn room(intercomm: *mut Handle, request: *mut Handle) -> Option<Target> {
    (!intercomm.is_null() && !request.is_null()).then_some(Target::C(intercomm))
}

/// Gives a program in C the request; returns an error code.
///
/// # Safety
/// There is [`room`] for the request.
unsafe fn hand_out(started: Result<Handle, c_int>, request: *mut Handle) -> c_int {
    match started {
        Err(code) => code,
        Ok(handle) => {
            // SAFETY: as required of the caller.
            unsafe { request.write(handle) };
            0
        }
    }
}

/// Starts to spawn processes; returns the request. What is significant at the root alone is looked at there alone: `words`
/// has the command, and its arguments unless they are `MPI_ARGV_NULL`.
///
/// # Safety
/// As for the function of C.
pub unsafe fn spawn(
    words: impl FnOnce() -> Option<(CString, Option<Vec<CString>>)>,
    count: c_int,
    info: Handle,
    root: c_int,
    comm: Handle,
    target: Option<Target>,
    codes: *mut c_int,
) -> Result<Handle, c_int> {
    let program = |inside: &Internals| {
        if count < 0 {
            return Err(ERR_ARG);
        }
        let (command, arguments) = words().ok_or(ERR_ARG)?;
        let mut copy = info;
        // SAFETY: as required of the caller.
        if unsafe { info != (inside.info_from_fortran)(0) && (inside.info_dup)(info, &mut copy) != 0 } {
            return Err(ERR_INFO);
        }
        Ok(Program { command, arguments, count, info: copy })
    };
    let codes = usize::try_from(count).ok().filter(|_| !codes.is_null()).map(|count| (codes, count));
    let other = |inside: &Internals, is_root: bool| Ok(Other::Spawned(is_root.then(|| program(inside)).transpose()?));
    // SAFETY: as required of the caller.
    unsafe { start("MPIX_Comm_ispawn would block", comm, root, target, codes, other) }
}

/// Starts to accept a connection or to connect, at a port that the root alone looks at; returns the request.
///
/// # Safety
/// As for the function of C.
pub unsafe fn start_at(
    port: impl FnOnce() -> Option<CString>,
    root: c_int,
    comm: Handle,
    target: Option<Target>,
    other: fn(Option<CString>) -> Other,
) -> Result<Handle, c_int> {
    let what = match other(None) {
        Other::Accepted(_) => "MPIX_Comm_iaccept would block",
        _ => "MPIX_Comm_iconnect would block",
    };
    let other = |_: &Internals, is_root: bool| Ok(other(is_root.then(|| port().ok_or(ERR_ARG)).transpose()?));
    // SAFETY: as required of the caller.
    unsafe { start(what, comm, root, target, None, other) }
}

/// Starts the operation if it can be done, and there is a target; else the communicator's error handler is called, and the
/// code returned.
///
/// # Safety
/// As above.
unsafe fn start(
    what: &str,
    comm: Handle,
    root: c_int,
    target: Option<Target>,
    codes: Option<(*mut c_int, usize)>,
    other: impl FnOnce(&Internals, bool) -> Result<Other, c_int>,
) -> Result<Handle, c_int> {
    let (Some(mpi), Some(inside)) = (OpenMpi::get(), Internals::get()) else { return Err(ERR_UNSUPPORTED) };
    // SAFETY: as required of the caller.
    unsafe {
        check(mpi, comm, what)?;
        let size = inside.answer(inside.size, comm);
        let is_root = inside.answer(inside.rank, comm) == root;
        let target = target.filter(|_| (0..size).contains(&root)).ok_or(ERR_ARG);
        target
            .and_then(|target| {
                let call = Call { comm, root, other: other(inside, is_root)?, codes };
                dynamic::start(mpi, call, target)
            })
            .map_err(|code| mpi.raise(comm, code))
    }
}

macro_rules! profiling_names {
    ($($name:ident = $function:ident($($argument:ident: $kind:ty),*);)*) => {$(
        /// The profiling name.
        ///
        /// # Safety
        /// See there.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "as MPI has them")]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: as required of the caller.
            unsafe { $function($($argument),*) }
        }
    )*};
}

profiling_names! {
    PMPIX_Comm_ispawn = MPIX_Comm_ispawn(
        command: *const c_char, arguments: *const *const c_char, count: c_int, info: Handle, root: c_int, comm: Handle,
        intercomm: *mut Handle, codes: *mut c_int, request: *mut Handle
    );
    PMPIX_Comm_iaccept = MPIX_Comm_iaccept(
        port: *const c_char, info: Handle, root: c_int, comm: Handle, intercomm: *mut Handle, request: *mut Handle
    );
    PMPIX_Comm_iconnect = MPIX_Comm_iconnect(
        port: *const c_char, info: Handle, root: c_int, comm: Handle, intercomm: *mut Handle, request: *mut Handle
    );
}
