//! The names under which Fortran compilers look for the functions; `ringwatchf.h` and `ringwatchf08.h` have their interfaces.
//!
//! Handles are integers in all bindings. The lengths of strings come behind the other arguments. Compilers have them as int
//! or as long as an address: of either, the lower half is looked at, as Open MPI does it.

use std::ffi::{CStr, CString, c_char, c_int};

use crate::dynamic::Other;
use crate::internals::Internals;
use crate::openmpi::{self, ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::promises::Target;
use crate::{spawning, start};

/// The common blocks of `MPI_ARGV_NULL` and `MPI_ERRCODES_IGNORE`, as compilers name them.
const ARGV_NULL: [&CStr; 4] =
    [c"mpi_fortran_argv_null_", c"mpi_fortran_argv_null", c"mpi_fortran_argv_null__", c"MPI_FORTRAN_ARGV_NULL"];
const ERRCODES_IGNORE: [&CStr; 4] = [
    c"mpi_fortran_errcodes_ignore_",
    c"mpi_fortran_errcodes_ignore",
    c"mpi_fortran_errcodes_ignore__",
    c"MPI_FORTRAN_ERRCODES_IGNORE",
];

/// Whether this is the address of a constant.
fn is<T>(address: *const T, names: &[&CStr]) -> bool {
    names.iter().any(|name| openmpi::variable(name).is_some_and(|variable| std::ptr::addr_eq(variable, address)))
}

/// A string without the blanks around it, which MPI strips. It ends at a null, which programs put behind names for C.
///
/// # Safety
/// There are that many characters.
unsafe fn text(start: *const c_char, length: usize) -> CString {
    // SAFETY: as required of the caller.
    let all = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    let mut text = all.split(|byte| *byte == 0).next().unwrap_or_default();
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    CString::new(text).unwrap_or_default()
}

fn length(hidden: c_int) -> usize {
    usize::try_from(hidden).unwrap_or(0)
}

/// Starts an operation, and hands out its request, or an error code, which is optional.
///
/// # Safety
/// Variables of Fortran that exist.
unsafe fn begin(request: *mut c_int, error: *mut c_int, start: impl FnOnce(&'static OpenMpi) -> Result<Handle, c_int>) {
    // SAFETY: as required of the caller, and a request that lives.
    let begun = || unsafe {
        let mpi = OpenMpi::get().ok_or(ERR_UNSUPPORTED)?;
        request.write((mpi.request_to_fortran)(start(mpi)?));
        Ok(())
    };
    let code = begun().err().unwrap_or(0);
    if !error.is_null() {
        // SAFETY: as required of the caller.
        unsafe { error.write(code) };
    }
}

/// # Safety
/// Handles of Fortran, in variables that exist; `newcomm` stays where it is until the request has completed. The error
/// code is optional.
unsafe extern "C" fn ishrink(comm: *const c_int, newcomm: *mut c_int, request: *mut c_int, error: *mut c_int) {
    // SAFETY: as required of the caller, and with the arguments that were meant for it.
    unsafe {
        if let Some(native) = openmpi::native_fortran_ishrink() {
            return native(comm, newcomm, request, error);
        }
        begin(request, error, |mpi| start(mpi, (mpi.comm_from_fortran)(*comm), Target::Fortran(newcomm)));
    }
}

/// # Safety
/// As above; the error codes stay, too. A blank string ends the arguments.
unsafe extern "C" fn ispawn(
    command: *const c_char,
    arguments: *const c_char,
    count: *const c_int,
    info: *const c_int,
    root: *const c_int,
    comm: *const c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
    request: *mut c_int,
    error: *mut c_int,
    command_length: c_int,
    argument_length: c_int,
) {
    // SAFETY: as required of the caller; the root alone looks at the words.
    let words = || unsafe {
        let size = length(argument_length);
        let all = (0..).map(|index| text(arguments.add(index * size), size)).take_while(|word| !word.is_empty());
        let all = (!is(arguments, &ARGV_NULL)).then(|| all.collect());
        Some((text(command, length(command_length)), all))
    };
    let codes = if is(codes, &ERRCODES_IGNORE) { std::ptr::null_mut() } else { codes };
    // SAFETY: as required of the caller.
    unsafe {
        begin(request, error, |mpi| {
            let info = (Internals::get().ok_or(ERR_UNSUPPORTED)?.info_from_fortran)(*info);
            let comm = (mpi.comm_from_fortran)(*comm);
            spawning::spawn(words, *count, info, *root, comm, Some(Target::Fortran(intercomm)), codes)
        });
    }
}

/// # Safety
/// As above.
unsafe extern "C" fn start_at<const ACCEPTS: bool>(
    port: *const c_char,
    _info: *const c_int,
    root: *const c_int,
    comm: *const c_int,
    intercomm: *mut c_int,
    request: *mut c_int,
    error: *mut c_int,
    port_length: c_int,
) {
    let other = if ACCEPTS { Other::Accepted } else { Other::Connected };
    // SAFETY: as required of the caller; the root alone looks at the port.
    unsafe {
        begin(request, error, |mpi| {
            let port = || Some(text(port, length(port_length)));
            spawning::start_at(port, *root, (mpi.comm_from_fortran)(*comm), Some(Target::Fortran(intercomm)), other)
        });
    }
}

macro_rules! names {
    ($($name:ident)*: $function:path, $arguments:tt) => {$(
        name! { $name: $function, $arguments }
    )*};
}

macro_rules! name {
    ($name:ident: $function:path, ($($argument:ident: $kind:ty),*)) => {
        /// # Safety
        /// Called from Fortran with the arguments of the interface.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name that a compiler looks for")]
        pub unsafe extern "C" fn $name($($argument: $kind),*) {
            // SAFETY: as required of the caller.
            unsafe { $function($($argument),*) }
        }
    };
}

names! {
    MPIX_COMM_ISHRINK mpix_comm_ishrink mpix_comm_ishrink_ mpix_comm_ishrink__
    PMPIX_COMM_ISHRINK pmpix_comm_ishrink pmpix_comm_ishrink_ pmpix_comm_ishrink__:
    ishrink, (comm: *const c_int, newcomm: *mut c_int, request: *mut c_int, error: *mut c_int)
}

names! {
    MPIX_COMM_ISPAWN mpix_comm_ispawn mpix_comm_ispawn_ mpix_comm_ispawn__
    PMPIX_COMM_ISPAWN pmpix_comm_ispawn pmpix_comm_ispawn_ pmpix_comm_ispawn__:
    ispawn, (
        command: *const c_char, arguments: *const c_char, count: *const c_int, info: *const c_int, root: *const c_int,
        comm: *const c_int, intercomm: *mut c_int, codes: *mut c_int, request: *mut c_int, error: *mut c_int,
        command_length: c_int, argument_length: c_int
    )
}

names! {
    MPIX_COMM_IACCEPT mpix_comm_iaccept mpix_comm_iaccept_ mpix_comm_iaccept__
    PMPIX_COMM_IACCEPT pmpix_comm_iaccept pmpix_comm_iaccept_ pmpix_comm_iaccept__:
    start_at::<true>, (
        port: *const c_char, info: *const c_int, root: *const c_int, comm: *const c_int, intercomm: *mut c_int,
        request: *mut c_int, error: *mut c_int, port_length: c_int
    )
}

names! {
    MPIX_COMM_ICONNECT mpix_comm_iconnect mpix_comm_iconnect_ mpix_comm_iconnect__
    PMPIX_COMM_ICONNECT pmpix_comm_iconnect pmpix_comm_iconnect_ pmpix_comm_iconnect__:
    start_at::<false>, (
        port: *const c_char, info: *const c_int, root: *const c_int, comm: *const c_int, intercomm: *mut c_int,
        request: *mut c_int, error: *mut c_int, port_length: c_int
    )
}
