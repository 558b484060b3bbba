//! Replication: each rank has several processes, what they send is compared, and a killed one costs nothing but time.

use std::fs;
use std::time::Duration;

use system_tests::programs::compile;
use system_tests::replicated::{RANKS, is_right, job, logging, replicated, undisturbed};
use system_tests::{Job, in_lab};

const LIMIT: Duration = Duration::from_secs(25);
const LINES: u32 = 20_000;

#[test]
fn killed_replicas_change_nothing_and_the_output_appears_once() {
    in_lab(|lab| {
        // Of the rank that receives from any source, the replica that is first; and one of another rank in the middle
        // of collective operations.
        for (method, deaths) in [("asynchash", &["0", "60", "3", "150"]), ("alltoall", &["0", "150", "2", "20"])] {
            let outcome = job(lab, 2, &[("replicas_method", method)], deaths).run(lab);
            outcome.require(outcome.losses().len() == 2, "two processes were lost");
            is_right(lab, &outcome).left_nothing();
        }
    });
}

#[test]
fn a_lost_node_with_a_replica_of_two_ranks_changes_nothing() {
    in_lab(|lab| {
        undisturbed(lab);
        let mut job = job(lab, 2, &[], &[]).start(lab);
        let printed = job.folder().join("stdout");
        let has_begun = || fs::read_to_string(&printed).is_ok_and(|text| text.contains("step 50"));
        job.wait("the ranks are in the middle", LIMIT, |_| has_begun());
        job.kill_host("h2");
        let outcome = job.finish();
        outcome.require(!outcome.losses().is_empty(), "the node is lost before the end");
        is_right(lab, &outcome).left_nothing();
    });
}

/// Text is on its way when the replica that prints is lost with its node.
#[test]
fn no_line_is_lost_or_repeated_when_the_node_that_prints_is_lost() {
    in_lab(|lab| {
        let program = compile("lines", "mpicc").display().to_string();
        let job = replicated(2, &[]).on(&["h1", "h2"], RANKS).launched_from("h3");
        let mut job = job.program(&[&program, &LINES.to_string()]).start(lab);
        let printed = job.folder().join("stdout");
        let has_begun = || fs::read_to_string(&printed).is_ok_and(|text| text.lines().count() > 1_000);
        job.wait("the ranks print", LIMIT, |_| has_begun());
        job.kill_host("h1");
        let outcome = job.finish();
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        outcome.require(!outcome.losses().is_empty(), "the node is lost before the end");
        let lines: String = (0..LINES).map(|line| format!("line {line}\n")).collect();
        outcome.require(outcome.stdout == lines, "each line is printed once and in order").left_nothing();
    });
}

/// Collective operations without blocking, persistent and with neighbours, messages of all modes, cancelled receives,
/// communicators and groups.
#[test]
fn functions_give_what_message_logging_gives_also_when_a_replica_is_killed() {
    in_lab(|lab| {
        let (program, folder) =
            (compile("functions", "mpicc").display().to_string(), lab.folder().display().to_string());
        let words = [&*program, &*folder, "3", "0", "10"];
        let expected = logging(&words[..3]).run(lab);
        expected.require(expected.stdout.lines().count() == 3, "the run without replicas has an end");
        let outcome = replicated(2, &[]).program(&words).run(lab);
        outcome.require(outcome.status == 0 && outcome.losses().len() == 1, "a process is lost, and mpirun returns 0");
        outcome.require(outcome.stdout == expected.stdout, &format!("the output is {}", expected.stdout));
        outcome.left_nothing();
    });
}

#[test]
fn a_flipped_bit_is_found_with_two_replicas_and_corrected_with_three() {
    in_lab(|lab| {
        let flip = ("corrupt", "1.1:12:5");
        let found = "of the sender differ, and no majority settles it";
        let outcome = job(lab, 2, &[flip], &[]).run(lab);
        outcome.require(outcome.stderr.contains(found) && outcome.status != 0, "the job ends with a sentence");
        outcome.left_nothing();
        let outcome = job(lab, 2, &[flip, ("replicas_on_mismatch", "report")], &[]).run(lab);
        outcome.require(outcome.stderr.contains(found), "it is said, and the job goes on");
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        let outcome = job(lab, 3, &[flip, ("replicas_method", "async")], &[]).run(lab);
        let blamed = "replica 1 of rank 1 has sent message";
        outcome.require(outcome.stderr.contains(blamed), "a sentence names the corrupt replica");
        is_right(lab, &outcome).left_nothing();
    });
}

#[test]
fn a_job_that_cannot_be_replicated_ends_with_a_sentence() {
    in_lab(|lab| {
        let ended = |job: Job, why: &str| {
            let outcome = job.run(lab);
            let said = outcome.stderr.matches(why).count();
            outcome.require(said == 1 && outcome.status != 0, &format!("'{why}' is said once")).left_nothing();
        };
        ended(job(lab, 2, &[], &[]).ranks(7), "7 processes cannot be ranks with 2 replicas each");
        ended(job(lab, 2, &[], &[]).without_fault_tolerance(), "there is no replication");
    });
}
