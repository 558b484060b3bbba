//! Tracks a fault-tolerant job that ringwatch does not serve, in prterun.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::Mutex;

use platform::say::say;

use crate::job::JOB_ENDED;
use crate::runtimes;
use crate::sync::lock;

/// The reason, in words for the user.
pub const NOT_AT_WORK: &str = "ringwatch is not at work (psensor_ringwatch_enable is off, or it could not start)";

static UNSERVED: Mutex<Option<Unserved>> = Mutex::new(None);

struct Unserved {
    nspace: CString,
    ranks: usize,
    /// Ranks that did not end by themselves.
    lost: BTreeSet<u32>,
    /// Whether it has spawned another job.
    spawns: bool,
}

/// Handles the launch of such a job with this number of ranks, or of one that it has spawned.
pub fn launch(nspace: &CStr, ranks: usize) {
    let mut unserved = lock(&UNSERVED);
    let is_first = unserved.is_none();
    let job = unserved.get_or_insert(Unserved { nspace: nspace.into(), ranks, lost: BTreeSet::new(), spawns: false });
    // Spawned ranks may continue.
    job.spawns |= !is_first;
}

/// Notes that a rank has ended abnormally.
pub fn lose(nspace: &CStr, rank: u32) {
    if let Some(job) = lock(&UNSERVED).as_mut().filter(|job| *job.nspace == *nspace) {
        job.lost.insert(rank);
    }
}

/// Handles the end of the job: PRRTE's own status would be zero.
pub fn finished(nspace: &CStr) {
    let (Some(runtime), Some(job)) = (runtimes::launcher(), &*lock(&UNSERVED)) else { return };
    if *job.nspace == *nspace && !job.spawns && job.lost.len() == job.ranks && runtime.exit_status() == 0 {
        say(&format!("ringwatch: every rank of this fault-tolerant job is dead, and {NOT_AT_WORK}; the job is ended"));
        runtime.set_exit_status(JOB_ENDED);
    }
}
