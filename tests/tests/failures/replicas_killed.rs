//! Replicas that are killed from outside at random moments: the output is that of an undisturbed run.

use std::time::{Duration, Instant};

use system_tests::replaced::{processes_of, some_moment, some_number};
use system_tests::replicated::{METHODS, RANKS, is_right, job, undisturbed};
use system_tests::{Lab, in_lab, process};

const LIMIT: Duration = Duration::from_secs(25);
const REPLICAS: u32 = 2;

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// A process that nobody has chosen.
    Some,
    /// The replica of rank 0 that decides what its receives from any source get.
    Decider,
    /// A node with the first replicas of all ranks, which decide.
    Node,
}

/// Kills once in each of so many runs.
fn survives(lab: &Lab, victim: Victim, methods: &[&str], duration: Duration) {
    for method in methods {
        let mut job = job(lab, REPLICAS, &[("replicas_method", method)], &[]);
        if matches!(victim, Victim::Node) {
            job = job.on(&["h1", "h2"], RANKS).launched_from("h3");
        }
        let mut job = job.start(lab);
        let processes = processes_of(&job, "logged", REPLICAS * RANKS, LIMIT);
        // Nothing is waited for: the moment is what is tested.
        std::thread::sleep(some_moment(duration));
        match victim {
            Victim::Some => {
                process::signal(processes[some_number(REPLICAS * RANKS) as usize], libc::SIGKILL);
            }
            Victim::Decider => process::signal(processes[0], libc::SIGKILL),
            Victim::Node => _ = job.kill_host("h1"),
        }
        let outcome = job.finish();
        is_right(lab, &outcome).left_nothing();
        lab.restore();
    }
}

/// How long the ranks run.
fn measured(lab: &Lab) -> Duration {
    undisturbed(lab);
    let job = job(lab, REPLICAS, &[], &[]).start(lab);
    let _ = processes_of(&job, "logged", REPLICAS * RANKS, LIMIT);
    let began = Instant::now();
    is_right(lab, &job.finish()).left_nothing();
    began.elapsed()
}

#[test]
fn a_replica_killed_at_a_random_moment_changes_nothing() {
    in_lab(|lab| {
        let duration = measured(lab);
        for victim in [Victim::Some, Victim::Decider, Victim::Node] {
            survives(lab, victim, &["asynchash"], duration);
        }
    });
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn a_replica_killed_at_a_hundred_random_moments_changes_nothing() {
    in_lab(|lab| {
        let duration = measured(lab);
        for number in 0..25 {
            let victim = [Victim::Some, Victim::Some, Victim::Decider, Victim::Some, Victim::Node][number % 5];
            survives(lab, victim, &METHODS, duration);
        }
    });
}
