//! Holds the state of this runtime daemon's fault-tolerant job, from launch to end.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use node_abi::event_loggers::{LOGGER_VARIABLE, socket_name};
use node_abi::group_watch::{self, GROUP_VARIABLE};
use node_abi::jobs::Jobs;
use node_abi::launch::LaunchData;
use node_abi::segment::{ADDRESS_VARIABLE, Entry, FIRST_RANK_VARIABLE, FLAG_ENDED, SEGMENT_VARIABLE, Segment, path_of};
use platform::say::say;
use propagation::NodeId;
use prte_hooks::Runtime;

use crate::environment;
use crate::link::Link;
use crate::network;
use crate::runtimes;
use crate::sync::lock;

pub mod ending;
pub mod mapping;
pub mod revival;

/// Exit status of prterun for a job that could not continue.
pub const JOB_ENDED: c_int = 1;

/// Environment variables for the ranks.
pub type Variables = Vec<(CString, CString)>;

/// The job, set before its ranks are started.
static JOB: OnceLock<Arc<Job>> = OnceLock::new();

/// The job.
pub fn present() -> Option<&'static Arc<Job>> {
    JOB.get()
}

/// Sets the job.
pub fn set(job: Arc<Job>) {
    let _ = JOB.set(job);
}

/// How long prterun waits at its end for the reason why `ringwatchd` has ended the job.
const REASON_WAIT: Duration = Duration::from_secs(1);

/// A fault-tolerant job on this node, with all jobs that it spawns.
pub struct Job {
    /// The jobs of its ranks, and the numbering of ranks.
    pub jobs: Jobs,
    /// Number of this node.
    pub me: NodeId,
    /// The data that prterun sent to every node.
    pub launch: LaunchData,
    /// The node's segment.
    pub segment: Segment,
    /// The link to `ringwatchd`.
    pub link: Link,
    /// Whether prterun has been told to end with a status other than zero.
    ended: AtomicBool,
    /// Whether the user has been told the reason.
    reason_told: (Mutex<bool>, Condvar),
    /// Daemons that PRRTE has been told to forget (prterun only).
    forgotten: Mutex<BTreeSet<NodeId>>,
    /// Ranks of this node that have asked PMIx to finalize, and whose connections are still open.
    leaving: Mutex<BTreeSet<u32>>,
    /// Ranks whose abnormal end PRRTE has counted (prterun only).
    counted: Mutex<BTreeSet<u32>>,
    /// Ranks whose end PRRTE has counted (prterun only).
    terminated: Mutex<BTreeSet<u32>>,
    /// Ranks that were lost with their runtime daemon, whether or not `ringwatchd` has declared them (prterun only).
    lost: Mutex<BTreeSet<u32>>,
    /// Ranks that ended by themselves with a status other than zero (prterun only).
    dissatisfied: Mutex<BTreeSet<u32>>,
    /// Pending corrections to PRRTE's accounts of its nodes (prterun only).
    mapping: Mutex<mapping::Mapping>,
    revivals: Mutex<revival::Revivals>,
    /// State of the job's end (prterun only).
    ending: Mutex<ending::Ending>,
    /// Keeps the segment reachable under its path.
    segment_file: OwnedFd,
}

/// The job that is served on this node, and the runtime if this is prterun.
pub fn served() -> Option<(&'static Job, Option<&'static dyn Runtime>)> {
    let job = present()?;
    Some((job, job.runtime()))
}

/// A rank of this job, or of one that it has spawned, by its number.
pub fn numbered(nspace: &CStr, rank: u32) -> Option<(&'static Arc<Job>, u32)> {
    let job = present()?;
    Some((job, job.jobs.number(nspace, rank)?))
}

impl Job {
    /// A launched job. Node `me` has this segment, in `file`, and this link to its `ringwatchd`.
    pub fn new(nspace: &CStr, launch: LaunchData, me: NodeId, segment: Segment, link: Link, file: OwnedFd) -> Self {
        Self {
            jobs: Jobs::new(nspace, launch.rank_nodes.len()),
            me,
            launch,
            segment,
            link,
            ended: AtomicBool::new(false),
            reason_told: Default::default(),
            forgotten: Mutex::default(),
            leaving: Mutex::default(),
            counted: Mutex::default(),
            terminated: Mutex::default(),
            lost: Mutex::default(),
            dissatisfied: Mutex::default(),
            mapping: Mutex::default(),
            revivals: Mutex::default(),
            ending: Mutex::default(),
            segment_file: file,
        }
    }

