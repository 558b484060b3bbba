//! `MPIX_Comm_ishrink`: several at once, completed in every way, while more ranks die.

use std::path::PathBuf;
use std::time::Duration;

use system_tests::lab::run;
use system_tests::{Job, Lab, in_lab};

const LIMIT: Duration = Duration::from_secs(40);
/// The harness kills the last rank before the requests start.
const FIRST: u32 = 7;

fn program() -> PathBuf {
    let target = PathBuf::from("/tmp/system-tests/ishrinks");
    let folder = env!("CARGO_MANIFEST_DIR");
    let (source, output) = (format!("{folder}/programs/ishrinks.c"), target.display().to_string());
    run("mpicc", &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &output, &source, "-lringwatch"]);
    target
}

/// Seven survivors shrink; `others` die while they do.
fn shrink(lab: &Lab, how: &str, count: usize, others: &[u32]) {
    let other = |index: usize| others.get(index).map_or("-1".to_owned(), u32::to_string);
    let job = Job::new().diarist(&program()).arguments(&[how, &count.to_string(), &other(0), &other(1)]);
    let mut job = job.start(lab);
    job.wait("all are ready", LIMIT, |diaries| (0..8).all(|rank| diaries.has(rank, "blocked")));
    let _ = job.signal_rank(FIRST, libc::SIGKILL);
    let outcome = job.finish();
    let mut dead = others.to_vec();
    dead.push(FIRST);
    let wrong = outcome.diaries.all("wrong").next().map(|entry| entry.text());
    outcome.require(wrong.is_none(), &format!("no call fails, as in {wrong:?}"));
    for rank in outcome.survivors(&dead) {
        let sizes: Vec<_> =
            outcome.diaries.of(rank).filter(|entry| entry.event == "shrunk").map(|entry| entry.number(1)).collect();
        let expected = vec![Some(8 - u32::try_from(dead.len()).expect("a few ranks")); count];
        outcome.require(sizes == expected, &format!("rank {rank} has {expected:?}, not {sizes:?} ({how})"));
        outcome.finalized(rank);
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
}

#[test]
fn one() {
    in_lab(|lab| shrink(lab, "wait", 1, &[]));
}

#[test]
fn eight_at_once_in_every_way() {
    in_lab(|lab| {
        for how in ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"] {
            shrink(lab, how, 8, &[]);
        }
    });
}

#[test]
fn a_second_one_dies_meanwhile() {
    in_lab(|lab| {
        for count in [1, 4] {
            shrink(lab, "waitall", count, &[6]);
        }
    });
}

#[test]
fn a_second_and_a_third_one_die_meanwhile() {
    in_lab(|lab| {
        for how in ["wait", "testall"] {
            shrink(lab, how, 3, &[6, 2]);
        }
    });
}
