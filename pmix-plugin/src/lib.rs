//! The PMIx components of ringwatch in prterun and prted.
//!
//! `psensor/ringwatch` registers the parameters and hears of lost clients; `pnet/ringwatch` carries the launch data
//! from prterun to every node and hears of the end of a job. Both tables are in `c-shims`; this crate is what they call.
//!
//! In a job that did not ask for fault tolerance, and in every process that is no runtime daemon of such a job, the
//! components do nothing: no thread, no process, no descriptor.

mod connections;
mod environment;
mod job;
mod meetings;
mod network;
mod parameters;
mod refusal;
mod releases;
mod spawned;
mod supervisor;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use connections::Tell;
use rdma_heartbeat::logging::say;

/// `PMIX_SUCCESS`.
const SUCCESS: c_int = 0;
/// `PMIX_ERR_NOT_AVAILABLE`: the component asks to be closed without a word.
const NOT_AVAILABLE: c_int = -64;

/// Whether PMIx has opened `psensor/ringwatch`, which it does before it opens `pnet/ringwatch`.
static SENSOR_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Runs `body` so that no panic crosses into C.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        say("ringwatch: internal error; this process goes on without ringwatch");
        otherwise
    })
}

/// Registers the parameters; called in every process that opens the framework, `pmix_info` included.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_register() -> c_int {
    guarded(SUCCESS, || {
        parameters::register();
        SUCCESS
    })
}

/// Checks, in prterun of a fault-tolerant job, what the user asked for, before anything is launched.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_open() -> c_int {
    guarded(SUCCESS, || {
        SENSOR_IS_OPEN.store(true, Ordering::Relaxed);
        if let Err(problem) = environment::check_release() {
            if environment::is_launcher() && environment::wants_fault_tolerance() {
                say(&format!("ringwatch: {problem}; the job runs as without ringwatch"));
            }
            return NOT_AVAILABLE;
        }
        if environment::is_launcher() && environment::wants_fault_tolerance() {
            let settings = parameters::settings().map_err(|invalid| invalid.to_string());
            let usable = settings.and_then(|all| {
                if all.enable && !environment::has_net_component() {
                    return Err(half("pnet", "psensor"));
                }
                job::check(&all)?;
                job::before_the_daemons(&all);
                Ok(())
            });
            if let Err(problem) = usable {
                refuse(&problem);
            }
        }
        SUCCESS
    })
}

/// Opens the other component, after the first one.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_open_net() -> c_int {
    guarded(SUCCESS, || {
        if environment::check_release().is_err() {
            return NOT_AVAILABLE;
        }
        if !sensor_is_open() && environment::is_launcher() && environment::wants_fault_tolerance() {
            refuse(&half("psensor", "pnet"));
        }
        SUCCESS
    })
}

/// Whether this process has both components.
fn sensor_is_open() -> bool {
    SENSOR_IS_OPEN.load(Ordering::Relaxed)
}

/// One of the two components is left out.
fn half(missing: &str, present: &str) -> String {
    format!(
        "the component {missing}/ringwatch is left out (parameter {missing}), without which {present}/ringwatch cannot work: leave out both of them, or none"
    )
}

/// Ends prterun before it has launched anything.
fn refuse(problem: &str) {
    say(&format!("ringwatch: {problem}; nothing was launched"));
    environment::remove_session_folder();
    std::process::exit(environment::LAUNCH_REFUSED);
}

/// The runtime daemon is about to end.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_close() -> c_int {
    guarded(SUCCESS, || {
        job::runtime_ends();
        SUCCESS
    })
}

/// prterun launches a job: hands out the launch data for every node, or nothing if the job is none of ours.
///
/// # Safety
/// `nspace` is a terminated string; `bytes` and `length` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_launch(nspace: *const c_char, bytes: *mut *mut u8, length: *mut usize) -> c_int {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(SUCCESS, || match job::launch(nspace) {
        Ok(Some(data)) => {
            let data = data.into_boxed_slice();
            // SAFETY: as required of the caller; freed by `rw_plugin_launch_free`.
            unsafe {
                *length = data.len();
                *bytes = Box::into_raw(data).cast();
            }
            SUCCESS
        }
        Ok(None) => SUCCESS,
        Err(problem) => {
            say(&format!("ringwatch: {problem}; the job runs as without ringwatch"));
            SUCCESS
        }
    })
}

/// Frees what [`rw_plugin_launch`] handed out.
///
/// # Safety
/// The arguments come from one call of [`rw_plugin_launch`] and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_launch_free(bytes: *mut u8, length: usize) {
    // SAFETY: as required of the caller.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, length)) });
}

/// A daemon is about to start its ranks of a job: starts `ringwatchd` and completes the ranks' environment.
///
/// # Safety
/// `nspace` is a terminated string, `bytes` points to `length` bytes, `environment` is PMIx's list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_local(
    nspace: *const c_char,
    bytes: *const u8,
    length: usize,
    environment: *mut c_void,
) -> c_int {
    // SAFETY: as required of the caller.
    let (nspace, bytes) = unsafe { (CStr::from_ptr(nspace), std::slice::from_raw_parts(bytes, length)) };
    guarded(SUCCESS, || {
        match job::start(nspace, bytes) {
            Ok(variables) => {
                for (name, value) in variables {
                    // SAFETY: PMIx's list, in PMIx's thread, with terminated strings that it copies.
                    unsafe { c_shims::pmix::rw_pmix_environment(environment, name.as_ptr(), value.as_ptr()) }
                }
            }
            Err(problem) => say(&format!("ringwatch: {problem}; this node goes on without ringwatch")),
        }
        SUCCESS
    })
}

