//! Random jobs of replicated ranks, with deaths and flipped bits, in three ways of scheduling.
//!
//! `cargo test --release -p replication --test simulation -- --include-ignored --nocapture` adds the long one and
//! prints what happened.

mod check;
mod mutations;
mod plan;
mod program;
#[path = "../../../event-log/tests/recovery/random.rs"]
mod random;
mod setting;
mod world;

use std::ops::Range;

use check::job;
use replication::variant::Sound;
use setting::{Figures, Setting};

const CLEAN: Setting = Setting { replicas: 0, partial: true, deaths: 0, flips: false };
const DEATHS: Setting = Setting { deaths: 4, ..CLEAN };
const FLIPS: Setting = Setting { flips: true, ..CLEAN };
const THREE: Setting = Setting { replicas: 3, ..FLIPS };
const BOTH: Setting = Setting { deaths: 2, flips: true, ..CLEAN };

fn run(seeds: Range<u64>, setting: Setting) -> Figures {
    let mut all = Figures::default();
    for seed in seeds.clone() {
        all += job::<Sound>(seed, setting).unwrap_or_else(|error| panic!("seed {seed}, {setting:?}: {error}"));
    }
    println!("{seeds:?}: {all:?}");
    all
}

#[test]
fn replicas_see_the_same_and_nothing_is_reported_in_jobs_without_faults() {
    let figures = run(0..700, CLEAN);
    assert!(figures.found == 0 && figures.compared > 10_000 && figures.decisions > 5_000, "{figures:?}");
}

#[test]
fn deaths_change_nothing_while_a_replica_of_each_rank_lives() {
    let figures = run(0..1_200, DEATHS);
    assert!(figures.found == 0 && figures.deaths > 1_500 && figures.late > 500, "{figures:?}");
}

#[test]
fn one_flipped_bit_is_found_with_two_and_with_three_replicas() {
    let figures = run(0..1_200, FLIPS);
    assert!(figures.flips > 800 && figures.ended > 300, "{figures:?}");
}

#[test]
fn one_flipped_bit_changes_nothing_with_three_replicas() {
    let figures = run(0..1_200, THREE);
    assert!(figures.flips > 800 && figures.ended == 0, "{figures:?}");
    assert!(figures.tainted > 20 && figures.retired > 800 && figures.asks > 100, "{figures:?}");
}

#[test]
fn a_flipped_bit_and_deaths_end_in_the_right_result_or_in_a_sentence() {
    let figures = run(0..1_200, BOTH);
    assert!(figures.flips > 700 && figures.deaths > 900, "{figures:?}");
}

#[test]
#[ignore = "thirty thousand jobs of each kind"]
fn the_same_in_many_jobs() {
    for setting in [CLEAN, DEATHS, FLIPS, THREE, BOTH] {
        run(0..30_000, setting);
    }
}
