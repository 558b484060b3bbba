//! Implements [`Runtime`] for PRRTE 3.0, the runtime of Open MPI 5.0.
//!
//! PRRTE's own reaction to a lost daemon is to end everything with exit status 0 (`errmgr_dvm.c`). ringwatch reports
//! the daemon's ranks as ended, removes the daemon from the routing tree, and everything else continues.

use std::ffi::{CStr, CString, c_int, c_void};

use c_shims::prte;

use crate::runtime::{Doorkeeper, OutputFilter, Postponed, ProcessEvent, Runtime, Unsupported};
use crate::{groups, output, port, symbols};

/// States of `plm_types.h`, the same in every 3.0 release.
mod state {
    pub const TERMINATED: u32 = 20;
    pub const KILLED_BY_COMMAND: u32 = 51;
    pub const ABORTED: u32 = 52;
    pub const FAILED_TO_START: u32 = 53;
    pub const ABORTED_BY_SIGNAL: u32 = 54;
    pub const TERM_WITHOUT_SYNC: u32 = 55;
    pub const COMM_FAILED: u32 = 56;
    pub const CALLED_ABORT: u32 = 58;
    pub const HEARTBEAT_FAILED: u32 = 59;
    pub const TERM_NON_ZERO: u32 = 62;
    pub const UNABLE_TO_SEND: u32 = 64;
    pub const NO_PATH: u32 = 66;
    pub const FAILED_TO_CONNECT: u32 = 67;
    /// `PRTE_JOB_STATE_FORCED_EXIT`
    pub const JOB_FORCED_EXIT: c_int = 64;
    /// `PRTE_JOB_STATE_ABORT_ORDERED`
    pub const JOB_ABORT_ORDERED: c_int = 61;
    /// `PRTE_JOB_STATE_` `FAILED_TO_START`, `NEVER_LAUNCHED`, `FAILED_TO_LAUNCH`, `ALLOC_FAILED`, `MAP_FAILED`,
    /// `CANNOT_LAUNCH` and `FILES_POSN_FAILED`
    pub const JOB_NEVER_RAN: [c_int; 7] = [53, 60, 63, 68, 69, 70, 71];
    use std::ffi::c_int;
}

/// `PMIX_RANK_INVALID` as a signed integer.
const INVALID: c_int = -1;
/// `PRTE_ERR_TIMEOUT`, the exit status when the job's time limit (`--timeout`) has passed.
const TIME_LIMIT: c_int = -15;

/// Maximum number of daemons that PRRTE connects directly with prterun unless the user sets it. Other daemons are
/// reached through those, and are lost with them.
const FANOUT: u16 = 64;
/// Maximum number of concurrent remote shells of PRRTE unless the user sets it.
const CONCURRENT: u16 = 128;

/// The first release in whose jobs `c_shims` finds the ranks' launch environment.
const JOBS_KNOWN_SINCE: u32 = 5;

/// Addresses of libprrte's symbols that are used.
pub struct Prte3 {
    proc_states: *mut c_void,
    job_states: *mut c_void,
    messages: *mut c_void,
    send_message: *mut c_void,
    receive_message: *mut c_void,
    process_info: *const c_void,
    daemon_parameters: *mut c_void,
    environment: *mut c_void,
    /// `None` in releases with other structs.
    job: Option<*mut c_void>,
    /// `None` in releases with other structs.
    nodes: Option<Nodes>,
    daemon_of: *mut c_void,
    host_of: *mut c_void,
    activate_proc: *mut c_void,
    activate_job: unsafe extern "C" fn(*mut c_void, c_int),
    route_lost: unsafe extern "C" fn(u32) -> c_int,
    term_ordered: *const bool,
    abnormal_term: *const bool,
    finalizing: *const bool,
    abort_ordered: *const bool,
    exit_status: *mut c_int,
}

/// Addresses for PRRTE's accounts of its nodes.
#[derive(Clone, Copy)]
struct Nodes {
    pool: *mut c_void,
    jobs: *mut c_void,
    attributes: *mut c_void,
}

