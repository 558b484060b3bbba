//! Figures 4 and 5: how long it takes until all know of the first failure, and of all failures.

use std::time::Duration;

use crate::bounds;
use crate::outcome::Outcome;
use crate::random::Stream;
use crate::run::run;
use crate::scenario::{Failures, Scenario};

use super::chart::{Chart, Look, Series, grouped};
use super::fit::{Fit, Term, fit};
use super::kept::Kept;
use super::point::{Point, Spread, TITLES};
use super::table::{Row, csv};
use super::{Drawing, Plan, WriteError};

const SIZES: [u32; 14] = [32, 64, 128, 256, 512, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000];
const YEAR: Duration = Duration::from_secs(31_557_600);
/// The time that one broadcast takes to simulate, per node, in seconds.
const COST: f64 = 0.7e-6;

/// How many runs tell one version of the simulator from another, and of how many nodes.
const PROBE: (u64, u32) = (16, 32);

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

/// How long it takes on average until all know all failures of figure 5, in seconds, and how many have struck by then,
/// if it takes `found` seconds to find one: the busy period of a queue where nobody waits (M/G/infinity).
fn expected(nodes: f64, found: f64) -> (f64, f64) {
    let rate = nodes / YEAR.as_secs_f64();
    ((rate * found).exp_m1() / rate, (rate * found).exp())
}

pub(super) fn draw_overlapping(plan: &Plan, kept: &Kept<'_>) -> Result<Vec<Drawing>, WriteError> {
    let noise = Experiment {
        name: "figure-4-lownoise",
        title: "Figure 4: as many failures as are tolerated within one timeout",
        settings: "LowNoise: period 10 s, timeout 60 s, tau 1 ms; floor(log2 n) - 1 failures, the first at 0, the \
            others uniform in 60 s",
        scenario: Scenario::low_noise,
        failures: overlapping,
        broadcasts: |nodes| f64::from(bounds::tolerated(nodes)),
    };
    let latency = Experiment {
        name: "figure-4-lowlat",
        settings: "LowLat: period 0.1 s, timeout 1 s, tau 1 ms; floor(log2 n) - 1 failures, the first at 0, the \
            others uniform in 1 s",
        scenario: Scenario::low_lat,
        ..noise
    };
    [noise, latency].iter().map(|experiment| Ok(experiment.draw(plan, experiment.play(plan, kept)?))).collect()
}

pub(super) fn draw_random(plan: &Plan, kept: &Kept<'_>) -> Result<Vec<Drawing>, WriteError> {
    let noise = Experiment {
        name: "figure-5-lownoise",
        title: "Figure 5: failures at random, node MTBF 1 year",
        settings: "LowNoise: period 10 s, timeout 60 s, tau 1 ms; one failure at 0, more by the exponential law \
            until stable",
        scenario: Scenario::low_noise,
        failures: random,
        broadcasts: |nodes| 1.0 + 0.7 * f64::from(nodes) / 256_000.0,
    };
    let latency = Experiment {
        name: "figure-5-lowlat",
        settings: "LowLat: period 0.1 s, timeout 1 s, tau 1 ms; one failure at 0, more by the exponential law \
            until stable",
        scenario: Scenario::low_lat,
        ..noise
    };
    let rows = noise.play(plan, kept)?;
    let failures = draw_failures(plan, &points(plan, &rows), &noise);
    Ok(vec![noise.draw(plan, rows), failures, latency.draw(plan, latency.play(plan, kept)?)])
}

/// What is to be drawn of the rows of a CSV file.
fn points(plan: &Plan, rows: &[Vec<String>]) -> Vec<Point> {
    rows.iter().filter_map(|row| Point::read(row)).filter(|point| point.nodes <= plan.largest).collect()
}

