//! The picture of a calibration: how often silences of at least some length came, and what follows from it.

use std::time::Duration;

use simulator::figures::chart::{Chart, Look, Series};

use super::measure::Phase;
use super::tail::{Tail, hours};

/// Points of a curve that is computed.
const POINTS: u32 = 80;

/// One measurement and its tail.
pub struct Curve<'a> {
    /// What was measured.
    pub phase: &'a Phase,
    /// The tail that was fitted to it.
    pub tail: &'a Tail,
}

/// The picture as the text of an SVG file: rates per node and hour over silences.
pub fn svg(curves: &[Curve<'_>], wanted: f64, timeout: Option<Duration>, subtitle: &str) -> String {
    let mut series = Vec::new();
    for (colour, Curve { phase, tail }) in curves.iter().enumerate() {
        let points = survivors(phase);
        let most = points.first().map_or(wanted, |point| point.1);
        series.push(line(format!("{}: measured", phase.name), colour, Look::Dots, points));
        let level = |rate| tail.level(rate);
        series.push(line(
            format!("{}: fitted tail", phase.name),
            colour,
            Look::Line,
            extrapolated(tail, &level, most, wanted),
        ));
        let upper = |rate| tail.upper_level(rate);
        series.push(line(
            format!("{}: upper end of its 95 % interval", phase.name),
            colour,
            Look::Dashed,
            extrapolated(tail, &upper, most, wanted),
        ));
    }
    let ends = |value: fn(&(f64, f64)) -> f64| {
        let values = || series.iter().flat_map(|series: &Series| series.points.iter().map(value));
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    };
    let (x, y) = (ends(|point| point.0), ends(|point| point.1));
    let millis = timeout.map(|timeout| timeout.as_secs_f64() * 1e3);
    let right = millis.unwrap_or(x.1).max(x.1);
    series.push(line("wanted rate of false suspicions".into(), 2, Look::Line, vec![(x.0, wanted), (right, wanted)]));
    if let Some(millis) = millis {
        series.push(line("recommended timeout".into(), 3, Look::Line, vec![(millis, wanted.min(y.0)), (millis, y.1)]));
    }
    Chart {
        title: "Silences between two heartbeats",
        subtitle,
        warning: "",
        x: "silence (ms)",
        y: "at least so long: times per node and hour",
        log: true,
        is_linear: false,
        series,
    }
    .svg()
}

fn line(label: String, colour: usize, look: Look, points: Vec<(f64, f64)>) -> Series {
    Series { label, colour, look, points, band: vec![] }
}

/// How often a silence was at least so long: the measured curve, shortest silence first.
fn survivors(phase: &Phase) -> Vec<(f64, f64)> {
    let hours = hours(&phase.silences);
    let mut left = phase.silences.count();
    let mut points = Vec::new();
    for (micros, count) in phase.silences.pairs() {
        // Heartbeats that came soon after a late one are no silences.
        if micros as f64 >= phase.period.as_secs_f64() * 1e6 / 2.0 {
            points.push((micros as f64 / 1e3, left as f64 / hours));
        }
        left -= count;
    }
    points
}

/// The tail from where it begins down to the wanted rate.
fn extrapolated(tail: &Tail, level: &dyn Fn(f64) -> f64, most: f64, wanted: f64) -> Vec<(f64, f64)> {
    let (from, to) = (most.ln(), wanted.ln());
    (0..=POINTS)
        .map(|step| (from + (to - from) * f64::from(step) / f64::from(POINTS)).exp())
        .map(|rate| (level(rate) / 1e3, rate))
        .filter(|(millis, _)| *millis > tail.threshold() / 1e3)
        .collect()
}
