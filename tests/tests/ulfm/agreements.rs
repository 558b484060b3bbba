//! Open MPI's agreements end in the same way at all survivors, and end at all, whoever dies in them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::programs::compile;
use system_tests::{Job, in_lab, process};

const RANKS: u32 = 8;
const ROUNDS: usize = 40;
const COMMUNICATORS: usize = 3;
/// In how many jobs of each round victims die, at other moments each time.
const DEATHS: u32 = 10;
/// How many agreements of the program `threads` each rank takes part in.
const OF_THREADS: u32 = 8000;

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("agreements", "mpicc"))
}

/// Victims die while all agree, on several communicators at once.
fn strike(job: impl Fn() -> Job, victims: &[u32]) {
    let words: Vec<String> = victims.iter().map(u32::to_string).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    in_lab(|lab| {
        for seed in lab.seeds(DEATHS) {
            let job = job().diarist(program()).arguments(&["--seed", &seed.to_string()]).arguments(&words);
            let outcome = job.run(lab);
            let survivors = outcome.survivors(victims);
            let agreed = |rank: u32| -> Vec<String> {
                let own = outcome.diaries.of(rank).filter(|entry| entry.event == "agreed");
                own.map(|entry| entry.details.join(" ")).collect()
            };
            let first = agreed(survivors[0]);
            outcome.require(first.len() == ROUNDS * COMMUNICATORS, &format!("every agreement ends (seed {seed})"));
            for rank in &survivors {
                let own = agreed(*rank);
                let other = own.iter().zip(&first).find(|(one, other)| one != other);
                outcome.require(
                    own.len() == first.len() && other.is_none(),
                    &format!("ranks {rank} and {} agree: {other:?} (seed {seed})", survivors[0]),
                );
                outcome.finalized(*rank);
            }
            let living = (0..RANKS).filter(|rank| !victims.contains(rank)).fold(0, |bits, rank| bits | 1 << rank);
            for line in &first {
                let bits: i32 = line.rsplit(' ').next().and_then(|bits| bits.parse().ok()).expect("a number");
                outcome.require(bits & living == living, &format!("all survivors are heard: {line} (seed {seed})"));
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Who shares memory reads what the dead has left there.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn on_one_node() {
    strike(|| Job::new().on(&["h1"], RANKS).options(&["--bind-to", "none"]), &[0, 3]);
}

#[test]
fn on_several_nodes() {
    strike(Job::new, &[0, 3]);
}

/// A member whose parent has died turns to one that has not heard of it by the time it decides: everything on its host
/// that could tell it is stopped for a while.
#[test]
fn a_parent_that_hears_of_a_death_late_tells_its_new_children() {
    in_lab(|lab| {
        let program = compile("orphans", "mpicc");
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).parameter("timeout", "1s").diarist(&program);
        let mut job = job.start(lab);
        job.wait_for("agrees", &[0, 1, 2, 3]);
        job.cut("h3");
        // Not much sooner than the death is declared, or h2 would be taken for dead as well.
        std::thread::sleep(Duration::from_millis(800));
        let deaf = [job.runtime("h2"), job.watcher("h2").pid];
        deaf.iter().for_each(|pid| process::signal(*pid, libc::SIGSTOP));
        if !wait_until(Duration::from_secs(5), || job.log("h1").contains("declared node=2")) {
            job.fail("h3 is declared dead");
        }
        // Rank 0, which has lost its parent, turns to rank 1.
        std::thread::sleep(Duration::from_millis(100));
        job.go();
        job.wait_for("agreed", &[1]);
        deaf.iter().for_each(|pid| process::signal(*pid, libc::SIGCONT));
        let outcome = job.finish();
        for rank in [0, 1, 3] {
            let shrunk = outcome.diaries.first(rank, "shrunk").map(|entry| entry.text());
            outcome.require(shrunk.as_deref() == Some("3"), &format!("rank {rank} shrinks to 3 ranks, not {shrunk:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// A message that comes while another thread is in an agreement is not lost, nor is what it says.
#[test]
fn of_two_threads_at_the_same_time() {
    in_lab(|lab| {
        let outcome = Job::new().ranks(4).diarist(&compile("threads", "mpicc")).run(lab);
        for rank in 0..4 {
            let right = outcome.diaries.first(rank, "right").map(|entry| entry.text());
            outcome.require(
                right == Some(OF_THREADS.to_string()),
                &format!("of {OF_THREADS} agreements of rank {rank} all are right, not {right:?}"),
            );
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// What a process keeps of a communicator that was freed is no answer for one that Open MPI names in the same way.
fn of_communicators_that_share_a_name(operation: &str) {
    in_lab(|lab| {
        let job = Job::new().on(&["h1"], 4).options(&["--bind-to", "none"]);
        let outcome = job.diarist(&compile("epochs", "mpicc")).arguments(&[operation]).run(lab);
        let early = outcome.diaries.all("early").next().map(|entry| entry.text());
        outcome.require(early.is_none(), &format!("nobody goes on without the others, as in round {early:?}"));
        for rank in 0..4 {
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

#[test]
fn of_the_program_are_told_from_those_of_a_communicator_that_was_freed() {
    of_communicators_that_share_a_name("iagree");
}

/// A rank that cannot open its node's log would have other defaults of Open MPI than the others.
#[test]
fn need_every_rank_to_see_the_log_of_its_node() {
    in_lab(|lab| {
        let program = compile("epochs", "mpicc");
        let script = program.with_file_name("blind.sh");
        let lines = [
            "#!/bin/sh",
            "[ \"$PMIX_RANK\" != 1 ] || export RINGWATCH_SEGMENT=/nowhere",
            &format!("exec {} \"$@\"", program.display()),
        ];
        fs::write(&script, lines.join("\n")).expect("the folder of the programs can be written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("the script is there");
        let job = Job::new().on(&["h1"], 4).options(&["--bind-to", "none"]);
        let outcome = job.diarist(&script).arguments(&["iagree"]).run(lab);
        let told = "rank 1 cannot open its node's failure log at /nowhere";
        outcome.require(outcome.stderr.matches(told).count() == 1, "rank 1 says why the job ends");
        outcome.require(outcome.status != 0, "mpirun reports a failure").left_nothing();
    });
}

#[test]
fn of_uniform_collectives_are_told_from_those_of_a_communicator_that_was_freed() {
    of_communicators_that_share_a_name("ibarrier");
}
