//! Figure 3: the largest timeout for which more failures than the protocol tolerates are unlikely.

use std::time::Duration;

use crate::bounds;

use super::chart::{Chart, Look, Series, grouped};
use super::table::{Row, csv};
use super::{Drawing, Plan};

/// The risk that the paper accepts.
const RISK: f64 = 1e-9;
const TAU: Duration = Duration::from_millis(1);
const YEAR: f64 = 365.25 * 86_400.0;

/// The probability that a Poisson variable of this mean is above `most`.
pub fn tail(mean: f64, most: u32) -> f64 {
    // From the first term on, never as a difference from 1: that would lose what is sought.
    let mut term = (1..=most + 1).fold((-mean).exp(), |term, k| term * mean / f64::from(k));
    let (mut sum, mut k) = (0.0, most + 1);
    while term > sum * f64::EPSILON {
        sum += term;
        k += 1;
        term *= mean / f64::from(k);
    }
    sum
}

/// The largest timeout, in seconds, for which more than f = floor(log2 n) - 1 failures within T(f) have a probability
/// below [`RISK`]; zero if there is none.
pub fn largest_timeout(nodes: u32, node_mtbf: f64) -> f64 {
    let failures = bounds::tolerated(nodes);
    let (mut low, mut high) = (0.0, f64::from(failures) + 1.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if tail(middle, failures) < RISK { low = middle } else { high = middle }
    }
    // low = lambda T(f), and T(f) = f (f + 1) delta + f tau + f (f + 1) / 2 B(n).
    let stable = low * node_mtbf / f64::from(nodes);
    let broadcasts = bounds::broadcasts(failures) as f64;
    let rest =
        stable - f64::from(failures) * TAU.as_secs_f64() - broadcasts * bounds::broadcast(nodes, TAU).as_secs_f64();
    (rest / (2.0 * broadcasts)).max(0.0)
}

pub(super) fn draw(_: &Plan) -> Drawing {
    let years = [20_u32, 25, 30, 35, 40, 45];
    let sizes: Vec<u32> = (0..=96).map(|step| (1000.0 * 256_f64.powf(f64::from(step) / 96.0)).round() as u32).collect();
    let timeout = |nodes, years| largest_timeout(nodes, f64::from(years) * YEAR);
    let mut series: Vec<_> = years
        .iter()
        .enumerate()
        .map(|(colour, &years)| Series {
            label: format!("node MTBF {years} years"),
            colour,
            look: Look::Line,
            points: sizes.iter().map(|&nodes| (f64::from(nodes), timeout(nodes, years))).collect(),
            band: vec![],
        })
        .collect();
    series.push(Series {
        label: "paper: 22 s (20 years) and 60 s (45 years)".into(),
        colour: 0,
        look: Look::Published,
        points: vec![(256_000.0, 22.0), (256_000.0, 60.0)],
        band: vec![],
    });
    let chart = Chart {
        title: "Figure 3: the largest timeout for a risk below 1e-9",
        subtitle: "P(more than f failures within T(f)) < 1e-9, f = floor(log2 n) - 1, tau = 1 ms; computed",
        warning: "",
        x: "nodes",
        y: "timeout (s)",
        log: true,
        is_linear: false,
        series,
    };
    let rows = sizes.iter().map(|&nodes| {
        let values = years.iter().map(|&years| format!("{:.3}", timeout(nodes, years)));
        std::iter::once(nodes.to_string()).chain(values).collect()
    });
    let titles: Vec<_> = years.iter().map(|years| format!("timeout_s_mtbf_{years}_years")).collect();
    let titles: Vec<_> = std::iter::once("nodes").chain(titles.iter().map(String::as_str)).collect();
    let row = |years, paper: f64, why: &str| Row {
        what: format!("largest timeout at {} nodes, node MTBF {years} years (figure 3)", grouped(256_000)),
        paper: format!("{paper} s"),
        ours: format!("{:.1} s", timeout(256_000, years)),
        why: why.into(),
    };
    Drawing {
        name: "figure-3",
        csv: csv(&titles, rows),
        svg: chart.svg(),
        rows: vec![
            row(
                20,
                22.0,
                "f is floor(log2 n) - 1 here, as in theorem 1; with floor(log2 n), as in the figure's caption, it is 22.2 s; elsewhere the paper has log2(n / 4)",
            ),
            row(
                45,
                60.0,
                "the formula is proportional to the MTBF: 60 s / 22 s is not 45 / 20, so the two values of the text do not fit each other; with floor(log2 n) it is 50.0 s",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_what_the_head_leaves_of_1() {
        for (mean, most) in [(0.5_f64, 0_u32), (2.0, 3), (10.0, 12)] {
            let mut term = (-mean).exp();
            let mut head = term;
            for k in 1..=most {
                term *= mean / f64::from(k);
                head += term;
            }
            assert!((tail(mean, most) + head - 1.0).abs() < 1e-12);
        }
        // P(X > 1) of mean m is close to m^2 / 2.
        assert!((tail(1e-6, 1) / 0.5e-12 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn the_largest_timeout_has_just_the_risk_it_may_have() {
        let (nodes, mtbf) = (256_000, 20.0 * YEAR);
        let mut scenario = crate::scenario::Scenario::low_noise(nodes);
        let failures = bounds::tolerated(nodes);
        let mut risk = |timeout: f64| {
            scenario.timeout = Duration::from_secs_f64(timeout);
            let stable = bounds::stable(failures, nodes, scenario.times()).as_secs_f64();
            tail(stable * f64::from(nodes) / mtbf, failures)
        };
        let timeout = largest_timeout(nodes, mtbf);
        assert!(risk(timeout * 0.999) < RISK && risk(timeout * 1.001) > RISK);
    }
}
