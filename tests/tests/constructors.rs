//! Constructors of communicators that a death or a revoke interrupts: others go on, however often that happens.

use std::time::Duration;

use system_tests::diary::{Diaries, Entry, PROC_FAILED, REVOKED};
use system_tests::job::compile;
use system_tests::{Job, in_lab};

const SUCCESS: &str = "0";
/// Constructors that begin with the number of the new communicator.
const NUMBERING: [&str; 5] = ["dup", "idup", "create", "cart_create", "idup"];
/// What everybody does after each.
const AFTERWARDS: [&str; 7] = ["shrink", "dup", "idup", "split", "create", "create_group", "cart_create"];
const LIMIT: Duration = Duration::from_secs(40);

/// What a rank wrote about operation `number`.
fn about<'a>(diaries: &'a Diaries, rank: u32, event: &'a str, number: usize) -> impl Iterator<Item = String> + 'a {
    let entries =
        diaries.of(rank).filter(move |entry| entry.event == event && entry.number(0) == u32::try_from(number).ok());
    entries.map(|entry| entry.details[1..].join(" "))
}

/// All members but one are blocked in one constructor after the other when that one dies or revokes the communicator.
/// Open MPI numbers communicators in the order of those that they are made from, and keeps the turn of one whose number
/// was not agreed on.
fn newer_ones_go_on(how: &str, class: &str, operations: &[&str]) {
    in_lab(|lab| {
        let job = Job::new().diarist(&compile("numbers", "mpicc")).arguments(&["--how", how]);
        let mut job = job.arguments(operations).start(lab);
        let ones =
            operations.iter().enumerate().map(|(number, _)| 7 - u32::try_from(number).expect("a few operations"));
        let mut dead = Vec::new();
        for ((number, operation), one) in operations.iter().enumerate().zip(ones.clone()) {
            if how == "kill" {
                let all_blocked =
                    |diaries: &Diaries| (0..one).all(|rank| about(diaries, rank, "blocked", number).next().is_some());
                job.wait(&format!("blocked in {operation}"), LIMIT, all_blocked);
                let _ = job.signal_rank(one, libc::SIGKILL);
                dead.push(one);
            }
            let living = job.others(&dead);
            let all_made = |diaries: &Diaries| {
                living.iter().all(|rank| about(diaries, *rank, "made", number).count() == AFTERWARDS.len())
            };
            job.wait(&format!("others after {operation}"), LIMIT, all_made);
        }
        let outcome = job.finish();
        for ((number, operation), one) in operations.iter().enumerate().zip(ones) {
            for rank in 0..one {
                let of = |event| about(&outcome.diaries, rank, event, number).collect::<Vec<_>>();
                let result = of("result");
                let what = format!("{operation} at rank {rank} ends with {class}, not {result:?}");
                outcome.require(result == [class], &what);
                let half = of("half-built");
                outcome.require(half.is_empty(), &format!("{operation} leaves no handle at rank {rank}: {half:?}"));
                let (made, all) = (of("made"), AFTERWARDS.map(|name| format!("{name} {SUCCESS}")));
                outcome.require(made == all, &format!("after {operation} rank {rank} makes others: {made:?}"));
            }
        }
        for rank in outcome.survivors(&dead) {
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

#[test]
fn after_a_death() {
    newer_ones_go_on("kill", PROC_FAILED, &NUMBERING);
}

#[test]
fn after_a_revoke() {
    newer_ones_go_on("revoke", REVOKED, &NUMBERING);
}

/// In Open MPI 5.0.7 it waits for the dead, and for those who do not wait for them.
#[test]
fn of_a_group_waits_for_nobody_who_is_dead() {
    newer_ones_go_on("kill", PROC_FAILED, &["create_group"; 5]);
    newer_ones_go_on("revoke", REVOKED, &["create_group"; 5]);
}

/// Open MPI says the number of a communicator in each message, and no more.
#[test]
fn messages_that_arrive_after_their_communicator_was_freed_are_not_taken_for_those_of_the_next_one() {
    in_lab(|lab| {
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).diarist(&compile("late", "mpicc"));
        let outcome = job.run(lab);
        let got = outcome.diaries.first(1, "got").map(|entry| entry.text());
        outcome.require(got.as_deref() == Some("200 201 202"), &format!("rank 1 gets 200, 201 and 202, not {got:?}"));
        for rank in outcome.survivors(&[3]) {
            // Heartbeats, and at the most what is left of the recovery; a revocation that goes round is thousands.
            let idle = outcome.diaries.first(rank, "idle").and_then(|entry| entry.number(0));
            outcome.require(idle.is_some_and(|idle| idle < 500), &format!("rank {rank} is left alone, not {idle:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// Of graphs whose edges some other member tells.
#[test]
fn graphs_have_the_edges_that_the_members_told() {
    in_lab(|lab| {
        for uniform in ["local", "create", "coll"] {
            let options = ["--mca", "coll_ringwatch_error_uniform", uniform];
            let outcome = Job::new().options(&options).diarist(&compile("graphs", "mpicc")).run(lab);
            for rank in 0..8 {
                let right = outcome.diaries.of(rank).filter(|entry| entry.event == "right").count();
                outcome.require(right == 10, &format!("rank {rank} has ten graphs, not {right} ({uniform})"));
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// A constructor that fails sets a number free that this process has not taken for the new communicator, since another one
/// has it: that one would get no message any more.
#[test]
fn a_constructor_that_fails_takes_no_other_communicators_number() {
    in_lab(|lab| {
        for (seed, op) in (1..=10).map(|seed| (seed, if seed % 2 == 0 { "create_group" } else { "dup" })) {
            let seed_text = seed.to_string();
            let arguments = ["--seed", &seed_text, "--by", op];
            let outcome = Job::new().diarist(&compile("taken", "mpicc")).arguments(&arguments).run(lab);
            for rank in 0..7 {
                let heard = outcome.diaries.first(rank, "heard").map(Entry::text);
                let what = format!("rank {rank} hears itself on its own communicators: {heard:?} (seed {seed})");
                outcome.require(heard.as_deref() == Some("6"), &what).finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}
