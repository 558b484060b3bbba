//! Declares the C code of ringwatch: component tables and entry points that need structs or names of PMIx, PRRTE and
//! Open MPI.
//!
//! The C files beside this one are compiled by the workspace's `build.rs` against the installed headers. They contain
//! no logic: every table entry calls a Rust function named `rw_plugin_*` (crate `pmix-plugin`) or `rw_rank_*`
//! (crate `mpi-layer`). This crate declares what those crates may call.

use std::ffi::{c_char, c_int, c_void};

/// Services of `pmix.c`, available in processes that have libpmix.
pub mod pmix {
    use super::{c_char, c_int, c_void};

    unsafe extern "C" {
        /// Registers a string parameter of the component `psensor/ringwatch`; `storage` holds the default and receives
        /// the value. Returns a negative PMIx status on failure.
        pub fn rw_pmix_parameter(name: *const c_char, help: *const c_char, storage: *mut *mut c_char) -> c_int;
        /// Adds a variable to the environment of the ranks that are about to be started.
        pub fn rw_pmix_environment(environment: *mut c_void, name: *const c_char, value: *const c_char);
        /// Notifies the local clients of the death of a rank. May be called from any thread; does not block.
        pub fn rw_pmix_notify_dead(nspace: *const c_char, rank: u32) -> c_int;
        /// Passes each fence that all processes of this node have entered to the plugin, before the runtime receives
        /// it. Makes the runtime connect processes of several namespaces with a fence among their daemons. Notifies the
        /// plugin of the processes that wait there for others, or for published data, and of processes that finalize. A
        /// request for the addresses of a process that has ended is answered with none, and one for a job that PMIx
        /// does not know passes `rw_plugin_awaits_revival`. Closes connections that the plugin does not admit. In
        /// PMIx's own thread.
        pub fn rw_pmix_watch_clients();
        /// Resumes a connection that the plugin has postponed, or drops it, once; in PMIx's own thread.
        pub fn rw_pmix_connect(postponed: *mut c_void, still_wanted: bool);
        /// Resumes a fence that the plugin holds, once. From any thread.
        pub fn rw_pmix_fence(postponed: *mut c_void);
        /// Answers a request for the address of a process with none, once; the arguments are those of
        /// `rw_plugin_awaits_revival`. From any thread.
        pub fn rw_pmix_has_no_address(callback: *mut c_void, data: *mut c_void);
        /// Ends, in PMIx's own thread, exchanges of this node that wait for processes of several namespaces, one of
        /// which is dead: PMIx expects processes that were dead before as well. May be called from any thread until the
        /// components are closed; does not block.
        pub fn rw_pmix_end_exchanges_with_the_dead();
        /// Calls `rw_plugin_client_has_committed` for every process of this node that has published its addresses, in
        /// PMIx's own thread. May be called from any thread until the components are closed; does not block.
        pub fn rw_pmix_look_at_clients();
        /// Rank of this process in its own namespace: the number of the runtime daemon.
        pub fn rw_pmix_my_rank() -> u32;
        /// Namespace of this process.
        pub fn rw_pmix_my_nspace() -> *const c_char;
        /// Value of a parameter, by its full name, in PMIx's parameter files; null if they do not set it.
        pub fn rw_pmix_in_parameter_file(name: *const c_char) -> *const c_char;
        /// Full name of the parameter that the line of this number in PMIx's parameter files sets; null behind the
        /// last.
        pub fn rw_pmix_name_in_parameter_file(index: usize) -> *const c_char;
        /// Release of PMIx whose headers the shims were compiled against, as `major.minor.release`.
        pub fn rw_pmix_built_for() -> *const c_char;
        /// Release of PMIx that is loaded, e.g. `OpenPMIx 5.0.7 (…)`.
        pub fn PMIx_Get_version() -> *const c_char;
    }
}

/// Services of `prte.c` and `prte_nodes.c`. The functions of libprrte that they take as arguments are found at run
/// time.
pub mod prte {
    use super::{c_char, c_int, c_void};

    /// Answer of `rw_plugin_proc_state`: let PRRTE's own handler run.
    pub const CALL_STOCK: c_int = 0;
    /// Answer of `rw_plugin_proc_state`: nothing more to do.
    pub const HANDLED: c_int = 1;

    /// Answer of `rw_plugin_job_failed`: an ordinary failure.
    pub const JOB_FAILED: c_int = 0;
    /// Answer of `rw_plugin_job_failed`: none of its processes has run, which does not affect prterun's status.
    pub const JOB_NEVER_RAN: c_int = 1;
    /// Answer of `rw_plugin_job_failed`: kill its processes, and end it as after their end.
    pub const JOB_ENDS: c_int = 2;
    /// Answer of `rw_plugin_job_failed`: a request that has not become a job, which does not affect other jobs.
    pub const JOB_NAMELESS: c_int = 3;

