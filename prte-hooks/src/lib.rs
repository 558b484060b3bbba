//! What prterun must believe when a runtime daemon is lost: its ranks are dead, and no more than that.
//!
//! One interface, [`Runtime`], with an implementation for each generation of PRRTE. All of PRRTE is found at run time,
//! so the plugin loads where PRRTE is absent and refuses releases it does not know.

mod prte3;
mod symbols;

use std::ffi::{CStr, c_int};

/// What has happened to a process, as PRRTE is about to act on it.
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
    /// Nothing that says that a process has ended.
    Other,
}

/// The runtime that this process, prterun, is made of.
pub trait Runtime: Send + Sync {
    /// Number of runtime daemons, this one included.
    fn daemons(&self) -> u32;
    /// Daemon that hosts a rank, or `None` if there is no such rank.
    fn daemon_of(&self, nspace: &CStr, rank: u32) -> Option<u32>;
    /// Host of a process, a daemon's or a rank's, or `None` if it is not known. Only in PRRTE's own thread.
    fn host_of(&self, nspace: &CStr, rank: u32) -> Option<String>;
    /// Value of a variable that the launch of a job itself gives its ranks; `None` if there is none, or this release cannot
    /// tell. Only in PRRTE's own thread.
    fn job_variable(&self, nspace: &CStr, name: &CStr) -> Option<String>;
    /// Has the errors and ends of processes shown to `rw_plugin_proc_state`, and messages that cannot be sent to
    /// `rw_plugin_send_failed`, before PRRTE acts on them. Only while PRRTE's own
    /// thread waits for this one.
    fn watch_processes(&self) -> bool;
    /// Has daemons that ask this one for the addresses of a process told that there are none, if `rw_plugin_has_ended` says
    /// so. Only while PRRTE's own thread waits for this one.
    fn answer_for_the_ended(&self);
    /// Has jobs that are launched from now on go on without ranks that fail, as `mpirun --with-ft` has the first one, unless
    /// the user wants it otherwise. Returns the parameters that it has changed, as a user would write them.
    fn survive_failures(&self) -> Vec<String>;
    /// Has the daemons that are still to be started each start its ranks in its own thread, unless the user wants it
    /// otherwise: with threads of their own PRRTE hears of the end of a short-lived rank before it knows the rank. Only while
    /// PRRTE's own thread waits for this one.
    fn daemons_start_ranks_in_order(&self);
    /// Has every daemon that is still to be started connect with this one itself, as long as there are not more than so many,
    /// unless the user wants it otherwise, or the runtime does as much by itself. Returns the parameters that it has changed, as
    /// a user would write them. Only while PRRTE's own thread waits for this one.
    fn connect_daemons_directly(&self, most: u16) -> Vec<String>;
    /// Has this daemon do so, too, before it has started any. Returns the parameter that it has changed, as a user would write
    /// it.
    fn starts_ranks_in_order(&self) -> Option<String>;
    /// Has the ranks that this daemon starts have a variable, unless they have it from the user or the daemon's own
    /// environment. Returns whether the environment lacked it. Only while PRRTE's own thread waits for this one.
    fn give_ranks(&self, name: &CStr, value: &CStr) -> bool;
    /// What a state means.
    fn classify(&self, state: u32) -> ProcessEvent;
    /// Whether the daemons have been told to end.
    fn ending(&self) -> bool;
    /// Whether the user has ended the job, by a signal to prterun or a time limit; prterun's status says so.
    fn ended_by_user(&self) -> bool;
    /// The daemon is gone: nothing is routed to it or awaited from it any more. Only in PRRTE's own thread.
    fn forget_daemon(&self, daemon: u32);
    /// Tells PRRTE that the connection to a daemon broke; comes back through `rw_plugin_proc_state`. Any thread.
    fn report_daemon_lost(&self, nspace: &CStr, daemon: u32);
    /// Tells PRRTE that a rank has ended without a word. Any thread.
    fn report_rank_lost(&self, nspace: &CStr, rank: u32);
    /// Exit status that prterun will return.
    fn exit_status(&self) -> c_int;
    /// Replaces that exit status.
    fn set_exit_status(&self, status: c_int);
    /// Ends the job: every daemon kills its ranks and exits, and prterun returns `status`. Any thread.
    fn end_job(&self, status: c_int);
}

/// Why there is no runtime to work with.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unsupported {
    /// The process is not made of PRRTE.
    #[error("the runtime is not PRRTE")]
    NotPrrte,
    /// A release that nobody has checked.
    #[error("ringwatch knows PRRTE 3.0, this is {0}")]
    Release(String),
    /// A function or variable is missing.
    #[error("this PRRTE lacks {0}")]
    Missing(&'static str),
}

/// The runtime of this process.
///
/// # Errors
/// If it is none that ringwatch can serve.
pub fn find() -> Result<Box<dyn Runtime>, Unsupported> {
    let release = symbols::text(c"prte_version_string").ok_or(Unsupported::NotPrrte)?;
    match numbers(&release) {
        Some([3, 0, patch]) => Ok(Box::new(prte3::Prte3::find(patch)?)),
        _ => Err(Unsupported::Release(release)),
    }
}

/// The numbers of a version such as `3.0.8` or `PRRTE v5.0`, of which the last may be missing and counts as 0 then.
#[must_use]
pub fn numbers(release: &str) -> Option<[u32; 3]> {
    let start = release.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = release[start..].split('.').map(|part| part.split(|c: char| !c.is_ascii_digit()).next());
    let mut next = || numbers.next()??.parse().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_recognised_with_and_without_a_prefix() {
        assert_eq!(numbers("3.0.8"), Some([3, 0, 8]));
        assert_eq!(numbers("PRRTE v5.0.1rc1"), Some([5, 0, 1]));
        assert_eq!(numbers("v3.0"), Some([3, 0, 0]));
        assert_eq!(numbers("unknown"), None);
    }
}
