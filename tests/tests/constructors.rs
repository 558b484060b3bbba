//! Constructors of communicators that a death interrupts: others go on, however often that happens.

use std::time::Duration;

use system_tests::diary::{Diaries, PROC_FAILED};
use system_tests::job::compile;
use system_tests::{Job, in_lab};

const SUCCESS: &str = "0";
/// What Open MPI's own `MPI_Comm_idup` makes of every error of a failure.
const INTERN: &str = "17";
/// Constructors that begin with the number of the new communicator, and how each ends.
const NUMBERING: [(&str, &str); 5] =
    [("dup", PROC_FAILED), ("idup", INTERN), ("create", PROC_FAILED), ("cart_create", PROC_FAILED), ("idup", INTERN)];
/// What the survivors do after each.
const AFTERWARDS: [&str; 6] = ["shrink", "dup", "idup", "split", "create", "cart_create"];
const LIMIT: Duration = Duration::from_secs(40);

/// What a rank wrote about operation `number`.
fn about<'a>(diaries: &'a Diaries, rank: u32, event: &'a str, number: usize) -> impl Iterator<Item = String> + 'a {
    let entries =
        diaries.of(rank).filter(move |entry| entry.event == event && entry.number(0) == u32::try_from(number).ok());
    entries.map(|entry| entry.details[1..].join(" "))
}

/// Open MPI numbers communicators in the order of those that they are made from; it keeps the turn of one whose number
/// was not agreed on.
#[test]
fn newer_ones_go_on() {
    in_lab(|lab| {
        let operations = NUMBERING.map(|(operation, _)| operation);
        let mut job = Job::new().diarist(&compile("numbers", "mpicc")).arguments(&operations).start(lab);
        let mut dead = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            let victim = 7 - u32::try_from(number).expect("a few operations");
            dead.push(victim);
            let living = job.others(&dead);
            let all_wrote = |diaries: &Diaries, event: &str, times: usize| {
                living.iter().all(|rank| about(diaries, *rank, event, number).count() == times)
            };
            job.wait(&format!("blocked in {operation}"), LIMIT, |diaries| all_wrote(diaries, "blocked", 1));
            let _ = job.signal_rank(victim, libc::SIGKILL);
            job.wait(&format!("others after {operation}"), LIMIT, |diaries| {
                all_wrote(diaries, "made", AFTERWARDS.len())
            });
        }
        let outcome = job.finish();
        for (number, (operation, class)) in NUMBERING.iter().enumerate() {
            for rank in 0..7 - u32::try_from(number).expect("a few operations") {
                let of = |event| about(&outcome.diaries, rank, event, number).collect::<Vec<_>>();
                let result = of("result");
                outcome.require(
                    result == [*class],
                    &format!("{operation} at rank {rank} ends with {class}, not {result:?}"),
                );
                let (made, expected) = (of("made"), AFTERWARDS.map(|name| format!("{name} {SUCCESS}")));
                outcome.require(made == expected, &format!("after {operation} rank {rank} makes others: {made:?}"));
            }
        }
        for rank in outcome.survivors(&dead) {
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}
