//! Handlers are called in place of the functions of the installed libmpi, whoever asks for these. MPI is not
//! initialised.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::transmute;
use std::sync::Mutex;

use mpi_entry::entries::{Failure, Handler, install, next, stock};
use mpi_entry::functions::Function;
use openmpi_internals::loaded::Library;
use openmpi_internals::symbol_table::{Replacement, base_of, stand_in_front};

type Call = unsafe extern "C" fn(*mut c_int) -> c_int;

const REFUSAL: c_int = 52;
static REPORTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

fn refuse(function: &'static Function) -> c_int {
    REPORTED.lock().unwrap().push(function.name);
    REFUSAL
}

/// Stands in front of a function before handlers do.
unsafe extern "C" fn earlier(_: *mut c_int) -> c_int {
    11
}

unsafe extern "C" fn handler(_: *mut c_int) -> c_int {
    12
}

/// What a program finds by this name.
fn found(name: &CStr) -> *const c_void {
    // SAFETY: a terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "libmpi has {name:?}");
    found
}

fn call(function: *const c_void) -> c_int {
    let mut flag = 0;
    // SAFETY: a function that writes at most this number, or has no effect at all.
    unsafe { transmute::<*const c_void, Call>(function)(&raw mut flag) }
}

#[test]
fn the_program_calls_handlers_and_what_is_not_covered_is_reported() {
    // SAFETY: a library that is made to be loaded.
    let libmpi = unsafe { libc::dlopen(c"libmpi.so.40".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!libmpi.is_null(), "libmpi cannot be loaded: install the package libopenmpi40");
    let library = Library::loaded().expect("libmpi is loaded");
    let base = base_of(found(c"MPI_Finalized"));
    let own = found(c"MPI_Initialized");
    let local = found(c"MPI_Get_version");
    let names = [c"PMPI_Initialized", c"MPI_Initialized"];
    // SAFETY: a function of the same type.
    assert!(unsafe { stand_in_front(&[Replacement { names, stock: own, ours: earlier as *const c_void }]) });

    let of = |name| Handler { name, ours: handler as *const c_void };
    // SAFETY: functions of the same types, as long as the handlers of others are not called.
    let try_install = |handlers: &[Handler]| unsafe { install(&library, handlers, refuse) };
    assert_eq!(try_install(&[of("Initialised")]), Err(Failure::NoFunction("Initialised")));
    assert_eq!(try_install(&[of("Initialized"), of("Comm_is_revoked")]), Ok(()));
    assert_eq!(try_install(&[]), Err(Failure::Installed));

    // The functions of the extension are two, and have one handler.
    for name in ["MPI_Initialized", "PMPI_Initialized", "MPIX_Comm_is_revoked", "PMPIX_Comm_is_revoked"] {
        assert_eq!(call(found(&CString::new(name).unwrap())), 12, "{name}");
    }
    assert_eq!(next("Initialized").map(call), Some(11));
    assert_eq!(stock("Initialized"), Some(own));
    assert_eq!(stock("Initialized").map(call), Some(0));
    // Ringwatch itself is not led to handlers.
    assert_eq!(library.symbol(names[1]).map(|own| own.cast_const()), Some(own));
    assert_eq!(found(c"MPI_Get_version"), local);

    for name in [c"MPI_File_open", c"PMPI_File_open", c"MPI_Send"] {
        assert_ne!(base_of(found(name)), base, "{name:?}");
        assert_eq!(call(found(name)), REFUSAL, "{name:?}");
    }
    assert_eq!(*REPORTED.lock().unwrap(), ["File_open", "File_open", "Send"]);
    assert_eq!(base_of(stock("Send").unwrap()), base);
}
