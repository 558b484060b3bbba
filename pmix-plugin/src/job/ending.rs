//! Ends the ranks without losing their output.
//!
//! When PRRTE is told to end, it ends at once, and output that its daemons have not read or forwarded is lost. So
//! ringwatch makes it kill the ranks, as it does for a job that calls `MPI_Abort` (`_terminate_job` in `errmgr_dvm.c`).
//! PRRTE then ends after the ranks have. PRRTE also considers the output of a dead rank complete before that rank's
//! daemon has confirmed it (`proc_errors` there), and the job could end with it. So ringwatch delays the job's end
//! until the confirmation.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use platform::say::say;
use prte_hooks::{Postponed, Runtime};

use super::{JOB_ENDED, Job, served};
use crate::sync::lock;
use crate::{runtimes, slurm};

/// Maximum time for PRRTE to kill the ranks, for which it waits half a second, and to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time for which a job's end waits for output of dead ranks: a daemon may be unreachable.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// State of the end.
#[derive(Default)]
pub struct Ending {
    /// Dead ranks whose daemon has confirmed that it has forwarded all of their output.
    complete: BTreeSet<u32>,
    /// Jobs whose processes have ended.
    waiting: Vec<Waiting>,
    /// When PRRTE, after it was told to kill the ranks, is ended at once.
    forced_at: Option<Instant>,
}

struct Waiting {
    job: Postponed,
    nspace: CString,
    until: Instant,
    /// Whether PRRTE has been told to continue.
    is_due: bool,
}

/// Handles the end of all processes of a job, in PRRTE's own thread. Returns whether the job's end must wait
/// ([`Job::carry_on_with_ends`]).
pub fn awaits_output(nspace: &CStr, postponed: Postponed) -> bool {
    let Some((job, Some(_))) = served() else { return false };
    let has_all = job.has_all_output(nspace);
    let mut ending = lock(&job.ending);
    let known = ending.waiting.iter().position(|one| one.job == postponed);
    let place = known.unwrap_or_else(|| {
        let until = Instant::now() + LAST_WORDS;
        ending.waiting.push(Waiting { job: postponed, nspace: nspace.into(), until, is_due: false });
        ending.waiting.len() - 1
    });
    if has_all || Instant::now() >= ending.waiting[place].until {
        ending.waiting.swap_remove(place);
        return false;
    }
    ending.waiting[place].is_due = false;
    true
}

/// Whether the job goes on though PRRTE takes all of its other daemons for ended, in prterun's own thread: under Slurm
/// their `srun` has ended with the last of them. When the job has ended, PRRTE notices the end of its daemons by their
/// connections.
pub fn goes_on() -> bool {
    let Some((job, Some(runtime))) = served() else { return false };
    if runtime.ending() || runtime.ended_by_user() || job.was_ended() {
        return false;
    }
    if let Some(number) = slurm::ended_allocation() {
        job.end(&format!("Slurm has ended the allocation {number}, so the job ends"));
        return false;
    }
    true
}

impl Job {
    /// Like [`Job::end`], but preserves the ranks' output.
    pub fn end_ranks(&self, sentence: &str) {
        let Some(runtime) = runtimes::launcher().filter(|runtime| runtime.knows_jobs() && !runtime.ended_by_user())
        else {
            return self.end(sentence);
        };
        if !self.ended.swap(true, Ordering::SeqCst) {
            runtime.set_exit_status(JOB_ENDED);
            say(&format!("ringwatch: {sentence}"));
            lock(&self.ending).forced_at = Some(Instant::now() + PATIENCE);
            runtime.call();
            self.tell_reason();
        }
    }

    /// Kills the ranks of all jobs. In PRRTE's own thread, after [`Runtime::call`].
    pub fn abort_jobs(&self, runtime: &dyn Runtime) {
        if self.is_aborting() {
            self.jobs.open_jobs().iter().for_each(|nspace| runtime.abort(nspace));
        }
    }

    /// Whether PRRTE has been told to kill the ranks.
    pub fn is_aborting(&self) -> bool {
        lock(&self.ending).forced_at.is_some()
    }

    /// Notes, in PRRTE's own thread, that a daemon has forwarded all output of this rank.
    pub fn output_is_complete(&self, number: u32) {
        lock(&self.ending).complete.insert(number);
        self.carry_on_with_ends();
    }

    fn has_all_output(&self, nspace: &CStr) -> bool {
        let (counted, lost) = (lock(&self.counted), lock(&self.lost));
        let complete = &lock(&self.ending).complete;
        // PRRTE tracks the output of its own node's ranks.
        let is_elsewhere = |number| self.segment.slot_of(number).is_none();
        let waits = |number: &u32| is_elsewhere(*number) && !complete.contains(number) && !lost.contains(number);
        !counted.iter().any(|number| waits(number) && self.is_of(*number, nspace))
    }

    fn is_of(&self, number: u32, nspace: &CStr) -> bool {
        self.jobs.name_of(number).is_some_and(|(name, _)| name.as_c_str() == nspace)
    }

    /// Whether the end of jobs, or of PRRTE, waits.
    pub fn has_waiting_ends(&self) -> bool {
        let ending = lock(&self.ending);
        ending.forced_at.is_some() || ending.waiting.iter().any(|one| !one.is_due)
    }

    /// Makes PRRTE continue the end of jobs that need not wait any longer, or end at once. Any thread.
    pub fn carry_on_with_ends(&self) {
        let Some(runtime) = self.runtime() else { return };
        let names: Vec<_> = lock(&self.ending).waiting.iter().map(|one| one.nspace.clone()).collect();
        let ready: BTreeSet<_> = names.into_iter().filter(|nspace| self.has_all_output(nspace)).collect();
        let mut ending = lock(&self.ending);
        let now = Instant::now();
        for one in ending.waiting.iter_mut().filter(|one| !one.is_due) {
            if now >= one.until || ready.contains(&one.nspace) {
                one.is_due = true;
                runtime.resume(one.job);
            }
        }
        if ending.forced_at.is_some_and(|at| now >= at) && !runtime.ending() {
            ending.forced_at = None;
            runtime.end_job(JOB_ENDED);
        }
    }
}