    /// Notes that a rank of this node has asked PMIx to finalize.
    pub fn note_leaving(&self, rank: u32) {
        lock(&self.leaving).insert(rank);
    }

    /// Handles the end of a local rank's connection. Returns whether the rank had asked to finalize.
    pub fn has_left(&self, rank: u32) -> bool {
        lock(&self.leaving).remove(&rank)
    }

    /// Notes that PRRTE counts the end of a rank. Returns whether it has done so before.
    pub fn was_terminated(&self, rank: u32) -> bool {
        !lock(&self.terminated).insert(rank)
    }

    /// Whether PRRTE has counted the end of a rank.
    pub fn is_terminated(&self, rank: u32) -> bool {
        lock(&self.terminated).contains(&rank)
    }

    /// Notes that PRRTE counts the abnormal end of a rank. Returns whether it has done so before.
    pub fn was_counted(&self, rank: u32) -> bool {
        !lock(&self.counted).insert(rank)
    }

    /// Notes that a rank ended by itself with a status other than zero.
    pub fn note_dissatisfied(&self, rank: u32) {
        lock(&self.dissatisfied).insert(rank);
    }

    /// Whether prterun has been told to end with a status other than zero.
    pub fn was_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Numbers of a job's ranks, each with its node: of the first job, or of a spawned one. `None` for a program
    /// without MPI or another job.
    pub fn rank_nodes_of(&self, nspace: &str) -> Option<Vec<(u32, NodeId)>> {
        if nspace == self.launch.nspace {
            return Some((0..).zip(self.launch.rank_nodes.iter().copied()).collect());
        }
        self.jobs.spawned_rank_nodes(nspace)
    }

    /// Handles a node that was declared dead: prterun gives up its daemon.
    pub fn node_dead(&self, node: NodeId) {
        if let Some(runtime) = runtimes::launcher() {
            if !lock(&self.forgotten).contains(&node) && !runtime.ending() {
                // SAFETY: PMIx is initialised while a job runs.
                let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
                runtime.report_daemon_lost(own, node);
            }
        }
    }