/// How many have failed by the time when all know all failures, which figure 5 shows, too.
fn draw_failures(plan: &Plan, points: &[Point], experiment: &Experiment) -> Drawing {
    let baseline = experiment.baseline();
    let series = |label: &str, colour, look, value: &dyn Fn(&Point) -> f64| Series {
        label: label.into(),
        colour,
        look,
        points: points.iter().map(|point| (f64::from(point.nodes), value(point))).collect(),
        band: vec![],
    };
    let among = |point: &Point| expected(f64::from(point.nodes), baseline).1;
    let chart = Chart {
        title: "Figure 5: how many failures until all know all of them, node MTBF 1 year",
        subtitle: experiment.settings,
        warning: &plan.warning_about(&points.iter().map(|point| point.runs).collect::<Vec<_>>()),
        x: "nodes",
        y: "failures",
        log: false,
        is_linear: false,
        series: vec![
            series("failures (mean)", 1, Look::Dots, &|point| point.failures),
            series("expected: e^r, r = lambda (timeout - period / 2)", 1, Look::Dashed, &among),
        ],
    };
    let rows = points.iter().map(|point| {
        let means = [point.failures, among(point)].map(|mean| format!("{mean:.6}"));
        [point.nodes.to_string(), point.runs.to_string()].into_iter().chain(means).collect()
    });
    let csv = csv(&["nodes", "runs", "mean_failures", "expected_failures"], rows);
    Drawing { name: "figure-5-lownoise-failures", csv, svg: chart.svg(), rows: vec![] }
}

impl Experiment {
    /// When a failure is found in the mean: half a period early, and tau / 2 after the last heartbeat was sent. In
    /// seconds.
    fn baseline(&self) -> f64 {
        let base = (self.scenario)(2);
        (base.timeout - base.period / 2).as_secs_f64()
    }

