//! The same seed gives the same run.

use std::num::NonZero;

use simulator::log::Entry;
use simulator::{Scenario, Stream, batch, run, run_logged};

use crate::quick;

#[test]
fn equal_seeds_run_alike_and_others_do_not() {
    let play = |seed| {
        let mut log: Vec<(i64, Entry)> = Vec::new();
        let scenario = Scenario { loss: 0.05, duplication: 0.05, ..quick(40, 3, seed) };
        (run_logged(&scenario, &mut log).unwrap(), log)
    };
    assert_eq!(play(5), play(5));
    assert_ne!(play(5).1, play(6).1);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let play = |threads| {
        let run = |number| run(&quick(100, 3, Stream::seed_of_run(9, number))).unwrap();
        batch(40, NonZero::new(threads).unwrap(), run, || {})
    };
    let alone = play(1);
    assert_eq!(alone.len(), 40);
    assert!(alone.windows(2).any(|pair| pair[0] != pair[1]));
    assert_eq!(play(3), alone);
}