    /// The runtime, in prterun.
    pub fn runtime(&self) -> Option<&'static dyn Runtime> {
        runtimes::launcher().filter(|_| self.me == 0)
    }

    /// Whether the job is being ended, by prterun or through it. A process that dies then is not lost.
    pub fn is_being_ended(&self) -> bool {
        let by_runtime = || runtimes::launcher().is_some_and(|runtime| runtime.ending() || runtime.ended_by_user());
        self.ended.load(Ordering::SeqCst) || by_runtime()
    }

    /// Whether PRRTE has counted the end of this rank, other than as lost with its daemon (prterun only).
    pub fn has_ended(&self, rank: u32) -> bool {
        lock(&self.terminated).contains(&rank) && !lock(&self.lost).contains(&rank)
    }

    /// Whether PRRTE has counted the end of this rank, and not as a failure. It counts killed ranks, too (prterun
    /// only).
    pub fn has_ended_in_order(&self, rank: u32) -> bool {
        self.has_ended(rank) && !lock(&self.counted).contains(&rank)
    }

    /// Daemons that prterun has given up and `ringwatchd` has not declared dead.
    pub fn lost_daemons(&self) -> BTreeSet<NodeId> {
        let mut lost = lock(&self.forgotten).clone();
        for entry in (0..self.segment.len()).filter_map(|index| self.segment.entry(index)) {
            if let Entry::Node(node) = entry {
                lost.remove(&node);
            }
        }
        lost
    }

    /// Makes prterun wait for no daemon any more (prterun only).
    pub fn forget_everybody(&self) {
        if let Some(runtime) = self.runtime() {
            // SAFETY: PMIx is initialised while prterun runs.
            let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
            (1..self.launch.universe).for_each(|daemon| runtime.report_daemon_lost(own, daemon));
        }
    }

    /// Ends a job that cannot continue: prints the reason and makes prterun return a status other than zero. If the
    /// user has ended the job through prterun, no reason is printed, and the status is prterun's own.
    pub fn end(&self, sentence: &str) {
        // Only the first reason is printed; later ones follow from it.
        let Some(runtime) = runtimes::launcher().filter(|_| !self.ended.swap(true, Ordering::SeqCst)) else { return };
        if runtime.ended_by_user() {
            runtime.end_job(runtime.exit_status());
        } else {
            // The status is set first: PRRTE may be about to exit with it.
            runtime.set_exit_status(JOB_ENDED);
            say(&format!("ringwatch: {sentence}"));
            runtime.end_job(JOB_ENDED);
        }
        self.tell_reason();
    }

    fn tell_reason(&self) {
        *lock(&self.reason_told.0) = true;
        self.reason_told.1.notify_all();
    }

    /// Waits in PRRTE's thread, when all processes have ended, for `ringwatchd`'s reason and prterun's status, if
    /// `ringwatchd` has ended the job.
    pub fn wait_for_the_reason(&self) {
        if self.runtime().is_none() || self.segment.flags() & FLAG_ENDED == 0 {
            return;
        }
        let (told, changed) = &self.reason_told;
        drop(changed.wait_timeout_while(lock(told), REASON_WAIT, |told| !*told));
        self.end("the job was ended, and the reason is in the log of the node of mpirun");
    }

    /// Environment variables for the ranks of the job whose first rank has this number.
    pub fn variables(&self, first: u32) -> Variables {
        let uid = nix::unistd::geteuid().as_raw();
        let own = [
            (SEGMENT_VARIABLE.to_owned(), path_of(&self.segment_file)),
            (FIRST_RANK_VARIABLE.to_owned(), first.to_string()),
            (GROUP_VARIABLE.to_owned(), group_watch::socket_name(uid, self.launch.job, self.me)),
        ];
        let logger = || (LOGGER_VARIABLE.to_owned(), socket_name(uid, self.launch.job, self.me));
        let logger = self.launch.parameters.event_loggers.map(|_| logger());
        let addresses = network::addresses(&self.launch.parameters.interfaces).unwrap_or_default();
        let address = addresses.first().map(|address| (ADDRESS_VARIABLE.to_owned(), address.to_string()));
        let of_all = self.launch.rank_environment.iter().cloned().map(|(name, value)| match &*name {
            environment::PRELOAD => (name, environment::preloaded(&value)),
            _ => (name, value),
        });
        let all = of_all.chain(own).chain(logger).chain(address);
        all.filter_map(|(name, value)| Some((CString::new(name).ok()?, CString::new(value).ok()?))).collect()
    }

    /// Sets prterun's status at the end of the last job if no rank of any job has ended in order, even if `ringwatchd`
    /// has not reported that yet. PRRTE's counts prove nothing: a rank whose `MPI_Finalize` a failure has cut short
    /// does not report to PRRTE.
    pub fn tell_if_nobody_is_left(&self) {
        let Some(runtime) = runtimes::launcher() else { return };
        let entries = (0..self.segment.len()).filter_map(|index| self.segment.entry(index));
        let mut dead: BTreeSet<u32> =
            entries.filter_map(|entry| if let Entry::Rank(rank) = entry { Some(rank) } else { None }).collect();
        dead.extend(lock(&self.lost).iter());
        let own = 0..u32::try_from(self.launch.rank_nodes.len()).unwrap_or(u32::MAX);
        let nobody = own.chain(self.jobs.spawned_ranks()).all(|rank| dead.contains(&rank));
        if nobody && runtime.exit_status() == 0 && !self.ended.swap(true, Ordering::SeqCst) {
            say("ringwatch: every rank of the job is dead; the job is ended");
            runtime.set_exit_status(JOB_ENDED);
        }
    }

    /// Passes on exit statuses at the end of the job: a status after `MPI_Finalize` is no process failure, but the
    /// program's own result, which prterun's status must not hide. Statuses of dead ranks do not count.
    pub fn pass_on_statuses(&self) {
        let Some(runtime) = runtimes::launcher() else { return };
        let mut dissatisfied = lock(&self.dissatisfied).clone();
        for entry in (0..self.segment.len()).filter_map(|index| self.segment.entry(index)) {
            if let Entry::Rank(rank) = entry {
                dissatisfied.remove(&rank);
            }
        }
        if !dissatisfied.is_empty() && runtime.exit_status() == 0 {
            runtime.set_exit_status(JOB_ENDED);
        }
    }

    pub fn forget_daemon(&self, runtime: &dyn Runtime, daemon: NodeId) {
        if lock(&self.forgotten).insert(daemon) {
            runtime.forget_daemon(daemon);
            for rank in self.launch.ranks_of(daemon).chain(self.jobs.spawned_ranks_of(daemon)) {
                if !lock(&self.terminated).contains(&rank) {
                    lock(&self.lost).insert(rank);
                }
                if let Some((nspace, rank)) = self.jobs.name_of(rank) {
                    runtime.report_rank_lost(&nspace, rank);
                }
            }
        }
    }
}