impl Nodes {
    fn find() -> Option<Self> {
        let [node, map, job, proc] =
            [c"prte_node_t_class", c"prte_job_map_t_class", c"prte_job_t_class", c"prte_proc_t_class"]
                .map(symbols::address);
        // SAFETY: the addresses of libprrte's own classes, which are constant once it is initialised.
        unsafe { prte::rw_prte3_knows_nodes(node?, map?, job?, proc?) }.then_some(())?;
        Some(Self {
            pool: symbols::address(c"prte_node_pool")?,
            jobs: symbols::address(c"prte_get_job_data_object")?,
            attributes: symbols::address(c"prte_get_attribute")?,
        })
    }
}

// SAFETY: addresses of functions and globals; the trait's documentation says which thread may use which.
unsafe impl Send for Prte3 {}
// SAFETY: as above.
unsafe impl Sync for Prte3 {}

impl Prte3 {
    /// Looks all symbols up, in release 3.0 with this last number.
    pub fn find(patch: u32) -> Result<Self, Unsupported> {
        let need = |name: &'static CStr| {
            symbols::address(name).ok_or(Unsupported::Missing(name.to_str().unwrap_or("a function")))
        };
        // SAFETY: the signatures of PRRTE 3.0's headers.
        unsafe {
            Ok(Self {
                proc_states: need(c"prte_proc_states")?,
                job_states: need(c"prte_job_states")?,
                messages: need(c"prte_rml_base")?,
                send_message: need(c"prte_rml_send_buffer_nb")?,
                receive_message: need(c"prte_rml_recv_buffer_nb")?,
                process_info: need(c"prte_process_info")?,
                daemon_parameters: need(c"prted_cmd_line")?,
                environment: need(c"prte_launch_environ")?,
                job: if patch >= JOBS_KNOWN_SINCE { Some(need(c"prte_get_job_data_object")?) } else { None },
                nodes: if patch >= JOBS_KNOWN_SINCE { Nodes::find() } else { None },
                daemon_of: need(c"prte_get_proc_daemon_vpid")?,
                host_of: need(c"prte_get_proc_hostname")?,
                activate_proc: need(c"prte_state_base_activate_proc_state")?,
                activate_job: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_int)>(need(
                    c"prte_state_base_activate_job_state",
                )?),
                route_lost: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32) -> c_int>(need(
                    c"prte_rml_route_lost",
                )?),
                term_ordered: need(c"prte_prteds_term_ordered")?.cast(),
                abnormal_term: need(c"prte_abnormal_term_ordered")?.cast(),
                finalizing: need(c"prte_finalizing")?.cast(),
                abort_ordered: need(c"prte_dvm_abort_ordered")?.cast(),
                exit_status: need(c"prte_exit_status")?.cast(),
            })
        }
    }
}

/// Maximum number of daemons below one in PRRTE's tree. Only in PRRTE's own thread.
fn branches() -> u32 {
    // SAFETY: terminated strings; the parameter is an `int` that does not change once the daemons are started.
    let branches = unsafe { prte::rw_prte3_number(c"rml".as_ptr(), c"base".as_ptr(), c"radix".as_ptr()) };
    u32::try_from(branches).unwrap_or(0)
}

/// The parent of a daemon in the tree (`prte_rml_compute_routing_tree`).
fn parent(daemon: u32, branches: u32) -> Option<u32> {
    let (daemon, branches) = (u64::from(daemon), u64::from(branches));
    if daemon == 0 || branches == 0 {
        return None;
    }
    // First daemons of a level and of its parent level.
    let (mut first, mut above, mut size) = (1, 0, branches);
    while daemon >= first + size {
        (above, first, size) = (first, first + size, size * branches);
    }
    u32::try_from(above + (daemon - first) % (first - above)).ok()
}

impl Runtime for Prte3 {
    fn daemons(&self) -> u32 {
        // SAFETY: the address of libprrte's own variable, read while PRRTE's thread waits.
        unsafe { prte::rw_prte3_num_daemons(self.process_info) }
    }

    fn daemon_of(&self, nspace: &CStr, rank: u32) -> Option<u32> {
        // SAFETY: the function's own address.
        let daemon = unsafe { prte::rw_prte_daemon_of(self.daemon_of, nspace.as_ptr(), rank) };
        if daemon == INVALID { None } else { u32::try_from(daemon).ok() }
    }

