//! What the paper says of its algorithm holds in the runs.

use std::time::Duration;

use simulator::{Failures, Scenario, all_threads, batch, run};

use crate::quick;

#[test]
fn a_failure_is_known_by_all_after_the_timeout_less_half_a_period() {
    let runs = 2000;
    let times = batch(
        runs,
        all_threads(),
        |seed| {
            let outcome = run(&Scenario { seed, ..Scenario::low_noise(64) }).unwrap();
            outcome.stabilization().unwrap().0.as_secs_f64()
        },
        || {},
    );
    let mean = times.iter().sum::<f64>() / runs as f64;
    // Uniform over one period: its standard error is 10 s / sqrt(12 x 2000) = 0.065 s; five of them are allowed.
    assert!((mean - 55.0).abs() < 0.33, "mean {mean}");
    assert!(times.iter().all(|&time| (50.0..60.02).contains(&time)));
}

#[test]
fn failures_of_neighbours_are_found_one_after_another() {
    let mut scenario = quick(20, 1, 4);
    scenario.failures = Failures::Schedule(vec![(5, Duration::ZERO), (6, Duration::ZERO), (7, Duration::ZERO)]);
    let outcome = run(&scenario).unwrap();
    // Node 8 is the observer of all three in turn, each time with twice the timeout but the first.
    assert!(outcome.deaths.iter().all(|death| death.declared.unwrap().1 == 8));
    assert_eq!(outcome.broadcasts, 3);
    assert!(outcome.stable.unwrap() > 4 * scenario.timeout);
}

#[test]
fn the_last_node_is_in_a_stable_state_alone() {
    let mut scenario = quick(3, 1, 1);
    scenario.failures = Failures::Schedule(vec![(0, Duration::ZERO), (2, Duration::ZERO)]);
    let outcome = run(&scenario).unwrap();
    assert_eq!(outcome.alive, 1);
    assert!(outcome.stable.is_some());
}
