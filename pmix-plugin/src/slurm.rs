//! Keeps Slurm and PRRTE from ending a job that goes on, in prterun inside an allocation of Slurm.
//!
//! One `srun` starts all daemons. Slurm ends its step when a node of it is lost, unless `srun` has `--no-kill`. And
//! `srun` ends when its last daemon has: PRRTE 3.0.8 then ends, too (`srun_wait_cb` in `plm_slurm_module.c`), though
//! the ranks on prterun's node may go on.

use std::process::{Command, Stdio};

/// Variable that `srun` takes for its option `--no-kill`.
const NO_KILL: &str = "SLURM_NO_KILL";
/// Number of the allocation.
const ALLOCATION: &str = "SLURM_JOB_ID";
/// States in which Slurm has not ended an allocation.
const GOES_ON: [&str; 3] = ["RUNNING", "SUSPENDED", "STOPPED"];
/// Maximum time for Slurm's answer, in seconds.
const PATIENCE: &str = "3";

/// Has the daemons' step go on when a node of it is lost. An allocation that was requested without `--no-kill` ends all
/// the same. Before prterun starts daemons.
pub fn keep_step() {
    if std::env::var_os(ALLOCATION).is_some() && std::env::var_os(NO_KILL).is_none() {
        // SAFETY: PRRTE sets variables of its own environment at this time and in this thread.
        unsafe { std::env::set_var(NO_KILL, "set") };
    }
}

/// The number of the allocation if Slurm has ended it, for example after `scancel`. An allocation of which Slurm says
/// nothing in time counts as running: its controller may be on the lost node.
pub fn ended_allocation() -> Option<String> {
    let number = std::env::var(ALLOCATION).ok()?;
    let words = [PATIENCE, "squeue", "--noheader", "--jobs", &number, "--format", "%T"];
    let output = Command::new("timeout").args(words).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let has_ended = output.status.success() && !GOES_ON.contains(&text.trim());
    has_ended.then_some(number)
}
