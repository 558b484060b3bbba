//! Figures 4 and 5: how long it takes until all know of the first failure, and of all failures.

use std::time::Duration;

use crate::{Failures, Outcome, Scenario, Stream, bounds, run};

use super::chart::{Chart, Look, Series, grouped};
use super::table::{Row, csv};
use super::{Drawing, Plan, Sample};

const SIZES: [u32; 14] = [32, 64, 128, 256, 512, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000];
const YEAR: Duration = Duration::from_secs(31_557_600);
/// The time that one broadcast takes to simulate, per node, in seconds.
const COST: f64 = 0.7e-6;

/// The runs at one size.
struct Point {
    nodes: u32,
    /// Runs that did not become stable: they are in none of the samples.
    unstable: usize,
    first: Sample,
    all: Sample,
    failures: Sample,
    broadcasts: Sample,
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

pub(super) fn draw_overlapping(plan: &Plan) -> Vec<Drawing> {
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
    [noise, latency].map(|experiment| experiment.draw(plan)).into()
}

pub(super) fn draw_random(plan: &Plan) -> Vec<Drawing> {
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
    [noise, latency].map(|experiment| experiment.draw(plan)).into()
}

impl Experiment {
    fn draw(&self, plan: &Plan) -> Drawing {
        let points = self.play(plan);
        let base = (self.scenario)(2);
        // Found on average half a period early, and tau / 2 after the last heartbeat was sent.
        let baseline = (base.timeout - base.period / 2).as_secs_f64();
        let sizes = points.iter().map(|point| f64::from(point.nodes));
        let series = |label: &str, colour, sample: fn(&Point) -> Sample| Series {
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
            warning: &plan.warning(),
            x: "nodes",
            y: "time after the first failure (s)",
            log: false,
            series: lines,
        };
        Drawing { name: self.name, csv: self.csv(&points), svg: chart.svg(), rows: self.rows(&points, baseline) }
    }

    fn play(&self, plan: &Plan) -> Vec<Point> {
        let sizes: Vec<_> = SIZES.into_iter().filter(|&nodes| nodes <= plan.largest).collect();
        let runs = |nodes: u32| plan.runs(f64::from(nodes) * (self.broadcasts)(nodes) * COST);
        let bar = plan.progress(self.name, sizes.iter().map(|&nodes| runs(nodes)).sum());
        let play = |nodes| {
            let one = |number| {
                let mut scenario = (self.scenario)(nodes);
                scenario.failures = (self.failures)(nodes, &scenario);
                scenario.seed = Stream::seed_of_run(u64::from(nodes), number);
                run(&scenario).expect("the figures' scenarios are valid")
            };
            Point::of(nodes, &plan.batch(runs(nodes), one, &bar))
        };
        let points = sizes.into_iter().map(play).collect();
        bar.finish_and_clear();
        points
    }

    fn csv(&self, points: &[Point]) -> String {
        let titles = [
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
        ];
        let rows = points.iter().map(|point| {
            let Point { nodes, unstable, first, all, failures, broadcasts } = point;
            let counts = [*nodes as usize, first.count + unstable, *unstable].map(|count| count.to_string());
            let means = [
                failures.mean,
                broadcasts.mean,
                first.mean,
                first.low,
                first.high,
                all.mean,
                all.low,
                all.high,
                all.most,
            ];
            counts.into_iter().chain(means.map(|mean| format!("{mean:.6}"))).collect()
        });
        csv(&titles, rows)
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
            format!("{:.3}", last.failures.mean),
            if name.starts_with("figure-4") { "given" } else { "nothing in the text to compare with" },
        );
        vec![first, all, failures]
    }
}

impl Point {
    fn of(nodes: u32, outcomes: &[Outcome]) -> Point {
        let stable: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.stabilization()?))).collect();
        let sample = |value: &dyn Fn(&Outcome, (Duration, Duration)) -> f64| {
            Sample::of(stable.iter().map(|&(outcome, times)| value(outcome, times)).collect())
        };
        Point {
            nodes,
            unstable: outcomes.len() - stable.len(),
            first: sample(&|_, (first, _)| first.as_secs_f64()),
            all: sample(&|_, (_, all)| all.as_secs_f64()),
            failures: sample(&|outcome, _| outcome.deaths.len() as f64),
            broadcasts: sample(&|outcome, _| outcome.broadcasts as f64),
        }
    }
}
