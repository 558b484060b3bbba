//! Every survivor gets `MPI_ERR_PROC_FAILED` from the operation that it is in, before anybody has revoked anything.

use system_tests::diary::{Entry, PROC_FAILED};
use system_tests::programs::compile;
use system_tests::{Job, Running, in_lab, process};

/// The ranks of h3 die, or one of them.
fn strikes(operation: &str, victims: &[u32], strike: impl Fn(&mut Running<'_>)) {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in(operation, victims).arguments(&["--patient"]).start(lab);
        job.wait_until_blocked();
        strike(&mut job);
        let survivors = job.others(victims);
        job.wait_for("error", &survivors);
        for rank in survivors {
            let class = job.diaries().first(rank, "error").map(|entry| entry.details[0].clone());
            if class.as_deref() != Some(PROC_FAILED) {
                job.fail(&format!("rank {rank} gets MPI_ERR_PROC_FAILED in {operation}, not {class:?}"));
            }
        }
        job.revoke();
        job.finish().recovered(victims);
    });
}

#[test]
fn of_a_rank_that_was_killed() {
    for operation in ["recv", "any", "ask"] {
        strikes(operation, &[5], |job| {
            let _ = job.signal_rank(5, libc::SIGKILL);
        });
    }
}

#[test]
fn of_a_rank_that_crashes() {
    strikes("allreduce", &[5], |job| {
        let _ = job.signal_rank(5, libc::SIGSEGV);
    });
}

#[test]
fn of_a_rank_that_is_stopped() {
    strikes("any", &[5], |job| {
        let _ = job.signal_rank(5, libc::SIGSTOP);
    });
}

#[test]
fn of_a_prted_that_was_killed() {
    strikes("barrier", &[4, 5], |job| {
        job.loses("h3");
        process::signal(job.runtime("h3"), libc::SIGKILL);
    });
}

#[test]
fn of_a_node_that_was_killed() {
    strikes("allreduce", &[4, 5], |job| {
        let _ = job.kill_host("h3");
    });
}

#[test]
fn of_a_link_that_was_cut() {
    strikes("recv", &[4, 5], |job| {
        let _ = job.cut("h3");
    });
}

/// Between two groups Open MPI 5.0.7 gives the root whatever lies in the memory of the other group's first member, with
/// success.
#[test]
fn of_a_root_that_lacks_the_part_of_the_dead() {
    in_lab(|lab| {
        let operations = ["reduce", "gather"];
        let job = Job::new().on(&["h1"], 8).options(&["--bind-to", "none"]);
        let outcome = job.diarist(&compile("gathered", "mpicc")).arguments(&operations).run(lab);
        let got: Vec<_> = outcome.diaries.of(7).filter(|entry| entry.event == "got").map(Entry::text).collect();
        let expected = operations.map(|operation| format!("{operation} {PROC_FAILED}"));
        outcome.require(got == expected, &format!("the root gets an error each time, not {got:?}"));
        for rank in outcome.survivors(&[5, 6]) {
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}
