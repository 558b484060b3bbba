//! A fault-tolerant job that cannot go on ends with a status other than zero and one sentence that says why.

use std::time::Duration;

use system_tests::programs::compile;
use system_tests::{Job, Lab, Running, SLACK, STOP_TIMEOUT, TIMEOUT, in_lab, process};

/// All ranks of the job die at once.
#[test]
fn every_rank_dies() {
    in_lab(|lab| {
        let everybody: Vec<u32> = (0..8).collect();
        let mut job = Job::new().blocked_in("allreduce", &everybody).arguments(&["--die", "kill"]).start(lab);
        job.wait_until_blocked();
        job.go();
        job.finish().gave_up(&["every rank", "dead"]);
    });
}

/// The nodes with all the ranks are cut off: nothing is left on prterun's side.
#[test]
fn the_side_of_prterun_has_no_rank_left() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[]).arguments(&["--hold"]).start(lab);
        job.wait_until_blocked();
        let pids: Vec<i32> = job.ranks().into_iter().map(|rank| job.pid(rank)).collect();
        ["h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        for rank in [0, 1] {
            let _ = job.signal_rank(rank, libc::SIGKILL);
        }
        let _ = job.split(&["h2", "h3", "h4"], true);
        job.wait_until_gone("ranks", &pids, TIMEOUT * 2 + SLACK);
        job.finish().gave_up(&["every rank", "dead"]);
    });
}

/// `MPI_Abort` ends the job as ever, and its status says so.
fn mpi_abort(lab: &Lab, callers: &[u32]) {
    let mut job = Job::new().blocked_in("allreduce", callers).arguments(&["--die", "mpiabort", "--hold"]).start(lab);
    job.wait_until_blocked();
    job.go();
    let outcome = job.finish();
    outcome.require(outcome.status != 0, "mpirun's exit status is not 0");
    outcome.require(outcome.diaries.all("done").next().is_none(), "no rank goes on");
    outcome.require(outcome.stderr.contains("MPI_ABORT"), "mpirun says who called MPI_Abort");
    outcome.left_nothing();
}

#[test]
fn a_rank_calls_mpi_abort() {
    in_lab(|lab| mpi_abort(lab, &[5]));
}

#[test]
fn a_rank_on_the_host_of_prterun_calls_mpi_abort() {
    in_lab(|lab| mpi_abort(lab, &[0]));
}

#[test]
fn all_ranks_call_mpi_abort() {
    in_lab(|lab| mpi_abort(lab, &[0, 1, 2, 3, 4, 5, 6, 7]));
}

/// Of what the ranks have printed nothing is lost, and mpirun's status says that they have not come to their end.
fn last_words(end: &str) {
    const LINES: usize = 200;
    in_lab(|lab| {
        for (hosts, per_host) in [(&["h1", "h2", "h3", "h4"][..], 1), (&["h1"][..], 4)] {
            let job = Job::new().on(hosts, per_host).options(&["--bind-to", "none", "--oversubscribe"]);
            let outcome = job.diarist(&compile("last_words", "mpicc")).arguments(&["--end", end]).run(lab);
            outcome.require(outcome.status == 1, "mpirun's exit status is 1");
            outcome.require(outcome.diaries.all("printed").next().is_some(), "somebody has printed");
            for rank in 0..4 {
                // Where others end the job, too, one may be ended before it comes to that.
                let has = |event| usize::from(outcome.diaries.has(rank, event));
                let lines = LINES * has("printed") + has("handled");
                outcome.require(lines > 0 || end != "one", &format!("rank {rank} has printed"));
                let start = format!("rank {rank} line ");
                // After a help message there may be a NUL (plog_stdfd.c:147).
                let shown = outcome.stdout.lines().map(|line| line.trim_start_matches('\0'));
                let shown = shown.filter(|line| line.starts_with(&start)).count();
                // It may have been killed before it could write so into its diary.
                outcome.require(shown >= lines, &format!("rank {rank} is shown with {lines} lines, not {shown}"));
            }
            outcome.left_nothing();
        }
    });
}

#[test]
fn what_was_printed_before_one_calls_mpi_abort_is_shown() {
    last_words("one");
}

#[test]
fn what_was_printed_before_all_call_mpi_abort_is_shown() {
    last_words("all");
}

#[test]
fn what_was_printed_before_all_die_is_shown() {
    last_words("die");
}

#[test]
fn what_was_printed_before_all_abort_over_a_spawn_is_shown() {
    last_words("spawn");
}

