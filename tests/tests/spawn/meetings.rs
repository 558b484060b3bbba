//! Two groups meet by `MPI_Comm_accept` and `MPI_Comm_connect` while a member of one dies: nobody waits for ever, and
//! of uniform groups all members have the new communicator or none has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use system_tests::diary::{Entry, PROC_FAILED};
use system_tests::lab::run;
use system_tests::programs::compile;
use system_tests::{Job, Lab, Outcome, in_lab};

const LIMIT: Duration = Duration::from_secs(40);
const SUCCESS: &str = "0";
/// `MPI_ERR_PORT`: the other group has given up.
const PORT: &str = "43";
/// Without an end, where the other group has not come.
const LEFT: &str = "left";
/// The root that accepts, and another member of each group. A root that accepts waits for whoever may connect.
const VICTIMS: [u32; 3] = [0, 2, 7];

/// Kills the victim after this time, and returns what the survivors wrote once they are all together again.
fn strike(lab: &Lab, job: Job, uniform: &str, victim: u32, after: Duration) -> Outcome {
    strike_in(&compile("meets", "mpicc"), lab, job, uniform, victim, after, &[SUCCESS, PROC_FAILED])
}

/// The same with another program, whose last meeting may end in these ways.
fn strike_in(
    program: &Path,
    lab: &Lab,
    job: Job,
    uniform: &str,
    victim: u32,
    after: Duration,
    ends: &[&str],
) -> Outcome {
    let options = ["--mca", "coll_ringwatch_error_uniform", uniform];
    let job = job.options(&options).diarist(program);
    let mut job = job.arguments(&["--victim", &victim.to_string()]).start(lab);
    let living = job.others(&[victim]);
    job.wait_for("meeting", &living);
    std::thread::sleep(after);
    let _ = job.signal_rank(victim, libc::SIGKILL);
    job.wait("all survivors together", LIMIT, |diaries| living.iter().all(|rank| diaries.has(*rank, "finalized")));
    let outcome = job.finish();
    for &rank in &living {
        let again = outcome.diaries.first(rank, "again").map(Entry::text);
        let expected = format!("0 {}", living.len());
        let what = format!("rank {rank} and all others make one again, not {again:?} (victim {victim}, {uniform})");
        outcome.require(again.as_deref() == Some(&expected), &what).finalized(rank);
        let result = outcome.diaries.first(rank, "result").map(Entry::text);
        let is_known = result.as_deref().is_some_and(|result| ends.contains(&result));
        outcome.require(
            is_known,
            &format!("the last meeting ends as {ends:?} at rank {rank}, not {result:?} ({uniform})"),
        );
        outcome.require(!outcome.diaries.has(rank, "half-built"), &format!("no half-built handle at rank {rank}"));
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    outcome
}

/// Of a number of meetings until the death, and how the last one ended.
fn meetings(outcome: &Outcome, ranks: impl IntoIterator<Item = u32>) -> Vec<(Option<String>, Option<String>)> {
    let of = |rank, event| outcome.diaries.first(rank, event).map(Entry::text);
    ranks.into_iter().map(|rank| (of(rank, "met"), of(rank, "result"))).collect()
}

fn all_of_uniform_groups_meet_or_none(job: impl Fn() -> Job, rounds: u64) {
    in_lab(|lab| {
        for round in 0..rounds {
            for (place, victim) in (0..).zip(VICTIMS) {
                let outcome =
                    strike(lab, job(), "create", victim, Duration::from_millis(40 + 13 * (3 * round + place)));
                let all = meetings(&outcome, outcome.survivors(&[victim]));
                let are_alike = all.iter().all(|one| *one == all[0]);
                outcome.require(are_alike, &format!("all of both groups end alike, not {all:?} (victim {victim})"));
            }
        }
    });
}

#[test]
fn all_of_two_uniform_groups_meet_or_none() {
    all_of_uniform_groups_meet_or_none(Job::new, 1);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn all_of_two_uniform_groups_meet_or_none_at_any_moment() {
    all_of_uniform_groups_meet_or_none(Job::new, 25);
}

/// The runtime of one node brings them together by itself.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn all_of_two_uniform_groups_on_one_host_meet_or_none() {
    all_of_uniform_groups_meet_or_none(|| Job::new().on(&["h1"], 8).options(&["--bind-to", "none"]), 1);
}

/// By the functions that do not block each group agrees for itself.
#[test]
fn all_of_a_uniform_group_meet_or_none_without_blocking() {
    in_lab(|lab| {
        let (output, source) =
            (PathBuf::from("/tmp/system-tests/meets.begun"), concat!(env!("CARGO_MANIFEST_DIR"), "/programs/meets.c"));
        let words = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-DWITHOUT_BLOCKING", "-o"];
        run("mpicc", &[&words[..], &[&output.display().to_string(), source, "-lringwatch", "-lpthread"]].concat());
        for (after, victim) in (40..).step_by(13).zip(VICTIMS) {
            let outcome = strike_in(
                &output,
                lab,
                Job::new(),
                "create",
                victim,
                Duration::from_millis(after),
                &[SUCCESS, PROC_FAILED, PORT, LEFT],
            );
            for group in [0..4, 4..8] {
                let all = meetings(&outcome, group.filter(|rank| *rank != victim));
                let ended: Vec<_> = all.iter().filter(|one| one.1.as_deref() != Some(LEFT)).collect();
                let are_alike = ended.iter().all(|one| *one == ended[0]);
                let has_met = ended.iter().any(|one| one.1.as_deref() == Some(SUCCESS));
                let is_uniform = are_alike && (ended.len() == all.len() || !has_met);
                outcome.require(is_uniform, &format!("all of a group end alike, not {all:?} (victim {victim})"));
            }
        }
    });
}

#[test]
fn a_process_alone_does_not_wait_for_another_one_that_is_dead() {
    in_lab(|lab| {
        for after in [50, 81] {
            strike(lab, Job::new().on(&["h1", "h2"], 1), "create", 0, Duration::from_millis(after));
        }
    });
}

/// In Open MPI 5.0.7 the others of a group wait for a root that has no word from the other one.
#[test]
fn nobody_waits_for_a_group_that_has_lost_a_member() {
    in_lab(|lab| {
        for (after, victim) in (60..).step_by(17).zip(VICTIMS) {
            strike(lab, Job::new(), "local", victim, Duration::from_millis(after));
        }
    });
}

/// What those who waited have published does not stay: whoever comes later would take it for their next word.
#[test]
fn all_of_a_group_hear_of_the_same_error_where_nobody_comes_and_meet_later_at_the_same_port() {
    let program = compile("meets", "mpicc");
    let job = |uniform| {
        let options = ["--mca", "coll_ringwatch_error_uniform", uniform];
        Job::new().options(&options).diarist(&program).arguments(&["--victim", "absent"])
    };
    in_lab(|lab| {
        for uniform in ["local", "create", "local", "create"] {
            let outcome = job(uniform).run(lab);
            let of = |rank, event| outcome.diaries.first(rank, event).map(Entry::text);
            let absent: Vec<_> = (4..8).map(|rank| of(rank, "absent")).collect();
            let are_alike = absent.iter().all(|one| one.is_some() && *one == absent[0]);
            let is_no_death = !matches!(absent[0].as_deref(), Some(SUCCESS | PROC_FAILED));
            outcome.require(are_alike && is_no_death, &format!("one error, and no death: {absent:?} ({uniform})"));
            let results: Vec<_> = (0..8).map(|rank| of(rank, "result")).collect();
            let have_met = results.iter().all(|one| one.as_deref() == Some(SUCCESS));
            outcome.require(have_met, &format!("all meet later: {results:?} ({uniform})"));
            outcome.require(!outcome.diaries.all("half-built").any(|_| true), "no half-built handle");
            (0..8).for_each(|rank| _ = outcome.finalized(rank));
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Then what they meet on is equipped by the thread that waits.
#[test]
fn all_of_two_uniform_groups_meet_or_none_while_other_threads_are_in_mpi() {
    all_of_uniform_groups_meet_or_none(|| Job::new().environment("RINGWATCH_TEST_WAITER", "1"), 1);
}
