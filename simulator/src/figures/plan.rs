//! How much is simulated for a figure, and what is made of the results.

use std::num::NonZero;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::batch;

use super::chart::grouped;

/// The processor time that a quick point may take, in seconds.
const QUICK: f64 = 5.0;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Fewer runs, so that all is drawn within a few minutes; the pictures say so.
    pub quick: bool,
    /// Runs per point, 10,000 in the paper; the quick ones are fewer.
    pub runs: u64,
    /// The largest platform of figures 4 and 5, 256,000 nodes in the paper; the larger ones are left out.
    pub largest: u32,
    /// On how many threads. Of no influence on the results.
    pub threads: NonZero<usize>,
    /// Whether to show a progress bar on standard error.
    pub progress: bool,
}

impl Plan {
    /// How many runs for a point whose runs take about so many seconds each.
    pub(super) fn runs(&self, seconds: f64) -> u64 {
        let quick = ((QUICK / seconds) as u64).clamp(6, 1000);
        if self.quick { quick.min(self.runs) } else { self.runs }
    }

    /// What a picture that is not the whole reproduction says.
    pub(super) fn warning(&self) -> String {
        if self.quick {
            "quick: fewer runs per point than the paper's 10,000, see the CSV file".into()
        } else if self.runs < 10_000 {
            format!("{} runs per point instead of the paper's 10,000", self.runs)
        } else {
            String::new()
        }
    }

    /// The same where points have these numbers of runs.
    pub(super) fn warning_about(&self, runs: &[u64]) -> String {
        let full = runs.iter().take_while(|&&runs| runs >= 10_000).count();
        if full == runs.len() {
            return String::new();
        }
        let first = (full > 0).then(|| format!("10,000 each at {full} sizes")).into_iter();
        let rest = runs[full..].iter().map(|&runs| grouped(runs));
        let each: Vec<_> = first.chain(rest).collect();
        let quick = if self.quick { "quick: " } else { "" };
        format!("{quick}fewer runs per point than the paper's 10,000, from left to right: {}", each.join(" - "))
    }

    pub(super) fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        let target = if self.progress { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg:24} [{bar:40}] {pos}/{len} runs, {eta} left");
        ProgressBar::with_draw_target(Some(total), target)
            .with_style(style.expect("a constant template"))
            .with_message(what)
    }

    pub(super) fn batch<T: Send>(&self, runs: u64, run: impl Fn(u64) -> T + Sync, bar: &ProgressBar) -> Vec<T> {
        batch(runs, self.threads, run, || bar.inc(1))
    }
}

/// What many runs have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// How many there were.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The smallest.
    pub least: f64,
    /// A twentieth of them is below.
    pub low: f64,
    /// A twentieth of them is above.
    pub high: f64,
    /// The largest.
    pub most: f64,
}

impl Sample {
    /// Of these values.
    pub fn of(mut values: Vec<f64>) -> Sample {
        values.sort_by(f64::total_cmp);
        let Some(&most) = values.last() else { return Sample::default() };
        let count = values.len();
        Sample {
            count,
            mean: values.iter().sum::<f64>() / count as f64,
            least: values[0],
            low: values[count / 20],
            high: values[count - 1 - count / 20],
            most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_leaves_a_twentieth_on_either_side() {
        let sample = Sample::of((0..100).rev().map(f64::from).collect());
        assert_eq!((sample.count, sample.mean, sample.least, sample.most), (100, 49.5, 0.0, 99.0));
        assert_eq!((sample.low, sample.high), (5.0, 94.0));
        assert_eq!(Sample::of(vec![]), Sample::default());
    }
}
