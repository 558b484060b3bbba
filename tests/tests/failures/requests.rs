//! Requests end: those of receives from anybody that were pending, and those of collectives that do not block.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use system_tests::diary::{Entry, PROC_FAILED, REVOKED};
use system_tests::programs::compile;
use system_tests::{Job, in_lab};

/// Of each job of `pending`: what is required of a request.
const PENDING_CHECKS: &str = "5472";
/// Of each rank of `revoked`: operations of a round, and victims, one in each round.
const OPERATIONS: usize = 44;
const VICTIMS: [u32; 4] = [7, 6, 5, 4];
const SUCCESS: &str = "0";

fn on_one_host() -> Job {
    Job::new().on(&["h1"], 8).options(&["--bind-to", "none"])
}

/// Every function that completes requests has the message that has come, whoever has turned the progress loop.
fn pending(job: Job) {
    in_lab(|lab| {
        let outcome = job.clone().diarist(&compile("pending", "mpicc")).run(lab);
        let wrong: Vec<String> = outcome.diaries.all("wrong").map(Entry::text).collect();
        outcome.require(wrong.is_empty(), &format!("all requests are as they should be: {wrong:#?}"));
        let right = outcome.diaries.first(0, "right").map(Entry::text);
        outcome.require(right.as_deref() == Some(PENDING_CHECKS), &format!("all are looked at: {right:?}"));
        for rank in outcome.survivors(&VICTIMS) {
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

#[test]
fn of_receives_from_anybody_have_their_messages_after_an_acknowledgement() {
    pending(Job::new());
}

#[test]
fn of_receives_from_anybody_on_one_host_have_their_messages_after_an_acknowledgement() {
    pending(on_one_host());
}

fn revoked() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("revoked", "mpicc"))
}

/// Everybody's wait for every operation ends, and that it cannot succeed is told by its request.
fn collectives_end(job: &Job, how: &str) {
    in_lab(|lab| {
        for seed in lab.seeds(1) {
            let job = job.clone().diarist(revoked()).arguments(&["--how", how, "--seed", &seed.to_string()]);
            let outcome = job.run(lab);
            let refused: Vec<String> = outcome.diaries.all("refused").map(Entry::text).collect();
            outcome.require(refused.is_empty(), &format!("every operation begins (seed {seed}): {refused:#?}"));
            let lost: Vec<String> = outcome.diaries.all("lost").map(Entry::text).collect();
            outcome.require(lost.is_empty(), &format!("no error is lost (seed {seed}): {lost:#?}"));
            for rank in outcome.survivors(&VICTIMS) {
                let ended: Vec<&Entry> = outcome.diaries.of(rank).filter(|entry| entry.event == "ended").collect();
                let what = format!("all of rank {rank} end (seed {seed}), not {}", ended.len());
                outcome.require(ended.len() == OPERATIONS * VICTIMS.len(), &what);
                let is_known = |class: &str| [SUCCESS, PROC_FAILED, REVOKED].contains(&class);
                let other = ended.iter().find(|entry| !is_known(&entry.details[2])).map(|entry| entry.text());
                outcome.require(other.is_none(), &format!("they end as they should (rank {rank}): {other:?}"));
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

#[test]
fn of_collectives_end_when_the_program_revokes_the_communicator() {
    collectives_end(&Job::new(), "revoke");
}

#[test]
fn of_collectives_end_on_one_host_when_the_program_revokes_the_communicator() {
    collectives_end(&on_one_host(), "revoke");
}

#[test]
fn of_collectives_end_when_the_scope_revokes_the_communicator() {
    collectives_end(&Job::new(), "scope");
}

#[test]
fn of_collectives_end_on_one_host_when_the_scope_revokes_the_communicator() {
    collectives_end(&on_one_host(), "scope");
}
