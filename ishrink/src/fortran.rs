//! Defines the functions under the names of Fortran compilers; `ringwatchf.h` and `ringwatchf08.h` have the interfaces.
//!
//! Handles are integers in all bindings. The lengths of strings follow the other arguments, as an int or as wide as an
//! address, depending on the compiler. Like Open MPI, this module reads the lower half.

use std::ffi::{CStr, CString, c_char, c_int};

use crate::dynamic_process::Action;
use crate::fortran_names::names;
use crate::generalized_request::Target;
use crate::internals::Internals;
use crate::openmpi::{self, ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::{comm_ishrink, spawning};

/// The common blocks of `MPI_ARGV_NULL` and `MPI_ERRCODES_IGNORE`, as compilers name them.
const ARGV_NULL: [&CStr; 4] =
    [c"mpi_fortran_argv_null_", c"mpi_fortran_argv_null", c"mpi_fortran_argv_null__", c"MPI_FORTRAN_ARGV_NULL"];
const ERRCODES_IGNORE: [&CStr; 4] = [
    c"mpi_fortran_errcodes_ignore_",
    c"mpi_fortran_errcodes_ignore",
    c"mpi_fortran_errcodes_ignore__",
    c"MPI_FORTRAN_ERRCODES_IGNORE",
];

/// Whether this is the address of one of these variables.
fn is_variable<T>(address: *const T, names: &[&CStr]) -> bool {
    names.iter().any(|name| openmpi::variable(name).is_some_and(|variable| std::ptr::addr_eq(variable, address)))
}

/// A string without leading and trailing blanks, which MPI strips. A null ends it: programs append one to names for C.
///
/// # Safety
/// `start` points to `length` characters.
unsafe fn string(start: *const c_char, length: usize) -> CString {
    // SAFETY: as required of the caller.
    let all = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    let mut text = all.split(|byte| *byte == 0).next().unwrap_or_default();
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    CString::new(text).unwrap_or_default()
}

/// The strings of an array with elements of this length, up to a blank one.
///
/// # Safety
/// The array has a blank element.
unsafe fn strings(start: *const c_char, length: usize) -> Vec<CString> {
    // SAFETY: as required of the caller.
    let all = (0..).map(|index| unsafe { string(start.add(index * length), length) });
    all.take_while(|string| !string.is_empty()).collect()
}

/// The length of a string, from its hidden argument.
fn string_length(argument: c_int) -> usize {
    usize::try_from(argument).unwrap_or(0)
}

/// Begins an operation, and stores its request, and the error code if the program asks for it.
///
/// # Safety
/// Variables of Fortran that exist.
unsafe fn store_results(
    request: *mut c_int,
    error: *mut c_int,
    start: impl FnOnce(&'static OpenMpi) -> Result<Handle, c_int>,
) {
    // SAFETY: as required of the caller, and a live request.
    let store_request = || unsafe {
        let mpi = OpenMpi::get().ok_or(ERR_UNSUPPORTED)?;
        request.write((mpi.request_to_fortran)(start(mpi)?));
        Ok(())
    };
    let code = store_request().err().unwrap_or(0);
    if !error.is_null() {
        // SAFETY: as required of the caller.
        unsafe { error.write(code) };
    }
}

/// # Safety
/// Handles of Fortran, in existing variables; `newcomm` stays valid until the request has completed. The error code is
/// optional.
unsafe extern "C" fn ishrink(comm: *const c_int, newcomm: *mut c_int, request: *mut c_int, error: *mut c_int) {
    // SAFETY: as required of the caller, and with the original arguments.
    unsafe {
        if let Some(native) = openmpi::native_fortran_ishrink() {
            return native(comm, newcomm, request, error);
        }
        store_results(request, error, |mpi| {
            comm_ishrink::start(mpi, (mpi.comm_from_fortran)(*comm), Target::Fortran(newcomm))
        });
    }
}

/// # Safety
/// As above; the error codes stay valid, too. A blank string ends the arguments.
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
    // SAFETY: as required of the caller; only the root reads the command line.
    let command_line = || unsafe {
        let all = (!is_variable(arguments, &ARGV_NULL)).then(|| strings(arguments, string_length(argument_length)));
        Some((string(command, string_length(command_length)), all))
    };
    let codes = if is_variable(codes, &ERRCODES_IGNORE) { std::ptr::null_mut() } else { codes };
    // SAFETY: as required of the caller.
    unsafe {
        store_results(request, error, |mpi| {
            let info = (Internals::get().ok_or(ERR_UNSUPPORTED)?.info_from_fortran)(*info);
            let comm = (mpi.comm_from_fortran)(*comm);
            spawning::start_spawn(command_line, *count, info, *root, comm, Some(Target::Fortran(intercomm)), codes)
        });
    }
}

/// # Safety
/// As above.
unsafe extern "C" fn start_at_port<const ACCEPTS: bool>(
    port: *const c_char,
    _info: *const c_int,
    root: *const c_int,
    comm: *const c_int,
    intercomm: *mut c_int,
    request: *mut c_int,
    error: *mut c_int,
    port_length: c_int,
) {
    let action = if ACCEPTS { Action::Accept } else { Action::Connect };
    // SAFETY: as required of the caller; only the root reads the port.
    unsafe {
        store_results(request, error, |mpi| {
            let port = || Some(string(port, string_length(port_length)));
            spawning::start_at_port(
                port,
                *root,
                (mpi.comm_from_fortran)(*comm),
                Some(Target::Fortran(intercomm)),
                action,
            )
        });
    }
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
    start_at_port::<true>, (
        port: *const c_char, info: *const c_int, root: *const c_int, comm: *const c_int, intercomm: *mut c_int,
        request: *mut c_int, error: *mut c_int, port_length: c_int
    )
}

names! {
    MPIX_COMM_ICONNECT mpix_comm_iconnect mpix_comm_iconnect_ mpix_comm_iconnect__
    PMPIX_COMM_ICONNECT pmpix_comm_iconnect pmpix_comm_iconnect_ pmpix_comm_iconnect__:
    start_at_port::<false>, (
        port: *const c_char, info: *const c_int, root: *const c_int, comm: *const c_int, intercomm: *mut c_int,
        request: *mut c_int, error: *mut c_int, port_length: c_int
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> CString {
        // SAFETY: the text has that many characters.
        unsafe { string(text.as_ptr().cast(), text.len()) }
    }

    #[test]
    fn a_string_has_no_blanks_around_it_and_ends_at_a_null() {
        assert_eq!(stripped("  ./a b   ").as_c_str(), c"./a b");
        assert_eq!(stripped("name\0rest  ").as_c_str(), c"name");
        assert_eq!(stripped("     ").as_c_str(), c"");
        assert_eq!(stripped("").as_c_str(), c"");
    }

    #[test]
    fn a_blank_string_ends_the_arguments() {
        let array = "-a  b c     -d  ";
        // SAFETY: the third element is blank.
        let all = unsafe { strings(array.as_ptr().cast(), 4) };
        assert_eq!(all, [c"-a".to_owned(), c"b c".to_owned()]);
    }

    #[test]
    fn a_length_below_zero_is_none() {
        assert_eq!((string_length(12), string_length(-1)), (12, 0));
    }

    #[test]
    fn an_error_code_that_is_left_out_is_not_stored() {
        let (mut request, mut error) = (-5, -5);
        // SAFETY: variables that exist. Without an MPI in the process no operation is started.
        unsafe {
            store_results(&mut request, &mut error, |_| Ok(std::ptr::null_mut()));
            store_results(&mut request, std::ptr::null_mut(), |_| Ok(std::ptr::null_mut()));
        }
        assert_eq!((request, error), (-5, ERR_UNSUPPORTED));
    }
}
