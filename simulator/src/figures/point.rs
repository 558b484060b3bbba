//! A point of figures 4 and 5: what the runs at one size have in common, as a row of their CSV files.

use std::time::Duration;

use crate::outcome::Outcome;

use super::Sample;

pub const TITLES: [&str; 13] = [
    "nodes",
    "runs",
    "not_stable",
    "mean_failures",
    "mean_broadcasts",
    "first_known_mean_s",
    "first_known_5_percent_s",
    "first_known_95_percent_s",
    "all_known_mean_s",
    "all_known_5_percent_s",
    "all_known_95_percent_s",
    "all_known_most_s",
    "probe_ns",
];

/// The runs at one size, without those that did not become stable.
pub struct Point {
    /// On so many nodes.
    pub nodes: u32,
    /// So many, those that did not become stable included.
    pub runs: u64,
    /// How many failed, in the mean.
    pub failures: f64,
    /// When all knew the first failure.
    pub first: Spread,
    /// When all knew all failures.
    pub all: Spread,
}

/// A time in seconds: its mean, and between which 90 % of the runs are.
#[derive(Clone, Copy)]
pub struct Spread {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Point {
    /// A row of the CSV file under [`TITLES`], but for the last.
    pub fn row(nodes: u32, outcomes: &[Outcome]) -> Vec<String> {
        let stable: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.stabilization()?))).collect();
        let sample = |value: &dyn Fn(&Outcome, (Duration, Duration)) -> f64| {
            Sample::of(stable.iter().map(|&(outcome, times)| value(outcome, times)).collect())
        };
        let first = sample(&|_, (first, _)| first.as_secs_f64());
        let all = sample(&|_, (_, all)| all.as_secs_f64());
        let failures = sample(&|outcome, _| outcome.deaths.len() as f64);
        let broadcasts = sample(&|outcome, _| outcome.broadcasts as f64);
        let counts = [nodes as usize, outcomes.len(), outcomes.len() - stable.len()].map(|count| count.to_string());
        let times = [first.mean, first.low, first.high, all.mean, all.low, all.high, all.most];
        let means = [failures.mean, broadcasts.mean].into_iter().chain(times);
        counts.into_iter().chain(means.map(|mean| format!("{mean:.6}"))).collect()
    }

    /// What a row says; `None` if it is not one of these.
    pub fn read(row: &[String]) -> Option<Point> {
        let [nodes, runs, _, numbers @ ..] = row else { return None };
        let numbers: Vec<f64> = numbers.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [failures, _, first_mean, first_low, first_high, mean, low, high, ..] = numbers[..] else { return None };
        if numbers.len() != TITLES.len() - 3 || !numbers.iter().all(|number| number.is_finite()) {
            return None;
        }
        let first = Spread { mean: first_mean, low: first_low, high: first_high };
        let all = Spread { mean, low, high };
        Some(Point { nodes: nodes.parse().ok()?, runs: runs.parse().ok()?, failures, first, all })
    }
}
