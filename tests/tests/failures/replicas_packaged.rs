//! Replication under programs of Debian's packages, as they are: the output and the files are those of a run without
//! replicas, once, times apart.

use std::fs;
use std::time::Duration;

use system_tests::packages::BENCHMARK as HPCC;
use system_tests::packages::{LAMMPS, Package, RANKS};
use system_tests::replaced::processes_of;
use system_tests::replicated::{METHODS, logging, replicated};
use system_tests::{Lab, in_lab, process};

const LIMIT: Duration = Duration::from_secs(90);

/// The result without replicas: of the same collective operations, which combine data in the same order.
fn expected(lab: &Lab, package: &Package) -> String {
    let folder = lab.folder();
    let outcome = package.set_up(logging(&[]).limit(LIMIT), &folder).run(lab);
    let result = (package.result)(&folder, &outcome.stdout);
    outcome.require(outcome.status == 0 && result.len() > 1000, "the run without replicas has a result");
    result
}

/// Runs it with replicas. Where `kills`, the first process dies, which prints and writes files.
fn is_the_same(lab: &Lab, package: &Package, expected: &str, (replicas, method): (u32, &str), kills: bool) {
    let folder = lab.folder();
    let job = replicated(replicas, &[("replicas_method", method)]).limit(LIMIT);
    let job = package.set_up(job, &folder).start(lab);
    if kills {
        let processes = processes_of(&job, package.name, RANKS * replicas, LIMIT);
        process::signal(processes[0], libc::SIGKILL);
    }
    let outcome = job.finish();
    let what = format!("{} x{replicas} with {method}", package.name);
    outcome.require(outcome.status == 0, &format!("{what}: mpirun's exit status is 0"));
    let result = (package.result)(&folder, &outcome.stdout);
    outcome.require(result == expected, &format!("{what}: the result is {expected}, not {result}"));
    let differs = outcome.stderr.lines().find(|line| line.contains("differ"));
    outcome.require(differs.is_none(), &format!("{what}: replicas are alike, but {differs:?}"));
    let files = fs::read_dir(&folder).expect("the folder is there").flatten().map(|file| file.file_name());
    let copies: Vec<_> = files.filter(|name| name.to_string_lossy().contains(".replica-")).collect();
    outcome.require(copies.is_empty(), &format!("{what}: no copy of a file is left, such as {copies:?}"));
    outcome.left_nothing();
}

#[test]
fn lammps_gives_the_same_with_two_replicas() {
    in_lab(|lab| is_the_same(lab, &LAMMPS, &expected(lab, &LAMMPS), (2, "asynchash"), true));
}

#[test]
#[ignore = "a minute: a part of scripts/test --full"]
fn hpcc_gives_the_same_with_three_replicas() {
    in_lab(|lab| is_the_same(lab, &HPCC, &expected(lab, &HPCC), (3, "asynchash"), true));
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn lammps_and_hpcc_give_the_same_with_each_method() {
    in_lab(|lab| {
        for package in [&LAMMPS, &HPCC] {
            let expected = expected(lab, package);
            for method in METHODS {
                for replicas in [2, 3] {
                    for kills in [false, true] {
                        is_the_same(lab, package, &expected, (replicas, method), kills);
                    }
                }
            }
        }
    });
}
