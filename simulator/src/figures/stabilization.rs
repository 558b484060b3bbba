//! Figures 4 and 5: how long it takes until all know of the first failure, and of all failures.

use std::time::Duration;

use crate::{Failures, Outcome, Scenario, Stream, bounds, run};

use super::chart::{Chart, Look, Series, grouped};
use super::kept::Kept;
use super::table::{Row, csv};
use super::{Drawing, Plan, Sample, WriteError};

const SIZES: [u32; 14] = [32, 64, 128, 256, 512, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000];
const YEAR: Duration = Duration::from_secs(31_557_600);
/// The time that one broadcast takes to simulate, per node, in seconds.
const COST: f64 = 0.7e-6;

/// How many runs tell one version of the simulator from another, and of how many nodes.
const PROBE: (u64, u32) = (16, 32);

const TITLES: [&str; 13] = [
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
struct Point {
    nodes: u32,
    runs: u64,
    /// How many failed, in the mean.
    failures: f64,
    first: Spread,
    all: Spread,
}

/// A time in seconds: its mean, and between which 90 % of the runs are.
#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    low: f64,
    high: f64,
}

struct Experiment {
    name: &'static str,
    title: &'static str,
    settings: &'static str,
    scenario: fn(u32) -> Scenario,
    failures: fn(u32, &Scenario) -> Failures,
    /// How many broadcasts a run takes, for the time it will take.
    broadcasts: fn(u32) -> f64,
}

fn overlapping(nodes: u32, scenario: &Scenario) -> Failures {
    Failures::Within { count: bounds::tolerated(nodes).max(1), span: scenario.timeout }
}

fn random(_: u32, _: &Scenario) -> Failures {
    Failures::Exponential { node_mtbf: YEAR }
}

pub(super) fn draw_overlapping(plan: &Plan, kept: &Kept<'_>) -> Result<Vec<Drawing>, WriteError> {
    let noise = Experiment {
        name: "figure-4-lownoise",
        title: "Figure 4: as many failures as are tolerated within one timeout",
        settings: "LowNoise: period 10 s, timeout 60 s, tau 1 ms; floor(log2 n) - 1 failures, the first at 0, the others uniform in 60 s",
        scenario: Scenario::low_noise,
        failures: overlapping,
        broadcasts: |nodes| f64::from(bounds::tolerated(nodes)),
    };
    let latency = Experiment {
        name: "figure-4-lowlat",
        settings: "LowLat: period 0.1 s, timeout 1 s, tau 1 ms; floor(log2 n) - 1 failures, the first at 0, the others uniform in 1 s",
        scenario: Scenario::low_lat,
        ..noise
    };
    [noise, latency].iter().map(|experiment| experiment.draw(plan, kept)).collect()
}

pub(super) fn draw_random(plan: &Plan, kept: &Kept<'_>) -> Result<Vec<Drawing>, WriteError> {
    let noise = Experiment {
        name: "figure-5-lownoise",
        title: "Figure 5: failures at random, node MTBF 1 year",
        settings: "LowNoise: period 10 s, timeout 60 s, tau 1 ms; one failure at 0, more by the exponential law until stable",
        scenario: Scenario::low_noise,
        failures: random,
        broadcasts: |nodes| 1.0 + 0.7 * f64::from(nodes) / 256_000.0,
    };
    let latency = Experiment {
        name: "figure-5-lowlat",
        settings: "LowLat: period 0.1 s, timeout 1 s, tau 1 ms; one failure at 0, more by the exponential law until stable",
        scenario: Scenario::low_lat,
        ..noise
    };
    [noise, latency].iter().map(|experiment| experiment.draw(plan, kept)).collect()
}

impl Experiment {
    fn draw(&self, plan: &Plan, kept: &Kept<'_>) -> Result<Drawing, WriteError> {
        let rows = self.play(plan, kept)?;
        let points: Vec<_> =
            rows.iter().filter_map(|row| Point::read(row)).filter(|point| point.nodes <= plan.largest).collect();
        let base = (self.scenario)(2);
        // Found on average half a period early, and tau / 2 after the last heartbeat was sent.
        let baseline = (base.timeout - base.period / 2).as_secs_f64();
        let sizes = points.iter().map(|point| f64::from(point.nodes));
        let series = |label: &str, colour, sample: fn(&Point) -> Spread| Series {
            label: label.into(),
            colour,
            look: Look::Dots,
            points: points.iter().map(|point| (f64::from(point.nodes), sample(point).mean)).collect(),
            band: points.iter().map(|point| (sample(point).low, sample(point).high)).collect(),
        };
        let mut lines = vec![
            series("all know all failures (mean, and 5 % to 95 % of the runs)", 1, |point| point.all),
            series("all know the first failure", 2, |point| point.first),
            Series {
                label: "paper: the first failure after timeout - period / 2".into(),
                colour: 0,
                look: Look::Dashed,
                points: sizes.map(|nodes| (nodes, baseline)).collect(),
                band: vec![],
            },
        ];
        if self.name == "figure-5-lownoise" {
            lines.push(Series {
                label: "paper: half a timeout later at 256,000 nodes".into(),
                colour: 0,
                look: Look::Published,
                points: vec![(256_000.0, baseline + base.timeout.as_secs_f64() / 2.0)],
                band: vec![],
            });
        }
        let chart = Chart {
            title: self.title,
            subtitle: self.settings,
            warning: &plan.warning_about(&points.iter().map(|point| point.runs).collect::<Vec<_>>()),
            x: "nodes",
            y: "time after the first failure (s)",
            log: false,
            series: lines,
        };
        let rows = rows.into_iter();
        Ok(Drawing { name: self.name, csv: csv(&TITLES, rows), svg: chart.svg(), rows: self.rows(&points, baseline) })
    }