    fn host_of(&self, nspace: &CStr, rank: u32) -> Option<String> {
        // SAFETY: the function's own address; the string is PRRTE's and lives while its thread waits.
        unsafe {
            let host = prte::rw_prte_hostname(self.host_of, nspace.as_ptr(), rank);
            (!host.is_null()).then(|| CStr::from_ptr(host).to_string_lossy().into_owned())
        }
    }

    fn job_variable(&self, nspace: &CStr, name: &CStr) -> Option<String> {
        let job = self.job?;
        // SAFETY: the function's own address, in a release with such jobs; the string is PRRTE's, and is copied while
        // its thread waits.
        unsafe {
            let value = prte::rw_prte3_job_variable(job, nspace.as_ptr(), name.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }

    fn watch_processes(&self) -> bool {
        let jobs = self.nodes.map_or(std::ptr::null_mut(), |nodes| nodes.jobs);
        // SAFETY: PRRTE's thread waits for the caller, so no code traverses the lists; the function's own address or
        // null.
        unsafe { prte::rw_prte3_wrap(self.proc_states, self.job_states, jobs) }
    }

    fn answer_for_the_ended(&self) {
        // SAFETY: as above.
        unsafe { prte::rw_prte3_answer_for_the_ended(self.messages, self.send_message) }
    }

    fn survive_failures(&self) -> Vec<String> {
        let switch_on = |name: &&CStr| {
            // SAFETY: a terminated string; PRRTE's thread, which alone reads the parameters, waits for the caller.
            unsafe { prte::rw_prte3_switch_on(c"state".as_ptr(), name.as_ptr()) }
        };
        let changed = [c"recoverable", c"notify_errors"].into_iter().filter(switch_on);
        changed.map(|name| format!("state_base_{}=true", name.to_string_lossy())).collect()
    }

    fn daemons_start_ranks_in_order(&self) {
        // SAFETY: the address of libprrte's own word list, which its waiting thread reads when it starts daemons. The
        // user's settings precede it in their command line, and take effect (`plm_base_launch_support.c`).
        unsafe {
            prte::rw_prte3_tell_daemons(self.daemon_parameters, c"odls_base_max_threads".as_ptr(), c"0".as_ptr())
        };
    }

    fn connect_daemons_directly(&self, most: u16) -> Vec<String> {
        let Ok(words) = CString::new(most.to_string()) else { return Vec::new() };
        if most <= FANOUT {
            return Vec::new();
        }
        let set = |framework: &CStr, component: &CStr, name: &CStr, value: u16| {
            // SAFETY: terminated strings; the parameters are of type `int`; PRRTE's thread reads them when it starts
            // daemons, and waits for the caller.
            unsafe {
                let (framework, component) = (framework.as_ptr(), component.as_ptr());
                prte::rw_prte3_set_number(framework, component, name.as_ptr(), c_int::from(value))
            }
        };
        // A remote shell ends with its daemon. If fewer shells may run than daemons are connected directly, the
        // remaining daemons are never started (`launch_daemons` in `plm_ssh_module.c`).
        let shells = most.max(CONCURRENT);
        if !set(c"rml", c"base", c"radix", most) {
            return Vec::new();
        }
        // SAFETY: as in `daemons_start_ranks_in_order`; each daemon computes the tree from its own parameter, which
        // must be equal (`routed_radix.c`).
        let told = set(c"plm", c"ssh", c"num_concurrent", shells)
            && unsafe {
                prte::rw_prte3_tell_daemons(self.daemon_parameters, c"rml_base_radix".as_ptr(), words.as_ptr())
            };
        if !told {
            set(c"rml", c"base", c"radix", FANOUT);
            return Vec::new();
        }
        let more_shells = (shells > CONCURRENT).then(|| format!("plm_ssh_num_concurrent={shells}"));
        Some(format!("rml_base_radix={most}")).into_iter().chain(more_shells).collect()
    }

    fn starts_ranks_in_order(&self) -> Option<String> {
        // SAFETY: terminated strings; the parameter is an `int`, which PRRTE's waiting thread reads when it starts its
        // first rank.
        let changed =
            unsafe { prte::rw_prte3_set_number(c"odls".as_ptr(), c"base".as_ptr(), c"max_threads".as_ptr(), 0) };
        changed.then(|| "odls_base_max_threads=0".into())
    }

    fn give_ranks(&self, name: &CStr, value: &CStr) -> bool {
        // SAFETY: the address of libprrte's own array, which its waiting thread copies for each rank before it adds the
        // user's variables (`odls_base_default_fns.c`).
        unsafe { prte::rw_prte3_give_ranks(self.environment, name.as_ptr(), value.as_ptr()) }
    }

    fn starts_shells_quietly(&self) {
        groups::begin_quietly(self.daemon_of);
    }

    fn tell_daemons(&self, parameter: &CStr, value: &CStr) {
        // SAFETY: as in `daemons_start_ranks_in_order`.
        unsafe { prte::rw_prte3_tell_daemons(self.daemon_parameters, parameter.as_ptr(), value.as_ptr()) };
    }

    fn listen(&self) {
        // SAFETY: the function's own address; only queues an event.
        unsafe { prte::rw_prte3_listen(self.receive_message) }
    }

    fn tell(&self, daemon: u32, bytes: &[u8]) {
        // SAFETY: the function's own address; the bytes are copied.
        unsafe { prte::rw_prte3_tell(self.send_message, daemon, bytes.as_ptr(), bytes.len()) };
    }

    fn keep_port(&self, keeper: &'static dyn Doorkeeper) -> bool {
        port::keep(self.daemon_of, keeper)
    }

    fn filter_output(&self, filter: &'static dyn OutputFilter) -> bool {
        output::filter(self.daemon_of, filter)
    }

    fn clear_port(&self, keeps: &dyn Fn(u32) -> bool) {
        port::clear(keeps);
    }

    fn is_star(&self) -> bool {
        self.daemons() <= branches().saturating_add(1)
    }

    fn may_connect(&self, daemon: u32, with: u32) -> bool {
        let are_beside = || parent(daemon, branches()) == Some(with) || parent(with, branches()) == Some(daemon);
        // In the beginning each connects with prterun, while it does not know any other daemon.
        daemon < self.daemons() && with < self.daemons() && daemon != with && (with == 0 || are_beside())
    }

    fn classify(&self, state: u32) -> ProcessEvent {
        match state {
            state::COMM_FAILED
            | state::HEARTBEAT_FAILED
            | state::UNABLE_TO_SEND
            | state::NO_PATH
            | state::FAILED_TO_CONNECT
            | state::FAILED_TO_START => ProcessEvent::DaemonLost,
            state::TERM_NON_ZERO => ProcessEvent::NonZeroExit,
            state::CALLED_ABORT => ProcessEvent::Abort,
            state::KILLED_BY_COMMAND | state::ABORTED | state::ABORTED_BY_SIGNAL | state::TERM_WITHOUT_SYNC => {
                ProcessEvent::Abnormal
            }
            state::TERMINATED => ProcessEvent::Ended,
            _ => ProcessEvent::Other,
        }
    }

    fn never_ran(&self, state: c_int) -> bool {
        state::JOB_NEVER_RAN.contains(&state)
    }

    fn ending(&self) -> bool {
        // SAFETY: libprrte's own flags, one byte each, which only go from false to true.
        unsafe { *self.term_ordered || *self.abnormal_term || *self.finalizing }
    }

    fn finalizing(&self) -> bool {
        // SAFETY: as above.
        unsafe { *self.finalizing }
    }

    fn ended_by_user(&self) -> bool {
        // SAFETY: as above.
        self.exit_status() == TIME_LIMIT || unsafe { *self.abort_ordered }
    }

    fn forget_daemon(&self, daemon: u32) {
        // SAFETY: in PRRTE's thread, which owns the tree.
        unsafe { (self.route_lost)(daemon) };
    }

    fn report_daemon_lost(&self, nspace: &CStr, daemon: u32) {
        // SAFETY: only queues an event, which PRRTE itself does from several threads.
        unsafe { prte::rw_prte_activate(self.activate_proc, nspace.as_ptr(), daemon, state::COMM_FAILED) }
    }

    fn report_rank_lost(&self, nspace: &CStr, rank: u32) {
        // SAFETY: as above.
        unsafe { prte::rw_prte_activate(self.activate_proc, nspace.as_ptr(), rank, state::TERM_WITHOUT_SYNC) }
    }

    fn report_abort(&self, nspace: &CStr, rank: u32) {
        // SAFETY: as above.
        unsafe { prte::rw_prte_activate(self.activate_proc, nspace.as_ptr(), rank, state::CALLED_ABORT) }
    }

    fn knows_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    fn keep_jobs(&self) {
        let functions = [c"prte_job_data", c"prte_pmix_server_register_nspace"].map(symbols::address);
        if let (Some(_), [Some(list), Some(tell_pmix)]) = (self.nodes, functions) {
            // SAFETY: the addresses of libprrte's own list and functions, in a release of known layout; its thread
            // waits for the caller.
            unsafe { prte::rw_prte3_keep_jobs(list, tell_pmix) }
        }
    }

    fn tell_pmix(&self, nspace: &CStr) -> bool {
        // SAFETY: in PRRTE's thread, which owns its jobs.
        unsafe { prte::rw_prte3_tell_pmix(nspace.as_ptr()) }
    }

    fn vacate(&self, nspace: &CStr, rank: u32) {
        if let Some(Nodes { jobs, attributes, .. }) = self.nodes {
            // SAFETY: the functions' own addresses, in a release of known layout; in PRRTE's thread, which owns the
            // accounts.
            unsafe { prte::rw_prte3_vacate(jobs, attributes, nspace.as_ptr(), rank) }
        }
    }

    fn lose_node(&self, daemon: u32) {
        if let Some(Nodes { pool, .. }) = self.nodes {
            // SAFETY: the address of libprrte's own list, in a release of known layout; in PRRTE's thread, which owns
            // it.
            unsafe { prte::rw_prte3_node_is_lost(pool, daemon) }
        }
    }

    fn resume(&self, Postponed(caddy): Postponed) {
        // SAFETY: only makes libevent call the postponed handler again; PRRTE uses it from several threads, too.
        unsafe { prte::rw_prte3_resume(caddy as *mut c_void) }
    }

    fn knows_jobs(&self) -> bool {
        self.nodes.is_some()
    }

    fn abort(&self, nspace: &CStr) {
        if self.nodes.is_some() {
            // SAFETY: the function's own address; in PRRTE's thread, which owns its jobs.
            unsafe { prte::rw_prte3_abort(self.activate_job as *mut c_void, nspace.as_ptr()) }
        }
    }

    fn call(&self) {
        // SAFETY: only queues an event. PRRTE itself calls its handler of errors without a job only when a message
        // could not be sent.
        unsafe { (self.activate_job)(std::ptr::null_mut(), state::JOB_ABORT_ORDERED) }
    }

    fn exit_status(&self) -> c_int {
        // SAFETY: libprrte's own variable.
        unsafe { *self.exit_status }
    }

    fn set_exit_status(&self, status: c_int) {
        // SAFETY: as above; PRRTE changes it only while it is zero.
        unsafe { *self.exit_status = status }
    }

    fn end_job(&self, status: c_int) {
        self.set_exit_status(status);
        // SAFETY: only queues an event; a null job means the whole virtual machine.
        unsafe { (self.activate_job)(std::ptr::null_mut(), state::JOB_FORCED_EXIT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_the_one_that_prrte_makes() {
        let parents = |branches, daemons| (0..daemons).map(|daemon| parent(daemon, branches)).collect::<Vec<_>>();
        assert_eq!(parents(1, 4), [None, Some(0), Some(1), Some(2)]);
        // `prte_rml_compute_routing_tree` and `radix_tree` by hand: 1 and 2 below 0, 3 and 5 below 1, 4 and 6 below 2.
        let two = [None, Some(0), Some(0), Some(1), Some(2), Some(1), Some(2), Some(3), Some(4), Some(5)];
        assert_eq!(parents(2, 10), two);
        assert_eq!(parent(64, 64), Some(0));
        assert_eq!(parent(65, 64), Some(1));
        assert_eq!(parent(u32::MAX, 64).map(|parent| parent < u32::MAX), Some(true));
        assert_eq!(parent(1, 0), None);
    }
}
