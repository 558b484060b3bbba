//! Implements ringwatch's PMIx components in prterun and prted.
//!
//! `psensor/ringwatch` registers the parameters and observes lost clients. `pnet/ringwatch` carries the launch data
//! from prterun to every node and observes the end of a job. Both tables are in `c-shims`; their functions are in this
//! crate.
//!
//! Without fault tolerance, and in processes other than the job's runtime daemons, the components do nothing: no
//! thread, no process, no descriptor.

mod component;
mod components;
mod connections;
mod environment;
mod errands;
mod job;
mod link;
mod losses;
mod meetings;
mod needless_messages;
mod network;
mod nodes;
mod output;
mod parameters;
mod port;
mod preparation;
mod processes;
mod refusal;
mod releases;
mod runtimes;
mod slurm;
mod spawned;
mod strangers;
mod supervisor;
mod sync;
mod unserved;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use connections::Tell;
use platform::say::say;
use prte_hooks::Postponed;

/// `PMIX_SUCCESS`.
const SUCCESS: c_int = 0;
/// `PMIX_ERR_NOT_AVAILABLE`: the component asks to be closed silently.
const NOT_AVAILABLE: c_int = -64;

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

/// Checks the user's settings in prterun of a fault-tolerant job, before any launch.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_open() -> c_int {
    guarded(SUCCESS, || {
        component::sensor_opens();
        if let Err(problem) = environment::check_release() {
            if environment::is_launcher() && environment::wants_fault_tolerance() {
                say(&format!("ringwatch: {problem}; the job runs as without ringwatch"));
            }
            return NOT_AVAILABLE;
        }
        if environment::is_launcher() && environment::wants_fault_tolerance() {
            let settings = parameters::settings().map_err(|invalid| invalid.to_string());
            let usable = settings.and_then(|all| {
                parameters::check_names()?;
                if all.enable && !environment::has_net_component() {
                    return Err(half("pnet", "psensor"));
                }
                component::check(&all)?;
                component::before_the_daemons(&all);
                Ok(())
            });
            if let Err(problem) = usable {
                refuse(&problem);
            }
        } else if environment::is_prted() && environment::is_to_report() {
            component::before_the_port();
        }
        SUCCESS
    })
}

/// Opens the pnet component, after the psensor component.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_open_net() -> c_int {
    guarded(SUCCESS, || {
        if environment::check_release().is_err() {
            return NOT_AVAILABLE;
        }
        if !component::sensor_is_open() && environment::is_launcher() && environment::wants_fault_tolerance() {
            refuse(&half("psensor", "pnet"));
        }
        SUCCESS
    })
}

/// The message that one of the two components is excluded.
fn half(missing: &str, present: &str) -> String {
    format!(
        "the component {missing}/ringwatch is left out (parameter {missing}), without which {present}/ringwatch cannot work: leave out both of them, or none"
    )
}

/// Ends prterun before any launch.
fn refuse(problem: &str) {
    say(&format!("ringwatch: {problem}; nothing was launched"));
    environment::remove_session_folder();
    std::process::exit(environment::LAUNCH_REFUSED);
}

/// Handles the end of the runtime daemon.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_close() -> c_int {
    guarded(SUCCESS, || {
        component::runtime_ends();
        SUCCESS
    })
}

/// Launches a job in prterun: returns the launch data for every node, or nothing if ringwatch does not serve the job.
///
/// # Safety
/// `nspace` is a terminated string; `bytes` and `length` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_launch(nspace: *const c_char, bytes: *mut *mut u8, length: *mut usize) -> c_int {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(SUCCESS, || match component::launch(nspace) {
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

/// Frees the launch data of [`rw_plugin_launch`].
///
/// # Safety
/// The arguments come from one call of [`rw_plugin_launch`] and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_launch_free(bytes: *mut u8, length: usize) {
    // SAFETY: as required of the caller.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, length)) });
}

/// Handles the start of a daemon other than prterun, before it reports to prterun.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_daemon_reports() {
    guarded((), || {
        if environment::is_prted() && environment::is_to_report() {
            component::report_plugin();
        }
    });
}

/// Handles a fence that all processes of this node have entered; returns whether it is held.
/// [`c_shims::pmix::rw_pmix_fence`] continues it later.
///
/// # Safety
/// `processes` points to `count` of PMIx's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_holds_fence(
    id: *const c_void,
    processes: *const connections::Process,
    count: usize,
) -> bool {
    if processes.is_null() {
        return false;
    }
    // SAFETY: as required of the caller.
    let processes = unsafe { std::slice::from_raw_parts(processes, count) };
    guarded(false, || component::holds_fence(id as usize, processes))
}

/// Handles a message of a daemon's plugin. In PRRTE's own thread.
///
/// # Safety
/// `bytes` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_told(daemon: u32, bytes: *const u8, length: usize) {
    if bytes.is_null() {
        return;
    }
    // SAFETY: as required of the caller.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    guarded((), || component::told(daemon, bytes));
}

/// Handles a daemon that is about to start ranks of a job: starts `ringwatchd` and completes the ranks' environment.
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
        if !environment::is_runtime_daemon() {
            return SUCCESS;
        }
        match component::start(nspace, bytes) {
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

/// Handles the end of all processes of a job.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_job_done(nspace: *const c_char) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || component::finished(nspace));
}

/// Handles a connection to PMIx's port; returns whether PMIx may use it.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_admits(descriptor: c_int) -> bool {
    // SAFETY: PMIx keeps the connection open during the call.
    let connection = unsafe { BorrowedFd::borrow_raw(descriptor) };
    guarded(false, || strangers::admits(connection))
}

