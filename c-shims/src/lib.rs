//! The C of ringwatch: component tables and entry points that need structs or names of PMIx, PRRTE and Open MPI.
//!
//! The C files beside this one are compiled by the workspace's `build.rs` against the installed headers. They contain
//! no logic: every table entry leads to a Rust function named `rw_plugin_*` (crate `pmix-plugin`) or `rw_rank_*`
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
        /// Tells the local clients that a rank is dead. May be called from any thread; does not block.
        pub fn rw_pmix_notify_dead(nspace: *const c_char, rank: u32) -> c_int;
        /// Has the runtime connect processes of several namespaces with a fence among their daemons, and tells the plugin who
        /// waits for whom there, or for what another process publishes. Who asks it for the addresses of a process that has
        /// ended is told that there are none. Tells the plugin, too, who finalizes. In PMIx's own thread.
        pub fn rw_pmix_watch_clients();
        /// Carries on with a connection that the plugin has postponed, or drops it, once; in PMIx's own thread.
        pub fn rw_pmix_connect(postponed: *mut c_void, still_wanted: bool);
        /// Ends, in PMIx's own thread, what waits on this node for processes of several namespaces to come, if one of them
        /// is dead: PMIx counts those who were dead before among those to come. May be called from any thread until the
        /// components are closed; does not block.
        pub fn rw_pmix_end_exchanges_with_the_dead();
        /// Has `rw_plugin_client_has_committed` called for every process of this node that has told the others how to be
        /// reached, in PMIx's own thread. May be called from any thread until the components are closed; does not block.
        pub fn rw_pmix_look_at_clients();
        /// Rank of this process in its own namespace: the number of the runtime daemon.
        pub fn rw_pmix_my_rank() -> u32;
        /// Namespace of this process.
        pub fn rw_pmix_my_nspace() -> *const c_char;
        /// What PMIx's parameter files have set a parameter to, by its full name; null if nothing.
        pub fn rw_pmix_in_parameter_file(name: *const c_char) -> *const c_char;
        /// Release of PMIx whose headers the shims were compiled against, as `major.minor.release`.
        pub fn rw_pmix_built_for() -> *const c_char;
        /// Release of PMIx that is loaded, e.g. `OpenPMIx 5.0.7 (…)`.
        pub fn PMIx_Get_version() -> *const c_char;
    }
}

/// Services of `prte.c`. The functions of libprrte that they take as arguments are found at run time.
pub mod prte {
    use super::{c_char, c_int, c_void};

    /// Answer of `rw_plugin_proc_state`: let PRRTE's own handler run.
    pub const CALL_STOCK: c_int = 0;
    /// Answer of `rw_plugin_proc_state`: nothing more to do.
    pub const HANDLED: c_int = 1;

    unsafe extern "C" {
        /// Puts `rw_plugin_proc_state` and `rw_plugin_send_failed` in front of PRRTE 3's handlers; false if a table lacks one.
        pub fn rw_prte3_wrap(proc_states: *mut c_void, job_states: *mut c_void) -> bool;
        /// Has daemons that ask for the addresses of a process told that there are none, if `rw_plugin_has_ended` says so. Takes
        /// `prte_rml_base` and `prte_rml_send_buffer_nb`; does nothing if no such question is expected.
        pub fn rw_prte3_answer_for_the_ended(messages: *mut c_void, send: *mut c_void);
        /// Switches a parameter of one of PRRTE's frameworks on; false, and nothing is done, if there is no such parameter or
        /// the user has set it.
        pub fn rw_prte3_switch_on(framework: *const c_char, parameter: *const c_char) -> bool;
        /// Gives one that is an `int` this value, on the same terms; the framework's own have the component `base`.
        pub fn rw_prte3_set_number(
            framework: *const c_char,
            component: *const c_char,
            parameter: *const c_char,
            number: c_int,
        ) -> bool;
        /// Adds a parameter to `prted_cmd_line`, at whose address `command_line` is; false if there is no memory.
        pub fn rw_prte3_tell_daemons(command_line: *mut c_void, parameter: *const c_char, value: *const c_char)
        -> bool;
        /// Adds a variable to `prte_launch_environ`, at whose address `environment` is; false, and nothing is done, if it is
        /// there, or there is no memory.
        pub fn rw_prte3_give_ranks(environment: *mut c_void, name: *const c_char, value: *const c_char) -> bool;
        /// Number of runtime daemons, prterun's own included.
        pub fn rw_prte3_num_daemons(process_info: *const c_void) -> u32;
        /// Value of a variable that the launch of a job gives its ranks, with `prte_get_job_data_object` of PRRTE 3.0.5 or later:
        /// PRRTE's own string, or null.
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
        /// Number of tables; a reference to it makes the linker take them out of the archive.
        pub static rw_ompi_tables: c_int;
    }
}

/// Room for a component table, filled by a constructor in C before anybody can look at it: the symbol must be a Rust
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
