//! Corrects PRRTE's accounts of its nodes before prterun maps a spawned job.
//!
//! PRRTE 3.0.8 releases a job's slots when its last process has ended (`check_complete` in `state_dvm.c`), and treats a
//! node whose daemon is lost as available. In a job that continues without its dead ranks both are wrong.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int};
use std::sync::Once;
use std::time::{Duration, Instant};

use c_shims::prte;
use node_abi::jobs::NoRoom;
use node_abi::segment::{Entry, MOST_JOBS, SPARE_SLOTS};
use platform::say::say;
use propagation::NodeId;
use prte_hooks::{Postponed, Runtime};

use super::{Job, served};
use crate::preparation::nodes_of;
use crate::sync::lock;

/// Environment variable of a spawned job: number of deaths that the spawning rank's node knew (`pmix.c`).
const KNOWN_DEAD: &CStr = c"RINGWATCH_KNOWN_DEAD";
/// A death that another node knows is known here after twice the timeout, plus this margin.
const PATIENCE: Duration = Duration::from_secs(1);

/// Corrections to PRRTE's accounts, and jobs that wait for them.
#[derive(Default)]
pub struct Mapping {
    /// Ranks whose slots have been released.
    vacated: BTreeSet<u32>,
    waiting: Vec<Waiting>,
}

/// A job that is not mapped yet, because its spawning node knew of deaths that are not known here.
struct Waiting {
    job: Postponed,
    known: u32,
    until: Instant,
    /// Whether PRRTE has been told to map it.
    is_due: bool,
}

impl Waiting {
    fn is_over(&self, known_here: u32) -> bool {
        known_here >= self.known || Instant::now() >= self.until
    }
}

/// Number of ranks that this node knows to be dead.
pub fn known_dead() -> u32 {
    served().map_or(0, |(job, _)| job.known_dead())
}

/// Handles a job that is to be mapped, in PRRTE's own thread. Returns whether it must wait
/// ([`Job::carry_on_with_maps`]).
pub fn postpones(nspace: &CStr, postponed: Postponed) -> bool {
    let Some((job, Some(runtime))) = served() else { return false };
    let known = runtime.job_variable(nspace, KNOWN_DEAD).and_then(|known| known.parse().ok()).unwrap_or(0);
    if job.waits_for_deaths(postponed, known) {
        return true;
    }
    job.settle_accounts(runtime);
    false
}

/// Handles a mapped job, in PRRTE's own thread. Returns whether it has more processes than can be watched: PRRTE then
/// reports a failure to the spawning ranks.
pub fn refuses(nspace: &CStr) -> bool {
    let Some((job, Some(runtime))) = served() else { return false };
    let nodes = nodes_of(nspace, runtime);
    let refusal = job.jobs.reserve(&nodes).err();
    match refusal {
        None => return false,
        Some(NoRoom::Jobs) => say(&format!(
            "ringwatch: {MOST_JOBS} jobs have been spawned in this run of mpirun, and more cannot be watched: MPI_Comm_spawn fails"
        )),
        Some(NoRoom::Ranks(node)) => {
            let count = nodes.iter().filter(|on| **on == node).count();
            // SAFETY: PMIx is initialised while a job is launched.
            let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
            let host = runtime.host_of(own, node).unwrap_or_else(|| format!("node {node}"));
            say(&format!(
                "ringwatch: {count} processes were to be spawned on {host}, where {SPARE_SLOTS} can be watched in one run of mpirun, those that have ended included: MPI_Comm_spawn fails"
            ));
        }
    }
    true
}

