//! Random jobs with crashes: every run must equal an execution without failures.
//!
//! `cargo test --release -p event-log --test recovery -- --include-ignored --nocapture` adds the long one and prints
//! what happened.

mod acts;
mod crash;
mod logger;
mod mpi;
mod mutations;
mod node;
mod plan;
mod program;
mod random;
mod reference;
mod setting;
mod world;

use std::ops::Range;

use event_log::protocol::variant::Sound;
use setting::{Figures, Setting};
use world::World;

const CRASHES: Setting = Setting {
    crashes: 6,
    limit: None,
    asynchronous: false,
    trims_early: false,
    has_no_fence: false,
    counts_per_peer: false,
    tells_replaced_only: false,
};

fn run(seeds: Range<u64>, setting: Setting) -> Figures {
    let mut all = Figures::default();
    for seed in seeds.clone() {
        all += World::<Sound>::new(seed, setting).run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    println!("{seeds:?}: {all:?}");
    all
}

#[test]
fn jobs_without_crashes_end_as_they_would_without_logging() {
    let figures = run(0..500, Setting { crashes: 0, ..CRASHES });
    assert_eq!((figures.resent, figures.served), (0, 0));
}

#[test]
fn replaced_ranks_go_on_as_if_nothing_had_happened() {
    let figures = run(0..3_000, CRASHES);
    assert!(figures.crashes > 6_000 && figures.overlapping > 3_000, "crashes, and overlapping ones: {figures:?}");
    assert!(figures.checkpoints > 6_000 && figures.resent > 6_000 && figures.served > 1_000, "{figures:?}");
}

#[test]
fn a_limit_of_the_logs_changes_no_result_and_no_rank_dies_of_it() {
    let figures = run(0..500, Setting { limit: Some(300), ..CRASHES });
    assert!(figures.unprotected > 100 && figures.crashes > 500, "{figures:?}");
}

#[test]
fn a_crash_every_few_events_changes_nothing() {
    let figures = run(0..500, Setting { crashes: 40, ..CRASHES });
    assert!(figures.crashes > 4_000, "{figures:?}");
}

#[test]
#[ignore = "a hundred thousand jobs"]
fn replaced_ranks_go_on_as_if_nothing_had_happened_in_100_000_jobs() {
    run(0..100_000, CRASHES);
    run(0..20_000, Setting { limit: Some(300), ..CRASHES });
    run(0..20_000, Setting { crashes: 40, ..CRASHES });
}
