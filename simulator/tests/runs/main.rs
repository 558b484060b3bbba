//! Whole runs.
#![allow(missing_docs)]

mod bounds;
mod elision;
mod faults;
mod paper;
mod repeatable;

use std::time::Duration;

use simulator::{Failures, Scenario};

pub const MS: Duration = Duration::from_millis(1);

/// Period 10 ms, timeout 50 ms, tau 1 ms; so many failures within one timeout.
pub fn quick(nodes: u32, failures: u32, seed: u64) -> Scenario {
    let mut scenario = Scenario::new(nodes, 10 * MS, 50 * MS);
    scenario.failures = Failures::Within { count: failures, span: 50 * MS };
    scenario.seed = seed;
    scenario
}