    fn draw(&self, plan: &Plan, rows: Vec<Vec<String>>) -> Drawing {
        let points = points(plan, &rows);
        let (baseline, timeout) = (self.baseline(), (self.scenario)(2).timeout);
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
                points: sizes.clone().map(|nodes| (nodes, baseline)).collect(),
                band: vec![],
            },
        ];
        for (colour, fit) in [(1, self.fit_all(&points)), (2, self.fit_first(&points))] {
            lines.extend(fit.map(|Fit { formula, points, .. }| Series {
                label: format!("fitted as in the paper: {formula}"),
                colour,
                look: Look::Dashed,
                points,
                band: vec![],
            }));
        }
        if self.is_random() {
            lines.push(Series {
                label: "expected: (e^r - 1) / lambda, r = lambda (timeout - period / 2)".into(),
                colour: 3,
                look: Look::Dashed,
                points: sizes.map(|nodes| (nodes, expected(nodes, baseline).0)).collect(),
                band: vec![],
            });
        }
        if self.name == "figure-5-lownoise" {
            lines.push(Series {
                label: "paper: half a timeout later at 256,000 nodes".into(),
                colour: 0,
                look: Look::Published,
                points: vec![(256_000.0, baseline + timeout.as_secs_f64() / 2.0)],
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
            is_linear: false,
            series: lines,
        };
        let rows = rows.into_iter();
        Drawing { name: self.name, csv: csv(&TITLES, rows), svg: chart.svg(), rows: self.rows(&points, baseline) }
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

    /// The form that the paper fits to the time of the first failure, O(1/n) in figure 4.
    fn fit_first(&self, points: &[Point]) -> Option<Fit> {
        let firsts: Vec<_> = points.iter().map(|point| (f64::from(point.nodes), point.first.mean)).collect();
        let terms: [Term; 2] = [("", |_| 1.0), ("/n", f64::recip)];
        if self.is_random() { None } else { fit(&firsts, &terms) }
    }

    /// The same for the time of all failures, O(1/n + log2 n) in figure 4. In figure 5 it is O(n), and of that more is
    /// known: see [`expected`].
    fn fit_all(&self, points: &[Point]) -> Option<Fit> {
        let all: Vec<_> = points.iter().map(|point| (f64::from(point.nodes), point.all.mean)).collect();
        let terms: [Term; 3] = [("", |_| 1.0), ("/n", f64::recip), (" log2 n", f64::log2)];
        if self.is_random() { None } else { fit(&all, &terms) }
    }

    /// Whether failures strike by the exponential law.
    fn is_random(&self) -> bool {
        self.name.starts_with("figure-5")
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
        let agree = (0.9..1.1).contains(&(last.first.mean / baseline));
        let first = row(
            "mean time until all know the first failure",
            format!("about {baseline} s"),
            format!("{:.3} s", last.first.mean),
            if agree {
                "they agree: the difference is the time of a heartbeat and of a broadcast, and chance"
            } else if last.first.mean < baseline {
                "the mean of so few runs is a matter of chance"
            } else {
                "an observer that fails, too, costs another timeout; the fewer nodes, the more often it does"
            },
        );
        let mean = "mean time until all know all failures";
        let all = format!("{:.3} s", last.all.mean);
        let (busy, struck) = expected(f64::from(last.nodes), baseline);
        let all = if !self.is_random() {
            row(mean, "only in the plot".into(), all, "the text has only the form of the curve, see below")
        } else if (name, last.nodes) == ("figure-5-lownoise", 256_000) {
            let why = format!(
                "a further failure costs half a timeout, but only {:.0} % of the runs have one: {busy:.1} s are \
                 expected, the rest is chance",
                (1.0 - struck.recip()) * 100.0
            );
            row(mean, "half a timeout more".into(), format!("{all} ({:+.3} s)", last.all.mean - last.first.mean), &why)
        } else {
            let why = format!(
                "with {:.1} % of the runs having a further failure {busy:.3} s are expected; in n that is O(n) as \
                 long as those are few",
                (1.0 - struck.recip()) * 100.0
            );
            row(mean, "as in LowNoise, O(n), at a different scale".into(), all, &why)
        };
        let failures = format!("{:.3}", last.failures);
        let failures = if self.is_random() {
            let why = format!("{struck:.3} are expected");
            row("mean number of failures", "only in the plot".into(), failures, &why)
        } else {
            row("mean number of failures", bounds::tolerated(last.nodes).to_string(), failures, "given")
        };
        let forms = [
            ("the first failure", "O(1/n)", self.fit_first(points)),
            ("all failures", "O(1/n + log2 n)", self.fit_all(points)),
        ];
        let forms = forms.into_iter().filter_map(|(what, paper, fit)| {
            let Fit { formula, farthest, .. } = fit?;
            Some(Row {
                what: format!("form of the mean time until all know {what} ({name})"),
                paper: paper.into(),
                ours: format!("{formula} s"),
                why: format!("least squares; the farthest mean is {farthest:.3} s away"),
            })
        });
        [first, all, failures].into_iter().chain(forms).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_of_figure_5_is_what_comes_out() {
        // As many failures a second as of 256,000 nodes, of 256, so that neighbours hardly ever fail together.
        let runs = 400;
        let rate = 256_000.0 / YEAR.as_secs_f64();
        let node_mtbf = Duration::from_secs_f64(256.0 / rate);
        let play = |number| {
            let scenario = Scenario { failures: Failures::Exponential { node_mtbf }, ..Scenario::low_noise(256) };
            let outcome = run(&Scenario { seed: Stream::seed_of_run(5, number), ..scenario }).unwrap();
            (outcome.stabilization().unwrap().1.as_secs_f64(), outcome.deaths.len() as f64)
        };
        let all: Vec<_> = (0..runs).map(play).collect();
        let mean = |value: fn(&(f64, f64)) -> f64| all.iter().map(value).sum::<f64>() / runs as f64;
        let (busy, struck) = expected(256_000.0, 55.0);
        assert!((busy - 69.3).abs() < 0.05 && (struck - 1.562).abs() < 0.001);
        // Four standard errors; half a timeout more would be 85 s.
        assert!((mean(|run| run.0) - busy).abs() < 5.0, "{} s, {busy} s are expected", mean(|run| run.0));
        assert!((mean(|run| run.1) - struck).abs() < 0.2, "{}, {struck} are expected", mean(|run| run.1));
    }
}
