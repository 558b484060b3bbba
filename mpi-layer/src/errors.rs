//! Notes, for the history of the job, which error of a failure MPI raises in this rank, and in which of its functions: the
//! first one for each death.
//!
//! Every function of MPI that fails calls one function of Open MPI through libmpi's table of jumps (errhandler.h). There a
//! function of this module takes its place, and calls it.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rdma_heartbeat::clock;

use crate::RANK;
use crate::objects::Object;
use crate::openmpi::{self, Library};
use crate::statement::{ERR_PROC_FAILED, ERR_PROC_FAILED_PENDING, ERR_REVOKED};

const INVOKE: &CStr = c"ompi_errhandler_invoke";
/// The errors that tell of failures.
const CLASSES: [(c_int, &str); 3] = [
    (ERR_PROC_FAILED, "MPI_ERR_PROC_FAILED"),
    (ERR_PROC_FAILED_PENDING, "MPI_ERR_PROC_FAILED_PENDING"),
    (ERR_REVOKED, "MPI_ERR_REVOKED"),
];

type Invoke = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int, c_int, *const c_char) -> c_int;

static STOCK: OnceLock<Invoke> = OnceLock::new();
/// Deaths that MPI knows of.
static DEATHS: AtomicU32 = AtomicU32::new(0);
/// How many that were when the last error was noted; at first no number of deaths.
static NOTED: AtomicU32 = AtomicU32::new(u32::MAX);
/// An error is being noted.
static NOTING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// In which function this thread raises an error by itself.
    static FUNCTION: Cell<Option<&'static CStr>> = const { Cell::new(None) };
}

/// Stands where errors pass by; in jobs where that is impossible the history says only that and when MPI knew.
pub fn watch() {
    let Some(library) = Library::loaded() else { return };
    // SAFETY: the type is that of errhandler.h.
    let stock = unsafe { library.function(INVOKE) };
    let Some(stock) = stock.filter(|_| STOCK.get().is_none()) else { return };
    let _ = STOCK.set(stock);
    // SAFETY: of the type of the function whose place it takes.
    unsafe { library.redirect(INVOKE, invoke as *const _) };
}

/// MPI has been told of a death.
pub fn somebody_died() {
    DEATHS.fetch_add(1, Ordering::Relaxed);
}

/// Calls the error handler of a communicator, as one of MPI's functions does.
pub fn raise(comm: Object, code: c_int, function: &'static CStr) {
    FUNCTION.set(Some(function));
    openmpi::raise(c"PMPI_Comm_call_errhandler", comm, code);
    FUNCTION.set(None);
}

/// Leaves nothing to be dropped behind: handlers of programs may not return.
unsafe extern "C-unwind" fn invoke(
    handler: *mut c_void,
    object: *mut c_void,
    kind: c_int,
    code: c_int,
    function: *const c_char,
) -> c_int {
    let Some(stock) = STOCK.get() else { return code };
    let function = FUNCTION.take().map_or(function, CStr::as_ptr);
    let _ = std::panic::catch_unwind(|| note(code, function));
    // SAFETY: Open MPI's own function with the arguments that were meant for it.
    unsafe { stock(handler, object, kind, code, function) }
}

fn note(code: c_int, function: *const c_char) {
    let Some((_, class)) = CLASSES.iter().find(|(known, _)| *known == code) else { return };
    let deaths = DEATHS.load(Ordering::Relaxed);
    if NOTED.load(Ordering::Relaxed) == deaths || NOTING.swap(true, Ordering::Acquire) {
        return;
    }
    NOTED.store(deaths, Ordering::Relaxed);
    if let Some(rank) = RANK.get() {
        // SAFETY: Open MPI passes the name of its function, or nothing.
        let function = if function.is_null() { c"" } else { unsafe { CStr::from_ptr(function) } };
        rank.segment.note_error(rank.slot, class, function.to_str().unwrap_or_default(), clock::now());
    }
    NOTING.store(false, Ordering::Release);
}
