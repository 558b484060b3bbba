//! Defines the interface between the plugin and a runtime.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::BorrowedFd;

/// An event of a process, reported before PRRTE acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A rank has ended, in order or not.
    Ended,
    /// The connection to a runtime daemon broke, or the daemon ended.
    DaemonLost,
    /// A rank ended by itself with a status other than zero.
    NonZeroExit,
    /// A rank called `MPI_Abort`.
    Abort,
    /// A rank ended in any other abnormal way.
    Abnormal,
    /// Any state that does not report a process's end.
    Other,
}

/// A postponed job: PRRTE's own struct, which stays valid until [`Runtime::resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Postponed(pub(crate) usize);

impl Postponed {
    /// The argument of `rw_plugin_postpones_map` or `rw_plugin_awaits_output`.
    #[must_use]
    pub fn new(caddy: *mut c_void) -> Self {
        Self(caddy as usize)
    }
}

/// Decides which connections of other processes to this daemon the runtime accepts.
pub trait Doorkeeper: Sync {
    /// Whether a new connection may identify itself. In any thread of the runtime.
    fn admits(&self, connection: BorrowedFd<'_>) -> bool;
    /// Whether a sender that claims to be this daemon of this job of daemons is accepted. `is_taken`: another accepted
    /// connection of that daemon is open. In PRRTE's own thread.
    fn takes(&self, connection: BorrowedFd<'_>, nspace: &CStr, daemon: u32, is_taken: bool) -> bool;
}

/// Filters the standard output of ranks.
pub trait OutputFilter: Sync {
    /// What is to be written where a rank has printed these bytes. In PRRTE's own thread.
    fn passes(&self, nspace: &CStr, rank: u32, bytes: &[u8]) -> Vec<u8>;
}

/// The runtime of this process.
pub trait Runtime: Send + Sync {
    /// Number of runtime daemons, this one included.
    fn daemons(&self) -> u32;
    /// Daemon that hosts a rank, or `None` if there is no such rank.
    fn daemon_of(&self, nspace: &CStr, rank: u32) -> Option<u32>;
    /// Host of a daemon or a rank, or `None` if it is not known. Only in PRRTE's own thread.
    fn host_of(&self, nspace: &CStr, rank: u32) -> Option<String>;
    /// Value of a variable in the environment that a job's launch gives its ranks; `None` if there is none, or this
    /// release has no access to it. Only in PRRTE's own thread.
    fn job_variable(&self, nspace: &CStr, name: &CStr) -> Option<String>;
    /// Reports events to the plugin before PRRTE acts on them: errors and ends of processes to `rw_plugin_proc_state`,
    /// unsendable messages to `rw_plugin_send_failed`, and jobs that are to be mapped, are mapped, have failed or ended
    /// to `rw_plugin_postpones_map`, `rw_plugin_refuses`, `rw_plugin_job_failed`, `rw_plugin_awaits_output` and
    /// `rw_plugin_goes_on`. Only while PRRTE's own thread waits.
    fn watch_processes(&self) -> bool;
    /// Answers daemons that request a process's addresses that there are none, if `rw_plugin_has_ended` says so. Only
    /// while PRRTE's own thread waits.
    fn answer_for_the_ended(&self);
    /// Makes jobs launched from now on continue without failed ranks, as `mpirun --with-ft` does for the first one,
    /// unless the user has set otherwise. Returns the changed parameters, in the user's notation.
    fn survive_failures(&self) -> Vec<String>;
    /// Makes daemons that are started later start their ranks in their main thread, unless the user has set otherwise:
    /// with separate threads PRRTE may learn of a short-lived rank's end before it knows the rank. Only while PRRTE's
    /// own thread waits.
    fn daemons_start_ranks_in_order(&self);
    /// Makes every daemon that is started later connect directly with this one, up to `most` daemons, unless the user
    /// has set otherwise, or the runtime does so anyway. Returns the changed parameters, in the user's notation. Only
    /// while PRRTE's own thread waits.
    fn connect_daemons_directly(&self, most: u16) -> Vec<String>;
    /// Makes this daemon start its ranks in its main thread, before it has started any. Returns the changed parameter,
    /// in the user's notation.
    fn starts_ranks_in_order(&self) -> Option<String>;
    /// Gives the ranks that this daemon starts a variable, unless the user or the daemon's own environment sets it.
    /// Returns whether the environment lacked it. Only while PRRTE's own thread waits.
    fn give_ranks(&self, name: &CStr, value: &CStr) -> bool;
    /// Suppresses this daemon's warning about remote shells that began before it could put them into a group of their
    /// own; they do so themselves. Only while PRRTE's own thread waits.
    fn starts_shells_quietly(&self);
    /// Gives every daemon that is started later a parameter in its environment, as `PRTE_MCA_` and its name. Only while
    /// PRRTE's own thread waits.
    fn tell_daemons(&self, parameter: &CStr, value: &CStr);
    /// Passes messages of other daemons' plugins to `rw_plugin_told`, in PRRTE's own thread. Call it once.
    fn listen(&self);
    /// Sends a message to the plugin of a daemon, which may be this one. It arrives before later messages of PRRTE.
    fn tell(&self, daemon: u32, bytes: &[u8]);
    /// Makes the doorkeeper decide on new connections to this daemon. False if that is impossible, or there is one
    /// already.
    fn keep_port(&self, keeper: &'static dyn Doorkeeper) -> bool;
    /// Makes all output of ranks that comes to this daemon pass through the filter. False if that is impossible.
    fn filter_output(&self, filter: &'static dyn OutputFilter) -> bool;
    /// Ends the connections that the doorkeeper has admitted, except those of daemons that `keeps` selects. Only while
    /// PRRTE's own thread waits.
    fn clear_port(&self, keeps: &dyn Fn(u32) -> bool);
    /// Whether all other daemons connect with prterun only. Only in PRRTE's own thread.
    fn is_star(&self) -> bool;
    /// Whether this daemon may connect with the other one. Only in PRRTE's own thread.
    fn may_connect(&self, daemon: u32, with: u32) -> bool;
    /// The meaning of a state.
    fn classify(&self, state: u32) -> ProcessEvent;
    /// Whether this state of a job is a failure before any of its processes has run.
    fn never_ran(&self, state: c_int) -> bool;
    /// Whether the daemons have been told to end.
    fn ending(&self) -> bool;
    /// Whether PRRTE has left its event loop and shuts itself down.
    fn finalizing(&self) -> bool;
    /// Whether the user has ended the job, by a signal to prterun or a time limit; prterun's status shows it.
    fn ended_by_user(&self) -> bool;
    /// Removes a lost daemon: nothing is routed to it or awaited from it any more. Only in PRRTE's own thread.
    fn forget_daemon(&self, daemon: u32);
    /// Reports to PRRTE that the connection to a daemon broke; `rw_plugin_proc_state` gets the event. Any thread.
    fn report_daemon_lost(&self, nspace: &CStr, daemon: u32);
    /// Reports to PRRTE that a rank has ended unexpectedly. Any thread.
    fn report_rank_lost(&self, nspace: &CStr, rank: u32);
    /// Reports to PRRTE that a rank has called `MPI_Abort`. Any thread.
    fn report_abort(&self, nspace: &CStr, rank: u32);
    /// Exit status that prterun will return.
    fn exit_status(&self) -> c_int;
    /// Whether the layout of this release's node accounts is known. Otherwise [`Runtime::vacate`] and
    /// [`Runtime::lose_node`] do nothing.
    fn knows_nodes(&self) -> bool;
    /// In a daemon other than prterun: keeps a job after its ranks there have ended, if `rw_plugin_keeps_job` says so,
    /// because living ranks elsewhere may spawn others there. Only while PRRTE's own thread waits.
    fn keep_jobs(&self);
    /// Reports a kept job to PMIx again, which forgets a job when its processes on this node have ended. Returns when
    /// PMIx has registered the job; false if the job was not kept. Only in PRRTE's own thread.
    fn tell_pmix(&self, nspace: &CStr) -> bool;
    /// Releases the slot of an ended rank. One call per rank is enough. Only in PRRTE's own thread.
    fn vacate(&self, nspace: &CStr, rank: u32);
    /// Excludes this daemon's node from mapping. Only in PRRTE's own thread.
    fn lose_node(&self, daemon: u32);
    /// Continues a job that `rw_plugin_postpones_map` or `rw_plugin_awaits_output` has postponed. Any thread.
    fn resume(&self, postponed: Postponed);
    /// Whether the layout of this release's jobs is known. If not, [`Runtime::abort`] does nothing.
    fn knows_jobs(&self) -> bool;
    /// Makes PRRTE kill the processes of a job, and continue as after their end. Only in PRRTE's own thread.
    fn abort(&self, nspace: &CStr);
    /// Calls `rw_plugin_send_failed` in PRRTE's own thread. Any thread.
    fn call(&self);
    /// Replaces the exit status.
    fn set_exit_status(&self, status: c_int);
    /// Ends the job: every daemon kills its ranks and exits, and prterun returns `status`. Any thread.
    fn end_job(&self, status: c_int);
}

/// The reason why there is no usable runtime.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unsupported {
    /// The process is not made of PRRTE.
    #[error("the runtime is not PRRTE")]
    NotPrrte,
    /// An unchecked release.
    #[error("ringwatch knows PRRTE 3.0, this is {0}")]
    Release(String),
    /// A function or variable is missing.
    #[error("this PRRTE lacks {0}")]
    Missing(&'static str),
}
