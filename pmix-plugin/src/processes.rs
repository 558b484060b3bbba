//! Handles reports of PMIx and PRRTE about processes that leave, end or are lost.

use std::ffi::CStr;
use std::sync::Once;

use node_abi::launch::ToDaemon;
use platform::say::say;
use propagation::{NodeId, RankReason};
use prte_hooks::{ProcessEvent, Runtime};

use crate::job::{JOB_ENDED, numbered, present};
use crate::{component, runtimes, unserved};

/// Notes that a local client finalizes, and waits for the runtime's permission to leave.
pub fn client_finalizes(nspace: &CStr, rank: u32) {
    if let Some((job, rank)) = numbered(nspace, rank) {
        job.note_leaving(rank);
    }
}

/// Reports to the runtime that a local client has called `PMIx_Abort`. Returns whether it could.
pub fn client_aborts(nspace: &CStr, rank: u32) -> bool {
    match (numbered(nspace, rank), runtimes::own()) {
        (Some(_), Some(runtime)) => {
            runtime.report_abort(nspace, rank);
            true
        }
        _ => false,
    }
}

/// Handles the end of a local client. `finalized` is PMIx's view, which may be late.
pub fn client_gone(nspace: &CStr, rank: u32, finalized: bool) {
    let Some((job, number)) = numbered(nspace, rank) else { return };
    if job.has_left(number) || finalized {
        client_is_known(nspace, rank);
    } else {
        job.link.report(ToDaemon::RankLost { rank: number, reason: RankReason::Reported });
    }
}

/// Notes that a local client has published its addresses, or has left in order.
pub fn client_is_known(nspace: &CStr, rank: u32) {
    if let Some((job, rank)) = numbered(nspace, rank).filter(|(job, _)| job.launch.ranks_register) {
        if let Some(slot) = job.segment.slot_of(rank) {
            job.segment.pass_by(slot);
        }
    }
}

/// Handles an error of a process before PRRTE does, in its own thread. Returns whether PRRTE need not act.
pub fn process_state(nspace: &CStr, rank: u32, state: u32) -> bool {
    let Some(runtime) = runtimes::launcher() else {
        own_rank_state(nspace, rank, state);
        return false;
    };
    // SAFETY: PMIx is initialised while PRRTE runs.
    let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
    let kind = runtime.classify(state);
    if nspace == own {
        let lost = kind == ProcessEvent::DaemonLost && rank != 0 && !runtime.ending();
        if lost {
            daemon_lost(runtime, rank);
        }
        return lost;
    }
    let Some((job, number)) = numbered(nspace, rank) else {
        if kind == ProcessEvent::Abnormal {
            unserved::lose(nspace, rank);
        }
        return false;
    };
    match kind {
        ProcessEvent::Other | ProcessEvent::DaemonLost => false,
        ProcessEvent::Ended => {
            job.link.report(ToDaemon::RankEnded(number));
            // PRRTE reports a rank that was reported dead as ended again, together with the last rank of its node.
            let is_known = job.was_terminated(number);
            if is_known {
                job.output_is_complete(number);
            }
            is_known
        }
        // PRRTE does not report the ranks that MPI_Abort was meant for. It kills all ranks, as the standard's usual
        // choice.
        ProcessEvent::Abort => {
            job.end_ranks(&format!("rank {number} called MPI_Abort; the job is ended"));
            true
        }
        // PRRTE would end the whole job. For the survivors it is an ordinary death.
        ProcessEvent::NonZeroExit => {
            job.note_dissatisfied(number);
            job.link.report(ToDaemon::RankLost { rank: number, reason: RankReason::Reported });
            runtime.report_rank_lost(nspace, rank);
            true
        }
        // PRRTE counts every report as a further ended process, and ends the job when the count is complete.
        ProcessEvent::Abnormal => {
            job.link.report(ToDaemon::RankLost { rank: number, reason: RankReason::Reported });
            job.was_counted(number)
        }
    }
}

/// Handles a rank's state in a daemon other than prterun: PRRTE reports an end in order to prterun only when all ranks
/// of the node have ended.
fn own_rank_state(nspace: &CStr, rank: u32, state: u32) {
    if let (Some((job, rank)), Some(runtime)) = (numbered(nspace, rank), runtimes::other()) {
        match runtime.classify(state) {
            ProcessEvent::Ended => job.link.report(ToDaemon::RankEnded(rank)),
            // Only its own node can report a rank that ended before MPI.
            ProcessEvent::Abnormal | ProcessEvent::NonZeroExit => {
                job.link.report(ToDaemon::RankLost { rank, reason: RankReason::Reported });
            }
            _ => {}
        }
    }
}

/// Handles a message that PRRTE could not send, for which it would end everything. Returns whether PRRTE need not act:
/// in a fault-tolerant job the receiving daemon is lost, which the end of its connection will report. [`Runtime::call`]
/// calls this function, too.
pub fn send_failed() -> bool {
    let Some(job) = present() else { return false };
    match (runtimes::launcher(), runtimes::other()) {
        (Some(runtime), _) => {
            job.abort_jobs(runtime);
            !runtime.ending()
        }
        (None, Some(runtime)) => job.revive_jobs(runtime),
        (None, None) => false,
    }
}

/// Handles a daemon whose connection is broken.
fn daemon_lost(runtime: &dyn Runtime, daemon: NodeId) {
    let Some(job) = present() else {
        // The job is ending, and other daemons' losses follow from that.
        static FIRST: Once = Once::new();
        runtime.forget_daemon(daemon);
        FIRST.call_once(|| {
            let when = if component::is_launching() { "the job was being launched" } else { unserved::NOT_AT_WORK };
            say(&format!("ringwatch: a node of this fault-tolerant job was lost while {when}; the job is ended"));
            runtime.end_job(JOB_ENDED);
        });
        return;
    };
    job.link.tell(&ToDaemon::ConnectionLost(daemon));
    job.forget_daemon(runtime, daemon);
    // The launcher's ssh to the lost node sets its own status, which is unrelated to the job's.
    if !job.was_ended() {
        runtime.set_exit_status(0);
    }
}