/// Handles a job that has failed, or whose ranks are to be killed, in PRRTE's own thread. Returns the kind of failure.
pub fn failed(nspace: &CStr, state: c_int) -> c_int {
    let Some((job, runtime)) = served() else { return prte::JOB_FAILED };
    if nspace.is_empty() {
        // The spawning process has got the error (`interim` in `pmix_server_dyn.c`). PRRTE would take this for its own
        // job, and end everything with status 0 (`job_errors` in `errmgr_dvm.c`).
        return prte::JOB_NAMELESS;
    }
    let Some(runtime) = runtime else { return prte::JOB_FAILED };
    if job.is_aborting() {
        return prte::JOB_ENDS;
    }
    if !runtime.never_ran(state) || job.is_first(nspace) || job.was_ended() || runtime.ended_by_user() {
        return prte::JOB_FAILED;
    }
    // The spawning ranks get the error. Some of PRRTE's mapping functions set the status at once
    // (`prte_rmaps_base_check_oversubscribed`).
    runtime.set_exit_status(0);
    prte::JOB_NEVER_RAN
}

impl Job {
    fn is_first(&self, nspace: &CStr) -> bool {
        self.jobs.number(nspace, 0) == Some(0)
    }

    /// Ranks whose end PRRTE has counted, or that were lost with their runtime daemon (prterun only).
    fn ended_ranks(&self) -> BTreeSet<u32> {
        [&self.counted, &self.terminated, &self.lost].into_iter().flat_map(|ranks| lock(ranks).clone()).collect()
    }

    pub fn dead_ranks(&self) -> impl Iterator<Item = u32> {
        let entries = (0..self.segment.len()).filter_map(|index| self.segment.entry(index));
        entries.filter_map(|entry| if let Entry::Rank(rank) = entry { Some(rank) } else { None })
    }

    fn known_dead(&self) -> u32 {
        u32::try_from(self.dead_ranks().count()).unwrap_or(u32::MAX)
    }

    fn waits_for_deaths(&self, job: Postponed, known: u32) -> bool {
        let known_here = self.known_dead();
        let waiting = &mut lock(&self.mapping).waiting;
        let known_before = waiting.iter().position(|one| one.job == job);
        let place = known_before.unwrap_or_else(|| {
            let until = Instant::now() + self.launch.parameters.timeout * 2 + PATIENCE;
            waiting.push(Waiting { job, known, until, is_due: false });
            waiting.len() - 1
        });
        if waiting[place].is_over(known_here) {
            waiting.swap_remove(place);
            return false;
        }
        waiting[place].is_due = false;
        true
    }

    /// Whether jobs wait to be mapped.
    pub fn has_waiting_maps(&self) -> bool {
        lock(&self.mapping).waiting.iter().any(|one| !one.is_due)
    }

    /// Makes PRRTE map jobs that need not wait any longer. Any thread.
    pub fn carry_on_with_maps(&self) {
        let Some(runtime) = self.runtime() else { return };
        let waiting = &mut lock(&self.mapping).waiting;
        if waiting.is_empty() {
            return;
        }
        let known_here = self.known_dead();
        for one in waiting.iter_mut().filter(|one| !one.is_due && one.is_over(known_here)) {
            one.is_due = true;
            runtime.resume(one.job);
        }
    }

    /// Releases the slots of dead and ended ranks, and withdraws lost nodes.
    fn settle_accounts(&self, runtime: &dyn Runtime) {
        let (mut ended, mut lost) = (self.ended_ranks(), lock(&self.forgotten).clone());
        for entry in (0..self.segment.len()).filter_map(|index| self.segment.entry(index)) {
            match entry {
                Entry::Rank(rank) => drop(ended.insert(rank)),
                Entry::Node(node) => drop(lost.insert(node)),
                Entry::Ready(_) => {}
            }
        }
        if !ended.is_empty() && !runtime.knows_nodes() {
            static FIRST: Once = Once::new();
            FIRST.call_once(|| {
                say("ringwatch: this release of PRRTE keeps the slots of the dead taken, and lost nodes in use: name a living host for what is spawned (info key 'host')");
            });
        }
        lost.into_iter().for_each(|node: NodeId| runtime.lose_node(node));
        let vacated = &mut lock(&self.mapping).vacated;
        for number in ended {
            if let (true, Some((nspace, rank))) = (vacated.insert(number), self.jobs.name_of(number)) {
                runtime.vacate(&nspace, rank);
            }
        }
    }
}
