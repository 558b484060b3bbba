//! Keeps the living ranks of a job reachable from a node whose own ranks of that job have ended.
//!
//! PRRTE 3.0.8 drops a job in a daemon when the last of its processes there has ended (`track_procs` in
//! `state_prted.c`), and PMIx forgets it with PRRTE. A rank that is spawned on that node then cannot get the addresses
//! of the job's ranks on other nodes. So the daemon keeps the job, and reports it to PMIx again.
//!
//! A request for an address waits until then: PMIx answers the first request for a process of an unknown job, but then
//! waits for the registration of the job (`all_registered` in `pmix_server_get.c`). PMIx repeats all waiting requests
//! when the job is registered (`pmix_pending_nspace_requests`); a request that PRRTE already has must not be repeated,
//! because each answer uses PMIx's struct of the request, which the first answer releases.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

use c_shims::pmix;
use prte_hooks::Runtime;

use super::{Job, present};
use crate::runtimes;
use crate::sync::lock;

/// Jobs whose local ranks have ended, and requests that wait for them. In a daemon other than prterun.
#[derive(Default)]
pub struct Revivals {
    states: BTreeMap<CString, State>,
    requests: Vec<Request>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be reported to PMIx.
    Due,
    /// Reported to PMIx.
    Known,
    /// PRRTE has not kept it.
    Dropped,
}

/// A request for the address of a process.
struct Request {
    nspace: CString,
    callback: usize,
    data: usize,
}

/// Whether this daemon must keep a job after its last process here has ended. In PRRTE's own thread.
pub fn keeps(nspace: &CStr) -> bool {
    let Some((job, runtime)) = present().zip(runtimes::other()) else { return false };
    job.jobs.number(nspace, 0).is_some() && !runtime.ending()
}

/// Whether nobody can answer for a process any more: it has ended, or the runtime of this node does not know its job.
pub fn has_ended(nspace: &CStr, rank: u32) -> bool {
    let Some(job) = present() else { return false };
    // A request for the data of the whole job has no number.
    let number = job.jobs.number(nspace, rank);
    let is_kept = || keeps(nspace) && runtimes::other().is_some_and(Runtime::knows_nodes) && !job.is_dropped(nspace);
    let is_gone = |number| job.segment.slot_of(number).is_some() || job.is_dead(number);
    number.is_some_and(|number| job.is_terminated(number))
        || job.jobs.is_over(nspace) && (!is_kept() || number.is_some_and(is_gone))
}

/// Handles a request for the address of a process of a job that PMIx does not know. Returns whether the request waits
/// until the job is reported to PMIx, which repeats it then. `callback` and `data` are PMIx's, for an answer. In PMIx's
/// own thread.
pub fn awaits_revival(nspace: &CStr, callback: usize, data: usize) -> bool {
    let Some((job, runtime)) = present().zip(runtimes::other()) else { return false };
    if !job.jobs.is_over(nspace) {
        return false;
    }
    let revivals = &mut lock(&job.revivals);
    revivals.requests.push(Request { nspace: nspace.into(), callback, data });
    revivals.states.entry(nspace.into()).or_insert(State::Due);
    runtime.call();
    true
}

impl Job {
    /// Has the jobs reported to PMIx again whose ranks here have ended, if other jobs have ranks here that may need
    /// them. In a daemon other than prterun.
    pub fn ask_for_revival(&self) {
        let is_here = |rank: u32| self.segment.slot_of(rank).is_some();
        let has_ranks_here = |name: &CString| self.jobs.ranks_of(name).any(is_here);
        let Some(runtime) = runtimes::other().filter(|_| self.jobs.open_jobs().iter().any(has_ranks_here)) else {
            return;
        };
        let lives_elsewhere =
            |name: &CString| self.jobs.ranks_of(name).any(|rank| !is_here(rank) && !self.is_dead(rank));
        let over = self.jobs.all_jobs().into_iter().filter(|name| self.jobs.is_over(name) && lives_elsewhere(name));
        let states = &mut lock(&self.revivals).states;
        let count = states.len();
        for name in over {
            states.entry(name).or_insert(State::Due);
        }
        if states.len() > count {
            runtime.call();
        }
    }

    /// Reports jobs to PMIx again. In PRRTE's own thread, after [`Job::ask_for_revival`] or [`awaits_revival`]. Returns
    /// whether there were any.
    pub fn revive_jobs(&self, runtime: &dyn Runtime) -> bool {
        let due: Vec<CString> = {
            let states = &lock(&self.revivals).states;
            states.iter().filter(|(_, state)| **state == State::Due).map(|(name, _)| name.clone()).collect()
        };
        for name in &due {
            // Returns when PMIx has registered the job and repeated the requests.
            let is_known = runtime.tell_pmix(name);
            let waiting: Vec<Request> = {
                let revivals = &mut lock(&self.revivals);
                revivals.states.insert(name.clone(), if is_known { State::Known } else { State::Dropped });
                let (waiting, others) =
                    std::mem::take(&mut revivals.requests).into_iter().partition(|request| request.nspace == *name);
                revivals.requests = others;
                waiting
            };
            for request in waiting.iter().filter(|_| !is_known) {
                // SAFETY: PMIx's own callback, which only notes the answer for its thread, and is called once.
                unsafe { pmix::rw_pmix_has_no_address(request.callback as *mut _, request.data as *mut _) }
            }
        }
        !due.is_empty()
    }

    fn is_dropped(&self, nspace: &CStr) -> bool {
        lock(&self.revivals).states.get(nspace) == Some(&State::Dropped)
    }

    /// Whether a rank is declared dead, by itself or with its node.
    fn is_dead(&self, rank: u32) -> bool {
        self.dead_ranks().any(|dead| dead == rank)
    }
}
