//! Message logging under the examples: whenever a rank is killed from outside, the output is that of an undisturbed
//! run.

use std::path::PathBuf;
use std::time::Duration;

use system_tests::outcome::Outcome;
use system_tests::programs::compile_example;
use system_tests::replaced::{logged_job, processes_of, some_moment};
use system_tests::{Job, Lab, in_lab, process};

const RANKS: u32 = 4;
const LIMIT: Duration = Duration::from_secs(40);
/// Moments of `--full`.
const MOMENTS: u32 = 50;

/// An example, and its arguments.
struct Example {
    name: &'static str,
    path: PathBuf,
    arguments: &'static [&'static str],
}

impl Example {
    fn new(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, path: compile_example(name), arguments }
    }

    fn job(&self, spares: usize) -> Job {
        let path = self.path.display().to_string();
        let words = [&[&*path], self.arguments].concat();
        logged_job(RANKS, spares as u32).options(&["--mca", "mpi_yield_when_idle", "1"]).limit(LIMIT).program(&words)
    }

    /// What an undisturbed run prints, and how long it takes from the end of `MPI_Init` to the last line.
    fn undisturbed(&self, lab: &Lab) -> (String, Duration) {
        let outcome = self.job(0).options(&["-x", "TELL_TIME=yes"]).run(lab);
        outcome
            .require(outcome.status == 0 && outcome.stdout.contains("checksum"), "the run without deaths has an end");
        let told = outcome.stderr.split_once(&format!("{}: ", self.name)).and_then(|(_, told)| told.split(' ').next());
        let seconds = told.and_then(|told| told.parse().ok());
        outcome.require(seconds.is_some(), "rank 0 says how long it took");
        (outcome.stdout, Duration::from_secs_f64(seconds.unwrap_or_default()))
    }

    /// Kills these ranks at a moment of the run. Returns how many died.
    fn killed(&self, lab: &Lab, victims: &[usize], at: Duration, expected: &str) -> usize {
        let job = self.job(victims.len()).start(lab);
        let processes = processes_of(&job, self.name, RANKS, LIMIT);
        // Nothing is waited for: the moment is what is tested.
        std::thread::sleep(at);
        victims.iter().for_each(|victim| process::signal(processes[*victim], libc::SIGKILL));
        let outcome = job.finish();
        let what = format!("{} without ranks {victims:?} after {at:?}", self.name);
        outcome.require(outcome.status == 0, &format!("{what}: mpirun's exit status is 0"));
        outcome.require(outcome.stdout == expected, &format!("{what}: the output is that of the undisturbed run"));
        outcome.left_nothing();
        losses(&outcome)
    }
}

fn losses(outcome: &Outcome) -> usize {
    outcome.losses().len()
}

/// Each of these groups of ranks is killed, at a random moment; again if that comes after the end, as it may where the
/// undisturbed run was slower.
fn survives(example: &Example, groups: &[&[usize]]) {
    in_lab(|lab| {
        let (expected, duration) = example.undisturbed(lab);
        for group in groups {
            let mut died = (0..TRIES).map(|_| example.killed(lab, group, some_moment(duration), &expected));
            assert!(died.any(|died| died > 0), "somebody is killed before the end");
        }
    });
}

/// The same at each of [`MOMENTS`] moments that are spread over the run.
fn survives_always(example: &Example, groups: &[&[usize]]) {
    in_lab(|lab| {
        let (expected, duration) = example.undisturbed(lab);
        let at = |moment: u32| duration * moment / (MOMENTS + 1);
        let kill = |moment: u32| example.killed(lab, groups[moment as usize % groups.len()], at(moment), &expected);
        let struck = (1..=MOMENTS).filter(|moment| kill(*moment) > 0).count();
        assert!(struck > MOMENTS as usize * 3 / 4, "{struck} of {MOMENTS} kills come before the end");
    });
}

/// Moments that are tried until one comes before the end.
const TRIES: u32 = 5;
const MASTER: &[usize] = &[0];
const WORKER: &[usize] = &[2];
const BOTH: &[usize] = &[0, 2];

#[test]
fn a_cut_tree_is_the_same_without_its_master_a_worker_or_both() {
    survives(&Example::new("gusfield", &["1000", "4000"]), &[MASTER, WORKER, BOTH]);
}

#[test]
fn grids_and_counts_are_the_same_whoever_is_killed() {
    survives(&Example::new("multigrid", &["8", "6", "200"]), &[&[1]]);
    survives(&Example::new("wavefront", &["480", "10"]), &[&[3]]);
    survives(&Example::new("polling", &["2000", "20", "5"]), &[&[1]]);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn a_cut_tree_is_the_same_whenever_they_are_killed() {
    let example = Example::new("gusfield", &[]);
    [MASTER, WORKER, BOTH].iter().for_each(|group| survives_always(&example, &[group]));
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn grids_and_counts_are_the_same_whenever_a_rank_is_killed() {
    let each: &[&[usize]] = &[&[0], &[1], &[2], &[3]];
    survives_always(&Example::new("multigrid", &["9", "15", "2000"]), each);
    survives_always(&Example::new("multigrid", &["9", "15", "1"]), each);
    survives_always(&Example::new("wavefront", &["960", "20"]), each);
    survives_always(&Example::new("polling", &["2000", "40", "5"]), each);
}
