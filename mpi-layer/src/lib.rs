//! Runs ringwatch's component in each rank of a fault-tolerant job.
//!
//! It registers the process with the node's `ringwatchd`, reads the node's failure log from MPI's progress loop (one
//! relaxed load if there is no news) and reports deaths to Open MPI, about 0.1 ms after the log entry. It starts no
//! thread and opens no socket. If the log is absent, the runtime daemon's PMIx events report deaths instead, later.
//!
//! It gives communicators an error scope and uniform errors. It sets the defaults without which recovery hangs on stock
//! Open MPI, and never overrides a value that was set explicitly.

mod agreement;
mod cid;
mod component;
mod constructors;
mod failure;
mod features;
mod in_front;
mod mca_defaults;
mod messages;
mod needless_messages;
mod onesided;
mod properties;
mod recovery;
mod uniform;

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;

use in_front::guard;
use onesided::{file, win_and_file, window};
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::layout::status::OPAL_ERR_NOT_AVAILABLE;
use properties::communicators;

/// Status of Open MPI's component functions.
const SUCCESS: c_int = 0;

/// The status of a component that is used, or not.
fn status(is_used: bool) -> c_int {
    if is_used { SUCCESS } else { OPAL_ERR_NOT_AVAILABLE }
}

/// `open` of the hook component: in `MPI_Init`, before any other part of MPI is set up.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_open() -> c_int {
    guard(SUCCESS, || {
        let is_used = is_whole() && component::is_chosen() && component::open();
        if is_used {
            stay_loaded();
        }
        status(is_used)
    })
}

/// `init_query` of the coll component: all collective components are known, and no communicator exists.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_collectives_found() -> c_int {
    guard(SUCCESS, || status(component::collectives_found()))
}

/// `register` of the coll component. A tool that lists parameters calls it, too.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_register() -> c_int {
    guard(SUCCESS, || {
        communicators::register_parameters((&raw const mca_coll_ringwatch_component).cast());
        SUCCESS
    })
}

/// `register` of the hook component.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_register_recovery() -> c_int {
    guard(SUCCESS, || {
        recovery::register_parameters((&raw const mca_hook_ringwatch_component).cast());
        SUCCESS
    })
}

/// `comm_query` of the coll component: a communicator is being made. Returns a module for it, or null.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_communicator(handle: *mut c_void) -> *mut c_void {
    let created =
        || if component::is_served() { component::communicator_created(handle) } else { std::ptr::null_mut() };
    guard(std::ptr::null_mut(), created)
}

/// `init` of the osc and io components.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_is_served() -> c_int {
    status(component::is_served())
}

/// `query` of the osc component: whether it can make a window.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_wants_window(_window: *mut c_void, _comm: *mut c_void) -> bool {
    win_and_file::is_possible()
}

/// `select` of the osc component: makes a window.
///
/// # Safety
/// Arguments of Open MPI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_rank_make_window(
    window: *mut c_void,
    memory: *mut *mut c_void,
    size: usize,
    unit: c_int,
    comm: *mut c_void,
    flavor: c_int,
    model: *mut c_int,
) -> c_int {
    let plan = window::Plan { memory, size, unit, flavor, model };
    guard(ERR_INTERN, || window::make(window, comm, plan))
}

/// `file_query` of the io component: whether it can open a file.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_wants_file(_file: *mut c_void) -> bool {
    win_and_file::is_possible()
}

/// `file_open` of the io component's module: opens a file; `own_open` is the function of the module.
///
/// # Safety
/// Arguments of Open MPI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_rank_open_file(file: *mut c_void, comm: *mut c_void, own_open: *mut c_void) -> c_int {
    static FIRST: Once = Once::new();
    let open = || {
        FIRST.call_once(component::file_opened);
        file::open(file, comm, own_open)
    };
    guard(ERR_INTERN, open)
}

/// End of `MPI_Init`.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_init_done() {
    guard((), component::init_done);
}

/// Start of `MPI_Finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_finalize_begins() {
    guard((), component::finalize_begins);
}

/// `close` of the hook component, when `MPI_Finalize` has synchronised all ranks and tears the library down; or the end
/// of an `MPI_Finalize` that a failure has cut short.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_close() -> c_int {
    guard(SUCCESS, || {
        component::close();
        SUCCESS
    })
}

/// Keeps this library loaded: Open MPI unloads components before its last progress call.
fn stay_loaded() {
    if let Some(name) = own_name() {
        // SAFETY: raises this library's own reference count permanently.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
    }
}

/// The name by which this library was loaded.
fn own_name() -> Option<&'static CStr> {
    // SAFETY: looks up the object that contains this function; its name lives as long as it is loaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let is_known = libc::dladdr(rw_rank_open as *const libc::c_void, &mut info) != 0 && !info.dli_fname.is_null();
        is_known.then(|| CStr::from_ptr(info.dli_fname))
    }
}

/// Whether Open MPI finds all of ringwatch's components in this library. An incomplete installation, such as a copy
/// without its links, would change some of this rank's defaults and not others.
fn is_whole() -> bool {
    let Some(own) = own_name().map(|name| Path::new(OsStr::from_bytes(name.to_bytes()))) else { return true };
    let number = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let is_here = |framework| number(&own.with_file_name(format!("mca_{framework}_ringwatch.so"))) == number(own);
    ["coll", "osc", "io"].into_iter().all(is_here)
}

/// The component `hook/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_hook_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `coll/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_coll_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `osc/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_osc_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `io/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_io_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// Makes the linker take the tables out of the archive of C shims.
#[used]
static TABLES: TablesReference = TablesReference(&raw const c_shims::ompi::rw_ompi_tables);

struct TablesReference(#[allow(dead_code, reason = "only its presence matters")] *const c_int);

// SAFETY: never dereferenced.
unsafe impl Sync for TablesReference {}