    unsafe extern "C" {
        /// Interposes `rw_plugin_proc_state` and `rw_plugin_send_failed` on PRRTE 3's handlers, and with
        /// `prte_get_job_data_object` of a release whose jobs are known also `rw_plugin_job_failed`,
        /// `rw_plugin_postpones_map`, `rw_plugin_refuses`, `rw_plugin_awaits_output` and `rw_plugin_goes_on`; false if
        /// a table lacks one.
        pub fn rw_prte3_wrap(proc_states: *mut c_void, job_states: *mut c_void, find: *mut c_void) -> bool;
        /// Answers requests of daemons for the addresses of a process with none, if `rw_plugin_has_ended` returns true.
        /// Takes `prte_rml_base` and `prte_rml_send_buffer_nb`; does nothing if no such question is expected.
        pub fn rw_prte3_answer_for_the_ended(messages: *mut c_void, send: *mut c_void);
        /// Passes messages of other daemons to `rw_plugin_told`, in PRRTE's own thread. Takes
        /// `prte_rml_recv_buffer_nb`. Only once; from any thread.
        pub fn rw_prte3_listen(receive: *mut c_void);
        /// Sends bytes to a daemon, with `prte_rml_send_buffer_nb`; messages arrive in order, and before messages that
        /// PRRTE sends there later. False if there is no memory. From any thread.
        pub fn rw_prte3_tell(send: *mut c_void, daemon: u32, bytes: *const u8, length: usize) -> bool;
        /// Switches a parameter of one of PRRTE's frameworks on; false, and nothing is done, if there is no such
        /// parameter or the user has set it.
        pub fn rw_prte3_switch_on(framework: *const c_char, parameter: *const c_char) -> bool;
        /// Sets an `int` parameter, on the same conditions; the framework's own have the component `base`.
        pub fn rw_prte3_set_number(
            framework: *const c_char,
            component: *const c_char,
            parameter: *const c_char,
            number: c_int,
        ) -> bool;
        /// Value of an `int` parameter; 0 if there is no such parameter.
        pub fn rw_prte3_number(framework: *const c_char, component: *const c_char, parameter: *const c_char) -> c_int;
        /// Adds a parameter to `prted_cmd_line`, at whose address `command_line` is; false if there is no memory.
        pub fn rw_prte3_tell_daemons(command_line: *mut c_void, parameter: *const c_char, value: *const c_char)
        -> bool;
        /// Adds a variable to `prte_launch_environ`, at whose address `environment` is; false, and nothing is done, if
        /// it is there, or there is no memory.
        pub fn rw_prte3_give_ranks(environment: *mut c_void, name: *const c_char, value: *const c_char) -> bool;
        /// Resumes a caddy that `rw_plugin_postpones_map` or `rw_plugin_awaits_output` has kept;
        /// may be called from any thread.
        pub fn rw_prte3_resume(postponed: *mut c_void);
        /// Kills the processes of a job, with `prte_state_base_activate_job_state`; does nothing if there is no such
        /// job.
        pub fn rw_prte3_abort(activate: *mut c_void, nspace: *const c_char);
        /// Whether PRRTE's classes of a node, a map, a job and a process (`prte_node_t_class`, ...) are as long as this
        /// release's.
        pub fn rw_prte3_knows_nodes(
            node: *const c_void,
            map: *const c_void,
            job: *const c_void,
            proc: *const c_void,
        ) -> bool;
        /// Makes PRRTE keep a job that has living processes elsewhere after those of this daemon have ended, if
        /// `rw_plugin_keeps_job` returns true. Takes the addresses of `prte_job_data` and
        /// `prte_pmix_server_register_nspace`.
        pub fn rw_prte3_keep_jobs(list: *mut c_void, tell_pmix: *mut c_void);
        /// Registers a job that was kept with PMIx again; false if it was not kept. Returns when PMIx has registered
        /// it.
        pub fn rw_prte3_tell_pmix(nspace: *const c_char) -> bool;
        /// Releases the slot and the processors of an ended process, with `prte_get_job_data_object` and
        /// `prte_get_attribute`; does nothing if they are released already, or there is no such process.
        pub fn rw_prte3_vacate(jobs: *mut c_void, attributes: *mut c_void, nspace: *const c_char, rank: u32);
        /// Excludes the node of a daemon from mapping; takes the address of `prte_node_pool`.
        pub fn rw_prte3_node_is_lost(pool: *mut c_void, daemon: u32);
        /// Number of runtime daemons, prterun's own included.
        pub fn rw_prte3_num_daemons(process_info: *const c_void) -> u32;
        /// Value of a variable that the launch of a job gives its ranks, with `prte_get_job_data_object` of PRRTE 3.0.5
        /// or later: PRRTE's own string, or null.
        pub fn rw_prte3_job_variable(
            function: *mut c_void,
            nspace: *const c_char,
            name: *const c_char,
        ) -> *const c_char;
        /// Calls `prte_get_proc_daemon_vpid`.
        pub fn rw_prte_daemon_of(function: *mut c_void, nspace: *const c_char, rank: u32) -> c_int;
        /// Calls `prte_get_proc_hostname`: PRRTE's own string, or null.
        pub fn rw_prte_hostname(function: *mut c_void, nspace: *const c_char, rank: u32) -> *const c_char;
        /// Calls `prte_state_base_activate_proc_state`; may be called from any thread.
        pub fn rw_prte_activate(function: *mut c_void, nspace: *const c_char, rank: u32, state: u32);
    }
}

/// Component tables of `ompi.c`.
pub mod ompi {
    use super::c_int;

    unsafe extern "C" {
        /// Makes `rw_rank_has_to_say` decide which help messages are shown. Takes the addresses of Open MPI's variables
        /// `opal_show_help` and `opal_show_vhelp`.
        pub fn rw_ompi_look_at_help(help: *mut super::c_void, list: *const super::c_void);
        /// Number of tables; a reference to it makes the linker take them out of the archive.
        pub static rw_ompi_tables: c_int;
    }
}

/// Memory of a component table, filled by a constructor in C before any code reads it: the symbol must be a Rust
/// static, because only those are exported from a Rust library.
#[repr(C, align(16))]
pub struct Table([std::cell::UnsafeCell<u8>; TABLE_BYTES]);

/// `RW_TABLE_BYTES`.
const TABLE_BYTES: usize = 512;

// SAFETY: written by constructors only, which run before any thread of this library.
unsafe impl Sync for Table {}

impl Table {
    /// Room without a table.
    #[must_use]
    pub const fn empty() -> Self {
        Self([const { std::cell::UnsafeCell::new(0) }; TABLE_BYTES])
    }
}
