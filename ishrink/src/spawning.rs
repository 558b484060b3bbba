//! Defines the functions that spawn and connect for C, see `ringwatch.h`, and the part shared with
//! [Fortran](crate::fortran).

use std::ffi::{CStr, CString, c_char, c_int};

use crate::dynamic_process::{self, Action, Call, Program};
use crate::generalized_request::Target;
use crate::internals::Internals;
use crate::openmpi::{ERR_ARG, ERR_INFO, ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::precondition;

/// Begins to spawn processes.
///
/// # Safety
/// The handles belong to the MPI in this process; strings are terminated, and the list of arguments ends with a null.
/// The variables for results stay valid until the request has completed.
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
    let command_line = || unsafe { Some((string(command)?, strings(arguments))) };
    // SAFETY: as required of the caller.
    unsafe {
        store_request(start_spawn(command_line, count, info, root, comm, target(intercomm, request), codes), request)
    }
}

/// Begins to accept a connection.
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
    unsafe {
        store_request(start_at_port(|| string(port), root, comm, target(intercomm, request), Action::Accept), request)
    }
}

/// Begins to connect.
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
    unsafe {
        store_request(start_at_port(|| string(port), root, comm, target(intercomm, request), Action::Connect), request)
    }
}

/// # Safety
/// A terminated string, or null.
unsafe fn string(start: *const c_char) -> Option<CString> {
    // SAFETY: as required of the caller.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_owned())
}

/// # Safety
/// A list of terminated strings with a null at its end, or null.
unsafe fn strings(list: *const *const c_char) -> Option<Vec<CString>> {
    if list.is_null() {
        return None;
    }
    // SAFETY: as required of the caller.
    let string = |index| unsafe { string(*list.add(index)) };
    Some((0..).map_while(string).collect())
}

/// The variable of a program in C for the new communicator; `None` if it or the variable for the request is null.
fn target(intercomm: *mut Handle, request: *mut Handle) -> Option<Target> {
    (!intercomm.is_null() && !request.is_null()).then_some(Target::C(intercomm))
}

/// Stores the request for a program in C; returns an error code.
///
/// # Safety
/// The operation was started with a [`target`] of this request.
unsafe fn store_request(started: Result<Handle, c_int>, request: *mut Handle) -> c_int {
    match started {
        Err(code) => code,
        Ok(handle) => {
            // SAFETY: as required of the caller.
            unsafe { request.write(handle) };
            0
        }
    }
}

/// Begins to spawn processes; returns the request. Arguments significant only at the root are read only there:
/// `command_line` returns the command, and its arguments unless they are `MPI_ARGV_NULL`.
///
/// # Safety
/// As for the function of C.
pub unsafe fn start_spawn(
    command_line: impl FnOnce() -> Option<(CString, Option<Vec<CString>>)>,
    count: c_int,
    info: Handle,
    root: c_int,
    comm: Handle,
    target: Option<Target>,
    codes: *mut c_int,
) -> Result<Handle, c_int> {
    let program = |internals: &Internals| {
        if count < 0 {
            return Err(ERR_ARG);
        }
        let (command, arguments) = command_line().ok_or(ERR_ARG)?;
        let mut copy = info;
        // SAFETY: as required of the caller.
        if unsafe { info != (internals.info_from_fortran)(0) && (internals.info_dup)(info, &mut copy) != 0 } {
            return Err(ERR_INFO);
        }
        Ok(Program { command, arguments, count, info: copy })
    };
    let codes = usize::try_from(count).ok().filter(|_| !codes.is_null()).map(|count| (codes, count));
    let action =
        |internals: &Internals, is_root: bool| Ok(Action::Spawn(is_root.then(|| program(internals)).transpose()?));
    // SAFETY: as required of the caller.
    unsafe { start("MPIX_Comm_ispawn would block", comm, root, target, codes, action) }
}

/// Begins to accept a connection or to connect, at a port that only the root reads; returns the request.
///
/// # Safety
/// As for the function of C.
pub unsafe fn start_at_port(
    port: impl FnOnce() -> Option<CString>,
    root: c_int,
    comm: Handle,
    target: Option<Target>,
    action: fn(Option<CString>) -> Action,
) -> Result<Handle, c_int> {
    let what = match action(None) {
        Action::Accept(_) => "MPIX_Comm_iaccept would block",
        _ => "MPIX_Comm_iconnect would block",
    };
    let action = |_: &Internals, is_root: bool| Ok(action(is_root.then(|| port().ok_or(ERR_ARG)).transpose()?));
    // SAFETY: as required of the caller.
    unsafe { start(what, comm, root, target, None, action) }
}

/// Whether a root is a member of a communicator of this size.
fn is_member(root: c_int, size: c_int) -> bool {
    (0..size).contains(&root)
}

/// Begins the operation if possible, and if there is a target. Otherwise calls the communicator's error handler, and
/// returns the code.
///
/// # Safety
/// As above.
unsafe fn start(
    what: &str,
    comm: Handle,
    root: c_int,
    target: Option<Target>,
    codes: Option<(*mut c_int, usize)>,
    action: impl FnOnce(&Internals, bool) -> Result<Action, c_int>,
) -> Result<Handle, c_int> {
    let (Some(mpi), Some(internals)) = (OpenMpi::get(), Internals::get()) else { return Err(ERR_UNSUPPORTED) };
    // SAFETY: as required of the caller.
    unsafe {
        precondition::check(mpi, comm, what)?;
        let size = internals.query(internals.comm_size, comm);
        let is_root = internals.query(internals.comm_rank, comm) == root;
        let target = target.filter(|_| is_member(root, size)).ok_or(ERR_ARG);
        target
            .and_then(|target| {
                let call = Call { comm, root, action: action(internals, is_root)?, codes };
                dynamic_process::start(mpi, call, target)
            })
            .map_err(|code| mpi.call_errhandler(comm, code))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_arguments_ends_at_its_null_and_may_be_none() {
        let list = [c"a".as_ptr(), c"".as_ptr(), c"-b".as_ptr(), std::ptr::null(), c"beyond".as_ptr()];
        // SAFETY: a list as MPI has it, and none.
        unsafe {
            assert_eq!(strings(list.as_ptr()), Some(vec![c"a".to_owned(), c"".to_owned(), c"-b".to_owned()]));
            assert_eq!(strings(list[3..].as_ptr()), Some(Vec::new()));
            assert_eq!(strings(std::ptr::null()), None);
        }
    }

    #[test]
    fn only_a_member_can_be_root() {
        assert!(is_member(0, 1) && is_member(2, 3));
        assert!(!is_member(-1, 3) && !is_member(3, 3));
    }

    #[test]
    fn a_program_needs_room_for_both_results() {
        let (mut intercomm, mut request) = (std::ptr::null_mut(), std::ptr::null_mut());
        assert!(matches!(target(&mut intercomm, &mut request), Some(Target::C(_))));
        assert!(target(std::ptr::null_mut(), &mut request).is_none());
        assert!(target(&mut intercomm, std::ptr::null_mut()).is_none());
    }

    #[test]
    fn a_request_is_stored_only_if_the_operation_was_started() {
        let handle: Handle = std::ptr::without_provenance_mut(64);
        let mut request = std::ptr::null_mut();
        // SAFETY: a variable that exists.
        unsafe {
            assert_eq!(store_request(Err(ERR_ARG), &mut request), ERR_ARG);
            assert!(request.is_null());
            assert_eq!(store_request(Ok(handle), &mut request), 0);
        }
        assert_eq!(request, handle);
    }
}