    /// A row of the CSV file per size. What is there already from as many runs is not computed again, and each point is
    /// there as soon as it is known.
    fn play(&self, plan: &Plan, kept: &Kept<'_>) -> Result<Vec<Vec<String>>, WriteError> {
        let sizes: Vec<_> = SIZES.into_iter().filter(|&nodes| nodes <= plan.largest).collect();
        let runs = |nodes: u32| plan.runs(f64::from(nodes) * (self.broadcasts)(nodes) * COST);
        let probe = self.probe();
        let is_own = |row: &Vec<String>| {
            row.last() == Some(&probe) && Point::read(row).is_some_and(|point| SIZES.contains(&point.nodes))
        };
        let size_of = |row: &Vec<String>| Point::read(row).map(|point| point.nodes);
        let mut rows = kept.rows(self.name, &TITLES, is_own);
        rows.sort_by_key(size_of);
        rows.dedup_by_key(|row| size_of(row));
        let missing = |nodes: &&u32| {
            !rows.iter().any(|row| Point::read(row).is_some_and(|p| p.nodes == **nodes && p.runs >= runs(**nodes)))
        };
        let missing: Vec<_> = sizes.iter().filter(missing).copied().collect();
        let bar = plan.progress(self.name, missing.iter().map(|&nodes| runs(nodes)).sum());
        for nodes in missing {
            let mut row = Point::row(nodes, &plan.batch(runs(nodes), |number| self.run(nodes, number), &bar));
            row.push(probe.clone());
            rows.retain(|row| size_of(row) != Some(nodes));
            rows.push(row);
            rows.sort_by_key(size_of);
            kept.save(self.name, &TITLES, &rows)?;
        }
        bar.finish_and_clear();
        Ok(rows)
    }

    fn run(&self, nodes: u32, number: u64) -> Outcome {
        let mut scenario = (self.scenario)(nodes);
        scenario.failures = (self.failures)(nodes, &scenario);
        scenario.seed = Stream::seed_of_run(u64::from(nodes), number);
        run(&scenario).expect("the figures' scenarios are valid")
    }

    /// What a few small runs take in all. Nobody has to remember to count it up: a simulator that finds other times
    /// finds another sum.
    fn probe(&self) -> String {
        let (runs, nodes) = PROBE;
        let stable = (0..runs).filter_map(|number| self.run(nodes, number).stabilization());
        stable.map(|(first, all)| first + all).sum::<Duration>().as_nanos().to_string()
    }

    fn rows(&self, points: &[Point], baseline: f64) -> Vec<Row> {
        let Some(last) = points.last() else { return vec![] };
        let nodes = grouped(u64::from(last.nodes));
        let name = self.name;
        let row = |what: &str, paper: String, ours: String, why: &str| Row {
            what: format!("{what}, {nodes} nodes ({name})"),
            paper,
            ours,
            why: why.into(),
        };
        let first = row(
            "mean time until all know the first failure",
            format!("about {baseline} s"),
            format!("{:.3} s", last.first.mean),
            "they agree: the difference is the time of a heartbeat and of a broadcast, and chance",
        );
        let all = format!("{:.3} s", last.all.mean);
        let all = match name {
            "figure-5-lownoise" => row(
                "mean time until all know all failures",
                "half a timeout more".into(),
                format!("{all} ({:+.3} s)", last.all.mean - last.first.mean),
                "each further failure within the timeout is found one timeout after it struck",
            ),
            _ => row(
                "mean time until all know all failures",
                "only in the plot".into(),
                all,
                "nothing in the text to compare with",
            ),
        };
        let failures = row(
            "mean number of failures",
            if name.starts_with("figure-4") {
                bounds::tolerated(last.nodes).to_string()
            } else {
                "only in the plot".into()
            },
            format!("{:.3}", last.failures),
            if name.starts_with("figure-4") { "given" } else { "nothing in the text to compare with" },
        );
        vec![first, all, failures]
    }
}

impl Point {
    fn row(nodes: u32, outcomes: &[Outcome]) -> Vec<String> {
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
    fn read(row: &[String]) -> Option<Point> {
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
