//! Records the first error that MPI raises in this rank after each death, with its function, for the job's history.
//!
//! Each failing MPI function calls one function of Open MPI through libmpi's procedure linkage table (errhandler.h).
//! ringwatch interposes on that function and forwards the call.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::failure::deaths;
use crate::in_front::{guard, in_front};
use openmpi_internals::abi::ErrhandlerInvoke;
use openmpi_internals::error_class::{ERR_PROC_FAILED, ERR_PROC_FAILED_PENDING, ERR_REVOKED};
use openmpi_internals::functions::OMPI_ERRHANDLER_INVOKE;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::loaded::{self};
use openmpi_internals::object::Object;

/// Error classes that report a failure.
const CLASSES: [(c_int, &str); 3] = [
    (ERR_PROC_FAILED, "MPI_ERR_PROC_FAILED"),
    (ERR_PROC_FAILED_PENDING, "MPI_ERR_PROC_FAILED_PENDING"),
    (ERR_REVOKED, "MPI_ERR_REVOKED"),
];

static STOCK: OnceLock<ErrhandlerInvoke> = OnceLock::new();
/// [`deaths::reported`] at the last recorded error; initially a number that never occurs.
static NOTED: AtomicU32 = AtomicU32::new(u32::MAX);
/// Whether an error is being recorded.
static NOTING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The function in which this thread raises an error on ringwatch's behalf.
    static FUNCTION: Cell<Option<&'static CStr>> = const { Cell::new(None) };
}

/// Receives the name of an error class, and of the function that raises it.
pub type Note = fn(&'static str, &str);

static NOTE: OnceLock<Note> = OnceLock::new();

/// Sets the receiver of errors. Call it before [`install`].
pub fn hand_to(note: Note) {
    let _ = NOTE.set(note);
}

/// Interposes on the error function. Without it the history has only the fact and the time of MPI's knowledge.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the type is that of errhandler.h, and of our function.
    unsafe {
        let _ = STOCK.set(at.function(OMPI_ERRHANDLER_INVOKE)?);
        at.redirect(OMPI_ERRHANDLER_INVOKE, invoke).map(drop)
    }
}

/// Invokes the error handler of a communicator, as an MPI function does.
pub fn raise(comm: Object, code: c_int, function: &'static CStr) {
    FUNCTION.set(Some(function));
    loaded::raise(c"PMPI_Comm_call_errhandler", comm, code);
    FUNCTION.set(None);
}

in_front! { stock = STOCK.get(), or code;
    /// Keeps no value with a destructor across the call: error handlers of programs may not return.
    unsafe extern "C-unwind" fn invoke(
        handler: *mut c_void, object: *mut c_void, object_type: c_int, code: c_int, function: *const c_char
    ) -> c_int {
        let function = FUNCTION.take().map_or(function, CStr::as_ptr);
        guard((), || note(code, function));
        // SAFETY: the stock function with its original arguments.
        unsafe { stock(handler, object, object_type, code, function) }
    }
}

fn note(code: c_int, function: *const c_char) {
    let Some((_, class)) = CLASSES.iter().find(|(known, _)| *known == code) else { return };
    let deaths = deaths::reported();
    if NOTED.load(Ordering::Relaxed) == deaths || NOTING.swap(true, Ordering::Acquire) {
        return;
    }
    NOTED.store(deaths, Ordering::Relaxed);
    if let Some(note) = NOTE.get() {
        // SAFETY: Open MPI passes the name of its function, or null.
        let function = if function.is_null() { c"" } else { unsafe { CStr::from_ptr(function) } };
        note(class, function.to_str().unwrap_or_default());
    }
    NOTING.store(false, Ordering::Release);
}
