//! Draws charts: reads them from standard input as a JSON array, and writes one SVG with all of them to standard
//! output.
//!
//! `scripts/bench` draws with it what it has measured.

use std::io::{Write as _, stdin, stdout};

use serde::Deserialize;
use simulator::figures::chart::{Chart, Look, Series, sheet};

/// See [`Chart`].
#[derive(Deserialize)]
struct Drawn {
    title: String,
    subtitle: String,
    #[serde(default)]
    warning: String,
    x: String,
    y: String,
    log: bool,
    #[serde(default)]
    is_linear: bool,
    series: Vec<DrawnSeries>,
}

/// See [`Series`].
#[derive(Deserialize)]
struct DrawnSeries {
    label: String,
    colour: usize,
    #[serde(with = "DrawnLook")]
    look: Look,
    points: Vec<(f64, f64)>,
    #[serde(default)]
    band: Vec<(f64, f64)>,
}

/// See [`Look`].
#[derive(Deserialize)]
#[serde(remote = "Look", rename_all = "lowercase")]
enum DrawnLook {
    Dots,
    Line,
    Dashed,
    Published,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut drawn: Vec<Drawn> = serde_json::from_reader(stdin().lock())?;
    let series: Vec<Vec<_>> = drawn.iter_mut().map(|chart| chart.series.drain(..).map(series).collect()).collect();
    let charts: Vec<_> = drawn
        .iter()
        .zip(series)
        .filter(|(_, series)| series.iter().any(|one| !one.points.is_empty()))
        .map(|(chart, series)| Chart {
            title: &chart.title,
            subtitle: &chart.subtitle,
            warning: &chart.warning,
            x: &chart.x,
            y: &chart.y,
            log: chart.log,
            is_linear: chart.is_linear,
            series,
        })
        .collect();
    if charts.is_empty() {
        return Err("there is no chart with a point to draw".into());
    }
    stdout().write_all(sheet(&charts).as_bytes())?;
    Ok(())
}

fn series(DrawnSeries { label, colour, look, points, band }: DrawnSeries) -> Series {
    Series { label, colour, look, points, band }
}
