//! Random flipped bits in what replicas send, of 1 B to 4 MiB and of all classes of datatypes, and in collective
//! operations: all are found, and nothing else is.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::programs::compile;
use system_tests::replicated::{METHODS, RANKS, flipped, found, replicated};
use system_tests::{Lab, Outcome, in_lab};

const LIMIT: Duration = Duration::from_secs(120);
/// Each size once.
const ROUNDS: u32 = 23;
/// Flips of a method in the ordinary run, and in `--full`.
const FEW: usize = 20;
const MANY: usize = 1000;

fn run(lab: &Lab, replicas: u32, what: &str, rounds: u32, parameters: &[(&str, &str)]) -> Outcome {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let program = PATH.get_or_init(|| compile("flips", "mpicc")).display().to_string();
    replicated(replicas, parameters).limit(LIMIT).program(&[&program, what, &rounds.to_string()]).run(lab)
}

/// Flips in a part of the sends of replica 1 of each rank: in the copy that is sent, in the program's buffer, and in
/// what goes to one replica.
fn flips_of_all(seed: u32, one_of: u32) -> String {
    let places = ["buffer", "memory", "wire", "buffer"];
    let items = (0..RANKS).zip(places).map(|(rank, place)| format!("{rank}.1:random/{seed}/{one_of}@{place}"));
    items.collect::<Vec<_>>().join(",")
}

/// With two replicas, in jobs that report and go on. What a rank has received goes into no message, so that a finding
/// is a flip.
fn finds_all(method: &str, least: usize, rounds: u32) {
    in_lab(|lab| {
        let (mut flips, mut clean) = (0, 0);
        for seed in 1.. {
            let flips_here = flips_of_all(seed, 4);
            let parameters =
                [("replicas_method", method), ("replicas_on_mismatch", "report"), ("corrupt", &flips_here)];
            let outcome = run(lab, 2, "messages", rounds, &parameters);
            let (flipped, found) = (flipped(&outcome), found(&outcome));
            outcome.require(outcome.status == 0, "mpirun's exit status is 0");
            let missed: Vec<_> = flipped.difference(&found).collect();
            outcome.require(missed.is_empty(), &format!("{method}: all flips are found, also {missed:?}"));
            let invented: Vec<_> = found.difference(&flipped).collect();
            outcome.require(invented.is_empty(), &format!("{method}: nothing else is found, such as {invented:?}"));
            flips += flipped.len();
            clean += (RANKS * rounds) as usize - flipped.len();
            if flips >= least && clean >= least {
                break;
            }
        }
        eprintln!("{method}: {flips} messages with a flipped bit are found, {clean} without are not");
    });
}

#[test]
fn twenty_flipped_bits_of_each_method_are_found_and_nothing_else() {
    METHODS.iter().for_each(|method| finds_all(method, FEW, ROUNDS));
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn a_thousand_flipped_bits_of_each_method_are_found_and_nothing_else() {
    METHODS.iter().for_each(|method| finds_all(method, MANY, 10 * ROUNDS));
}

/// Messages of collective operations carry what others have sent, so that one flip may be found in several.
fn finds_in_collectives(method: &str, rounds: u32, one_of: u32) {
    in_lab(|lab| {
        let flips = flips_of_all(7, one_of);
        let parameters = [("replicas_method", method), ("replicas_on_mismatch", "report"), ("corrupt", &flips)];
        let outcome = run(lab, 2, "collectives", rounds, &parameters);
        let (flipped, found) = (flipped(&outcome), found(&outcome));
        outcome.require(outcome.status == 0 && !flipped.is_empty(), "bits are flipped, and mpirun returns 0");
        outcome.require(flipped.is_subset(&found), &format!("{method}: all of {flipped:?} are in {found:?}"));
        let clean = run(lab, 2, "collectives", rounds, &parameters[..2]);
        clean.require(self::found(&clean).is_empty(), &format!("{method}: nothing is found where nothing is flipped"));
        is_right(&clean, rounds);
    });
}

fn is_right(outcome: &Outcome, rounds: u32) {
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    let right = |rank| format!("rank {rank}: 0 of {rounds} rounds are wrong");
    outcome.require(lines == (0..RANKS).map(right).collect::<Vec<_>>(), "each rank has what it is to have");
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
}

#[test]
fn flipped_bits_in_collective_operations_are_found() {
    finds_in_collectives("asynchash", 40, 20);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn flipped_bits_in_collective_operations_are_found_by_each_method() {
    METHODS.iter().for_each(|method| finds_in_collectives(method, 400, 10));
}

/// With three replicas, of which one flips bits until it is found: the result is right.
fn corrects(method: &str, what: &str, replica: u32, seed: u32) {
    in_lab(|lab| {
        let flips = format!("{}.{replica}:random/{seed}/9", seed % RANKS);
        let outcome = run(lab, 3, what, ROUNDS, &[("replicas_method", method), ("corrupt", &flips)]);
        let has_flipped = !flipped(&outcome).is_empty();
        let is_blamed = outcome.stderr.contains(&format!("replica {replica} of rank {} has sent", seed % RANKS));
        outcome.require(is_blamed || !has_flipped, &format!("{method}: a sentence names the replica of {flips}"));
        is_right(&outcome, ROUNDS);
    });
}

#[test]
fn with_three_replicas_random_flips_change_no_result() {
    corrects("asynchash", "messages", 0, 1);
    corrects("alltoall", "collectives", 2, 2);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn with_three_replicas_random_flips_change_no_result_with_any_method() {
    for (seed, method) in (1..=24).zip(METHODS.into_iter().cycle()) {
        corrects(method, if seed % 8 < 4 { "messages" } else { "collectives" }, seed % 3, seed);
    }
}
