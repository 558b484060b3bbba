//! The functions that spawn and connect, as C calls them; see `ringwatch.h`.

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
    // SAFETY: as required of the caller; what is significant at the root alone is looked at there alone.
    let program = |inside: &Internals| unsafe {
        if command.is_null() || count < 0 {
            return Err(ERR_ARG);
        }
        let arguments = (!arguments.is_null()).then(|| {
            let all = (0..).map(|index| *arguments.add(index)).take_while(|argument| !argument.is_null());
            all.map(|argument| CStr::from_ptr(argument).to_owned()).collect()
        });
        let mut copy = info;
        if info != (inside.info_from_fortran)(0) && (inside.info_dup)(info, &mut copy) != 0 {
            return Err(ERR_INFO);
        }
        Ok(Program { command: CStr::from_ptr(command).to_owned(), arguments, count, info: copy })
    };
    let codes = usize::try_from(count).ok().filter(|_| !codes.is_null()).map(|count| (codes, count));
    let other = |inside: &Internals, is_root| Ok(Other::Spawned(if is_root { Some(program(inside)?) } else { None }));
    // SAFETY: as required of the caller.
    unsafe { start("MPIX_Comm_ispawn would block", comm, root, intercomm, request, codes, other) }
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
    unsafe { start_at("MPIX_Comm_iaccept would block", port, root, comm, intercomm, request, Other::Accepted) }
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
    unsafe { start_at("MPIX_Comm_iconnect would block", port, root, comm, intercomm, request, Other::Connected) }
}

/// What is done at a port, which the root names.
///
/// # Safety
/// As above.
unsafe fn start_at(
    what: &str,
    port: *const c_char,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    request: *mut Handle,
    other: fn(Option<CString>) -> Other,
) -> c_int {
    // SAFETY: as required of the caller.
    unsafe {
        let other = |_: &Internals, is_root| Ok(other(name(port, is_root)?));
        start(what, comm, root, intercomm, request, None, other)
    }
}

/// # Safety
/// A terminated string, if there is one.
unsafe fn name(port: *const c_char, is_root: bool) -> Result<Option<CString>, c_int> {
    match (is_root, port.is_null()) {
        (false, _) => Ok(None),
        (true, true) => Err(ERR_ARG),
        // SAFETY: as required of the caller.
        (true, false) => Ok(Some(unsafe { CStr::from_ptr(port) }.to_owned())),
    }
}

/// Starts the operation if it can be done; else the communicator's error handler is called. Returns an error code.
///
/// # Safety
/// As above.
unsafe fn start(
    what: &str,
    comm: Handle,
    root: c_int,
    intercomm: *mut Handle,
    request: *mut Handle,
    codes: Option<(*mut c_int, usize)>,
    other: impl FnOnce(&Internals, bool) -> Result<Other, c_int>,
) -> c_int {
    let (Some(mpi), Some(inside)) = (OpenMpi::get(), Internals::get()) else { return ERR_UNSUPPORTED };
    // SAFETY: as required of the caller.
    let started = || unsafe {
        check(mpi, comm, what)?;
        let size = inside.answer(inside.size, comm);
        let is_root = inside.answer(inside.rank, comm) == root;
        let usable = (0..size).contains(&root) && !intercomm.is_null() && !request.is_null();
        let other = if usable { other(inside, is_root) } else { Err(ERR_ARG) };
        let call = Call { comm, root, other: other.map_err(|code| mpi.raise(comm, code))?, codes };
        dynamic::start(mpi, call, Target::C(intercomm)).map_err(|code| mpi.raise(comm, code))
    };
    match started() {
        Err(code) => code,
        Ok(handle) => {
            // SAFETY: as required of the caller.
            unsafe { request.write(handle) };
            0
        }
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