/// Something that would need fencing happens, and the user has switched fencing off.
fn without_fencing(lab: &Lab, words: &[&str], stay: Duration, strike: impl FnOnce(&mut Running<'_>)) {
    let mut job = Job::new().parameter("fence", "false").blocked_in("mixed", &[4, 5]).arguments(&["--hold"]).start(lab);
    job.wait_until_blocked();
    strike(&mut job);
    let outcome = job.finish();
    outcome.require(outcome.diaries.all("done").next().is_none(), "no rank goes on");
    // Nobody may kill what is on a lost node: that is what switching fencing off means.
    std::thread::sleep(stay);
    let left: Vec<_> = process::on_hosts()
        .into_iter()
        .filter(|one| one.host == "h3" && ["prted", "survivor"].contains(&&*one.name))
        .collect();
    let ranks = left.iter().filter(|one| one.name == "survivor").count();
    outcome.require(stay.is_zero() || ranks == 2, &format!("both ranks live on, not {ranks}"));
    for one in left {
        process::signal(one.pid, libc::SIGKILL);
    }
    outcome.gave_up(&[&["fencing"], words].concat());
}

#[test]
fn a_rank_is_stopped_and_fencing_is_off() {
    in_lab(|lab| {
        without_fencing(lab, &["rank 5", "stopped"], Duration::ZERO, |job| {
            let _ = job.signal_rank(5, libc::SIGSTOP);
        });
    });
}

#[test]
fn a_prted_is_killed_and_fencing_is_off() {
    in_lab(|lab| {
        without_fencing(lab, &["node 2"], Duration::ZERO, |job| {
            job.loses("h3");
            process::signal(job.runtime("h3"), libc::SIGKILL);
        });
    });
}

#[test]
fn a_prted_is_stopped_and_fencing_is_off() {
    in_lab(|lab| {
        without_fencing(lab, &["node 2"], Duration::ZERO, |job| {
            job.loses("h3");
            process::signal(job.runtime("h3"), libc::SIGSTOP);
        });
    });
}

#[test]
#[ignore = "waits long: a part of scripts/test --full"]
fn a_link_is_cut_and_fencing_is_off() {
    in_lab(|lab| {
        without_fencing(lab, &["node 2"], Duration::from_secs(12), |job| {
            let _ = job.cut("h3");
        });
    });
}

#[test]
fn a_node_is_killed_and_fencing_is_off() {
    in_lab(|lab| {
        without_fencing(lab, &["node 2"], Duration::ZERO, |job| {
            let _ = job.kill_host("h3");
        });
    });
}

/// A rank that is dead for certain needs no fencing.
#[test]
fn a_rank_is_killed_and_fencing_is_off_is_no_reason_to_end() {
    in_lab(|lab| {
        let mut job = Job::new().parameter("fence", "false").blocked_in("mixed", &[5]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(5, libc::SIGKILL);
        job.finish().recovered(&[5]);
    });
}

/// A node is lost in a fault-tolerant job without ringwatch: stock ends it with status 0, which is a defect.
#[test]
fn a_node_is_killed_and_ringwatch_is_off() {
    in_lab(|lab| {
        let mut job =
            Job::new().parameter("enable", "false").blocked_in("mixed", &[4, 5]).arguments(&["--hold"]).start(lab);
        job.wait_until_blocked();
        if job.processes().iter().any(|process| process.name == "ringwatchd") {
            job.fail("a job that switches ringwatch off has no ringwatchd");
        }
        let _ = job.kill_host("h3");
        job.finish().gave_up(&["enable"]);
    });
}

/// Stock ends such a job with status 0, too.
#[test]
fn every_rank_dies_and_ringwatch_is_off() {
    in_lab(|lab| {
        let everybody: Vec<u32> = (0..8).collect();
        let job = Job::new().parameter("enable", "false").blocked_in("allreduce", &everybody);
        let mut job = job.arguments(&["--die", "kill"]).start(lab);
        job.wait_until_blocked();
        job.go();
        job.finish().gave_up(&["every rank", "dead", "enable"]);
    });
}

/// The last rank of prterun's side dies together with a node, while a rank is stopped: everything at once.
#[test]
fn all_kinds_of_failures_leave_nobody() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        let _ = job.kill_host("h4");
        job.cut("h3");
        job.loses("h2");
        process::signal(job.runtime("h2"), libc::SIGKILL);
        let _ = job.signal_rank(0, libc::SIGKILL);
        let at = job.signal_rank(1, libc::SIGSTOP);
        let outcome = job.finish();
        let took = outcome.ended_at.saturating_sub(at);
        outcome.require(took < STOP_TIMEOUT + TIMEOUT * 2 + SLACK * 2, &format!("it ends in time, not after {took:?}"));
        outcome.gave_up(&["every rank", "dead"]);
    });
}