/// Every process of a job has ended.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_job_done(nspace: *const c_char) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || job::finished(nspace));
}

/// A local client leaves in order: its connection is about to end.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_finalizes(nspace: *const c_char, rank: u32) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || job::client_finalizes(nspace, rank));
}

/// The connection of a local client has ended.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_gone(nspace: *const c_char, rank: u32, finalized: bool) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || job::client_gone(nspace, rank, finalized));
}

/// A local client has told the others how to be reached: in `MPI_Init` it has opened Open MPI's components before.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_has_committed(nspace: *const c_char, rank: u32) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || job::client_is_known(nspace, rank));
}

/// Processes of several namespaces are to be connected.
///
/// # Safety
/// `processes` points to `count` of PMIx's; `tell` may be called once with `data`, until [`rw_plugin_connected`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_connecting(
    id: *const c_void,
    processes: *const connections::Process,
    count: usize,
    tell: connections::TellConnected,
    data: *mut c_void,
) {
    // SAFETY: as required of the caller.
    let processes = unsafe { std::slice::from_raw_parts(processes, count) };
    guarded((), || {
        meetings::gather(processes);
        connections::begin(id as usize, processes.to_vec(), Tell::Connected(tell), data);
    });
}

/// A process waits for what another one is to publish under this key.
///
/// # Safety
/// `process` is one of PMIx's and `key` a terminated string; `tell` may be called once with `data`, until [`rw_plugin_connected`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_looking_up(
    id: *const c_void,
    process: *const connections::Process,
    key: *const c_char,
    tell: connections::TellFound,
    data: *mut c_void,
) {
    // SAFETY: as required of the caller.
    let (process, key) = unsafe { (&*process, CStr::from_ptr(key)) };
    guarded((), || {
        let mut awaited = key.to_str().map(|key| meetings::join(process, key)).unwrap_or_default();
        awaited.extend(job::publisher(key));
        connections::begin(id as usize, awaited, Tell::Found(tell), data);
    });
}

/// A process gets what another one has published under this key.
///
/// # Safety
/// `process` is one of PMIx's, `key` and `text` are terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_found(
    process: *const connections::Process,
    key: *const c_char,
    text: *const c_char,
) {
    // SAFETY: as required of the caller.
    let (process, key, text) = unsafe { (&*process, CStr::from_ptr(key), CStr::from_ptr(text)) };
    guarded((), || {
        if let (Ok(key), Ok(text)) = (key.to_str(), text.to_str()) {
            meetings::hear(process, key, text);
        }
    });
}

/// The runtime has an answer for those who wait; returns whether they are still to be told.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_connected(id: *const c_void) -> bool {
    guarded(true, || connections::end(id as usize))
}

/// Whether a connection has to wait until this node has heard of all the jobs whose processes are to be connected. It is
/// carried on later then ([`c_shims::pmix::rw_pmix_connect`]).
///
/// # Safety
/// `processes` points to `count` of PMIx's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_postpones(
    id: *const c_void,
    processes: *const connections::Process,
    count: usize,
) -> bool {
    // SAFETY: as required of the caller.
    let processes = unsafe { std::slice::from_raw_parts(processes, count) };
    guarded(false, || job::postpones(id as usize, processes))
}

/// Somebody has begun to wait in the runtime for processes of which some may be dead.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_look_at_connections() {
    guarded((), job::look_at_connections);
}

/// Whether one of these processes is known to be dead.
///
/// # Safety
/// `processes` points to `count` of PMIx's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_has_dead(processes: *const connections::Process, count: usize) -> bool {
    // SAFETY: as required of the caller.
    let processes = unsafe { std::slice::from_raw_parts(processes, count) };
    guarded(false, || job::has_dead(processes))
}

/// Whether a process has ended, so that this node cannot answer for it any more.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_has_ended(nspace: *const c_char, rank: u32) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::has_ended(nspace, rank))
}

/// PRRTE is about to act on the error or the end of a process; returns whether it still should. In PRRTE's own thread.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_proc_state(nspace: *const c_char, rank: u32, state: u32) -> c_int {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(c_shims::prte::CALL_STOCK, || {
        if job::process_state(nspace, rank, state) { c_shims::prte::HANDLED } else { c_shims::prte::CALL_STOCK }
    })
}

/// PRRTE could not write to the socket of another daemon; returns whether it still should act on it. In PRRTE's own
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_send_failed() -> c_int {
    guarded(c_shims::prte::CALL_STOCK, || {
        if job::send_failed() { c_shims::prte::HANDLED } else { c_shims::prte::CALL_STOCK }
    })
}

/// The component `psensor/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static pmix_mca_psensor_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `pnet/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static pmix_mca_pnet_ringwatch_component: c_shims::Table = c_shims::Table::empty();
