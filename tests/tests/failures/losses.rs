//! Each loss leaves one line on mpirun's standard error, and no other.

use system_tests::programs::compile;
use system_tests::{Job, Lab, Running, in_lab, process};

/// Strikes a job, of which these ranks die, and returns what mpirun has said, line by line.
fn said(lab: &Lab, dead: &[u32], strike: impl Fn(&mut Running<'_>)) -> Vec<String> {
    let mut job = Job::new().blocked_in("allreduce", dead).start(lab);
    job.wait_until_blocked();
    strike(&mut job);
    let outcome = job.finish();
    outcome.recovered(dead);
    outcome.stderr.lines().filter(|line| !line.trim().is_empty()).map(ToOwned::to_owned).collect()
}

fn signal_rank_5(job: &mut Running<'_>, signal: i32) {
    let _ = job.signal_rank(5, signal);
}

#[test]
fn a_rank_that_is_killed_is_one_line() {
    in_lab(|lab| {
        let said = said(lab, &[5], |job| signal_rank_5(job, libc::SIGKILL));
        assert_eq!(said, ["ringwatch: rank 5 on h3 was killed by signal 9; 7 ranks go on"]);
    });
}

#[test]
fn a_rank_that_is_stopped_is_one_line() {
    in_lab(|lab| {
        let said = said(lab, &[5], |job| signal_rank_5(job, libc::SIGSTOP));
        assert_eq!(said, ["ringwatch: rank 5 on h3 was stopped for more than 400ms; 7 ranks go on"]);
    });
}

#[test]
fn a_runtime_daemon_that_is_killed_is_one_line() {
    in_lab(|lab| {
        let said = said(lab, &[4, 5], |job| {
            job.loses("h3");
            process::signal(job.runtime("h3"), libc::SIGKILL);
        });
        let [line] = &said[..] else { panic!("one line, not {said:?}") };
        let (begin, end) = ("ringwatch: node h3 (ranks 4, 5) was lost: ", " runtime daemon (prted)");
        assert!(line.starts_with(begin) && line.contains(end) && line.ends_with("; 6 ranks go on"), "{line}");
    });
}

#[test]
fn a_node_that_falls_silent_is_one_line() {
    in_lab(|lab| {
        let said = said(lab, &[4, 5], |job| {
            job.loses("h3");
            lab.cut("h3");
        });
        assert_eq!(said, ["ringwatch: node h3 (ranks 4, 5) was lost: no heartbeat for 300ms; 6 ranks go on"]);
    });
}

/// Programs that end by themselves are not said to be dead.
#[test]
fn what_is_said_of_programs_that_end_by_themselves_is_so() {
    in_lab(|lab| {
        let outcome = Job::new().on(&["h1", "h2"], 2).program(&["false"]).run(lab);
        outcome.require(outcome.status == 1, "mpirun's status is 1");
        let is_so = |line: &&str| line.contains("every rank of the job has ended without MPI_Finalize");
        let sentences = outcome.sentences();
        outcome.require(sentences.iter().all(is_so), &format!("nobody is said to be dead: {sentences:?}"));
        outcome.left_nothing();
    });
}

/// PMIx closes sockets for which libevent still waits.
#[test]
fn nothing_is_said_of_the_sockets_of_ranks_that_end_at_once() {
    in_lab(|lab| {
        let program = compile("ends", "mpicc").display().to_string();
        for _ in 0..5 {
            let outcome = Job::new().on(&["h1"], 8).options(&["--bind-to", "none"]).program(&[&program]).run(lab);
            outcome.require(outcome.status != 0, "mpirun's status is not 0");
            outcome.require(!outcome.stderr.contains("[warn]"), "libevent says nothing").left_nothing();
        }
    });
}

/// Open MPI says of every component that it is not tested with failures: those that ringwatch stands around are.
#[test]
fn windows_and_topologies_are_made_without_a_word() {
    in_lab(|lab| {
        let program = compile("makes", "mpicc").display().to_string();
        let outcome = Job::new().program(&[&program]).run(lab);
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        let said: Vec<&str> = outcome.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        outcome.require(said.is_empty(), &format!("mpirun says nothing, not {said:?}"));
        outcome.left_nothing();
    });
}
