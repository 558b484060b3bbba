//! Message logging under programs of Debian's packages, as they are: a rank is killed from outside, and the output is
//! that of an undisturbed run, times apart.

use std::path::Path;
use std::time::{Duration, Instant};

use system_tests::packages::{BENCHMARK, LAMMPS, Package, RANKS};
use system_tests::replaced::{logged_job, processes_of, some_moment, some_number};
use system_tests::{Job, in_lab, process};

const LIMIT: Duration = Duration::from_secs(60);
/// Kills of `--full`.
const KILLS: u32 = 20;

fn job(package: &Package, folder: &Path, spares: u32) -> Job {
    let options = ["--mca", "hook_ringwatch_log_limit", "4096"];
    package.set_up(logged_job(RANKS, spares).options(&options).limit(LIMIT), folder)
}

/// Kills a rank in each of so many runs.
fn survives(package: &Package, kills: u32) {
    in_lab(|lab| {
        let (folder, began) = (lab.folder(), Instant::now());
        let undisturbed = job(package, &folder, 0).run(lab);
        let (expected, duration) = ((package.result)(&folder, &undisturbed.stdout), began.elapsed());
        undisturbed.require(undisturbed.status == 0 && expected.len() > 1000, "the run without a death has a result");
        let mut died = 0;
        for _ in 0..kills {
            let job = job(package, &folder, 1).start(lab);
            let processes = processes_of(&job, package.name, RANKS, LIMIT);
            let victim = package.first_victim + some_number(RANKS - package.first_victim);
            // Nothing is waited for: the moment is what is tested.
            std::thread::sleep(some_moment(duration / 2));
            process::signal(processes[victim as usize], libc::SIGKILL);
            let outcome = job.finish();
            let what = format!("{} without rank {victim}", package.name);
            outcome.require(outcome.status == 0, &format!("{what}: mpirun's exit status is 0"));
            let result = (package.result)(&folder, &outcome.stdout);
            outcome.require(result == expected, &format!("{what}: the result is {expected}, not {result}"));
            died += outcome.losses().len();
            outcome.left_nothing();
        }
        assert!(died > 0, "somebody is killed before the end");
    });
}

#[test]
fn lammps_gives_the_same_when_a_rank_is_replaced() {
    survives(&LAMMPS, 2);
}

#[test]
fn hpcc_gives_the_same_when_a_rank_is_replaced() {
    survives(&BENCHMARK, 2);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn lammps_gives_the_same_whichever_rank_is_replaced() {
    survives(&LAMMPS, KILLS);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn hpcc_gives_the_same_whichever_rank_is_replaced() {
    survives(&BENCHMARK, KILLS);
}