/// Notes that a local client finalizes: its connection is about to end.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_finalizes(nspace: *const c_char, rank: u32) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || processes::client_finalizes(nspace, rank));
}

/// Handles a local client's call of `PMIx_Abort`; returns whether the runtime has been told.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_aborts(nspace: *const c_char, rank: u32) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || processes::client_aborts(nspace, rank))
}

/// Handles the end of a local client's connection.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_gone(nspace: *const c_char, rank: u32, finalized: bool) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || processes::client_gone(nspace, rank, finalized));
}

/// Notes that a local client has published its addresses. In `MPI_Init` it has opened Open MPI's components before.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_client_has_committed(nspace: *const c_char, rank: u32) {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded((), || processes::client_is_known(nspace, rank));
}

/// Handles processes of several namespaces that are to be connected.
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

/// Handles a process that waits for data that another one publishes under this key.
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
        awaited.extend(component::publisher(key));
        connections::begin(id as usize, awaited, Tell::Found(tell), data);
    });
}

/// Handles data published under this key that a process receives.
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

/// Handles the runtime's answer to waiting processes; returns whether they still wait for it.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_connected(id: *const c_void) -> bool {
    guarded(true, || connections::end(id as usize))
}

/// Whether a connection must wait until this node knows all jobs of its processes. [`c_shims::pmix::rw_pmix_connect`]
/// continues it then.
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
    guarded(false, || component::postpones(id as usize, processes))
}

/// Ends waits in the runtime for processes that may be dead.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_look_at_connections() {
    guarded((), component::look_at_connections);
}

/// Whether one of these processes is known to be dead.
///
/// # Safety
/// `processes` points to `count` of PMIx's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_has_dead(processes: *const connections::Process, count: usize) -> bool {
    // SAFETY: as required of the caller.
    let processes = unsafe { std::slice::from_raw_parts(processes, count) };
    guarded(false, || component::has_dead(processes))
}

/// Whether a process has ended, so that this node cannot answer requests for it.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_has_ended(nspace: *const c_char, rank: u32) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::revival::has_ended(nspace, rank))
}

/// Handles a request for the address of a process of a job that PMIx does not know; returns whether it waits. In PMIx's
/// own thread.
///
/// # Safety
/// `nspace` is a terminated string; `callback` and `data` are PMIx's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_awaits_revival(
    nspace: *const c_char,
    callback: *mut c_void,
    data: *mut c_void,
) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::revival::awaits_revival(nspace, callback as usize, data as usize))
}

/// Handles the error or the end of a process before PRRTE does; returns whether PRRTE still should. In PRRTE's own
/// thread.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_proc_state(nspace: *const c_char, rank: u32, state: u32) -> c_int {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(c_shims::prte::CALL_STOCK, || {
        if processes::process_state(nspace, rank, state) { c_shims::prte::HANDLED } else { c_shims::prte::CALL_STOCK }
    })
}

/// Handles PRRTE's failed write to another daemon's socket; returns whether PRRTE still should. In PRRTE's own thread.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_send_failed() -> c_int {
    guarded(c_shims::prte::CALL_STOCK, || {
        if processes::send_failed() { c_shims::prte::HANDLED } else { c_shims::prte::CALL_STOCK }
    })
}

/// Handles a job before PRRTE maps it; returns whether it must wait for [`prte_hooks::Runtime::resume`]. In PRRTE's own
/// thread.
///
/// # Safety
/// `nspace` is a terminated string; `caddy` is PRRTE's and stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_postpones_map(nspace: *const c_char, caddy: *mut c_void) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::mapping::postpones(nspace, Postponed::new(caddy)))
}

/// Handles a job that PRRTE has mapped; returns whether it must fail. In PRRTE's own thread.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_refuses(nspace: *const c_char) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::mapping::refuses(nspace))
}

/// Handles the failure of a job before PRRTE does; returns its kind (`c_shims::prte::JOB_FAILED` and the following). In
/// PRRTE's own thread.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_job_failed(nspace: *const c_char, state: c_int) -> c_int {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(c_shims::prte::JOB_FAILED, || job::mapping::failed(nspace, state))
}

/// Handles the end of all processes of a job; returns whether the job's end must wait for
/// [`prte_hooks::Runtime::resume`]. In PRRTE's own thread.
///
/// # Safety
/// `nspace` is a terminated string; `caddy` is PRRTE's and stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_awaits_output(nspace: *const c_char, caddy: *mut c_void) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::ending::awaits_output(nspace, Postponed::new(caddy)))
}

/// Whether the job goes on though PRRTE takes all of its other daemons for ended. In PRRTE's own thread.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_goes_on() -> bool {
    guarded(false, job::ending::goes_on)
}

/// Handles a possible end of a job's last process on this node; returns whether PRRTE must keep the job. In PRRTE's own
/// thread.
///
/// # Safety
/// `nspace` is a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_plugin_keeps_job(nspace: *const c_char) -> bool {
    // SAFETY: as required of the caller.
    let nspace = unsafe { CStr::from_ptr(nspace) };
    guarded(false, || job::revival::keeps(nspace))
}

/// Number of ranks that this node knows to be dead.
#[unsafe(no_mangle)]
pub extern "C" fn rw_plugin_known_dead() -> u32 {
    guarded(0, job::mapping::known_dead)
}

/// The component `psensor/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static pmix_mca_psensor_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `pnet/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static pmix_mca_pnet_ringwatch_component: c_shims::Table = c_shims::Table::empty();
