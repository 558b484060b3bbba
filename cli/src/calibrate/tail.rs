//! How rare long silences are beyond the longest that was measured.
//!
//! Peaks over a threshold: what exceeds a high threshold follows, for nearly every distribution, a generalised Pareto
//! distribution (Pickands 1975), of which the exponential one is the case of shape 0. Scale and shape are fitted by
//! maximum likelihood, penalised as Coles and Dixon do it (Extremes 2:1, 1999, section 4): a handful of silences of two
//! kinds looks like a tail without a mean, from which hours would follow; silences have one, so the shape is below 1.
//! With many silences the penalty is nothing beside the likelihood. A shape below 0 would mean that there is a longest
//! silence: no measurement can show that, so the shape is at least 0. What is extrapolated is the upper end of a 95 %
//! interval, from fits to resampled silences.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rdma_heartbeat::report::distribution::Distribution;

/// Fewest silences that say anything about a tail.
pub const FEWEST: u64 = 1000;
/// How many silences may be taken for the tail, but not more than one in 200.
const SIZES: [u64; 7] = [10, 20, 50, 100, 200, 500, 1000];
const ONE_IN: u64 = 200;
/// Fits to resampled silences, and how many of them are above the upper end of the interval.
const RESAMPLED: usize = 400;
const ABOVE: usize = RESAMPLED / 20;
const SEED: u64 = 1;
/// A tail that had to be so lucky is not the right one.
const CHANCE: f64 = 0.01;
const HOUR_US: f64 = 3600e6;

/// The tail of a distribution of silences. Times are in microseconds, rates per node and hour.
#[derive(Clone, Debug)]
pub struct Tail {
    threshold: f64,
    /// How often the threshold is exceeded.
    rate: f64,
    /// By how much, and how often that was seen.
    excesses: Vec<(f64, u64)>,
    fit: Fit,
    /// Fits to resampled excesses.
    others: Vec<Fit>,
}

/// A generalised Pareto distribution from 0 on.
#[derive(Clone, Copy, Debug)]
struct Fit {
    scale: f64,
    shape: f64,
}

impl Tail {
    /// Fits the tail of what was measured; `None` if that is too little.
    pub fn of(silences: &Distribution) -> Option<Self> {
        let count = silences.count();
        if count < FEWEST {
            return None;
        }
        let pairs: Vec<_> = silences.pairs().collect();
        let wanted = (count / ONE_IN).clamp(SIZES[0], SIZES[SIZES.len() - 1]);
        // The most silences to which one tail fits: stalls may be of another kind than the usual trembling.
        let sizes = SIZES.into_iter().rev().filter(|size| *size <= wanted);
        let mut candidates = sizes.map(|size| above(&pairs, size));
        let mut chosen = candidates.next()?;
        while !Fit::to(&chosen.1).is_adequate(&chosen.1) {
            let Some(next) = candidates.next() else { break };
            chosen = next;
        }
        let (threshold, excesses) = chosen;
        let size = excesses.iter().map(|(_, count)| count).sum::<u64>();
        let fit = Fit::to(&excesses);
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let others = (0..RESAMPLED).map(|_| Fit::to(&resample(&excesses, size, &mut random))).collect();
        Some(Self { threshold, rate: size as f64 / hours(silences), excesses, fit, others })
    }

    /// How many silences the fit is made of.
    pub fn size(&self) -> u64 {
        self.excesses.iter().map(|(_, count)| count).sum()
    }

    /// The shape of the fit: 0 is an exponential tail, the larger the heavier.
    pub fn shape(&self) -> f64 {
        self.fit.shape
    }

    /// From where on silences belong to the tail.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The silence that is exceeded at this rate, as the fit has it.
    pub fn level(&self, rate: f64) -> f64 {
        self.threshold + self.fit.level(self.rate / rate)
    }

    /// The shortest silence in the tail that was exceeded more rarely than this; at least as long as that is every
    /// silence that comes still more rarely.
    fn measured_level(&self, rate: f64) -> f64 {
        let each = self.rate / self.size() as f64;
        let mut longer = 0;
        let mut longest_first = self.excesses.iter().rev();
        let found = longest_first.find(|(_, count)| {
            longer += count;
            longer as f64 * each > rate
        });
        self.threshold + found.map_or(0.0, |(excess, _)| *excess)
    }

    /// The same as [`Tail::level`], with 95 % confidence not longer, if the fit may be extrapolated at all.
    pub fn upper_level(&self, rate: f64) -> f64 {
        let mut levels: Vec<_> = self.others.iter().map(|fit| fit.level(self.rate / rate)).collect();
        levels.sort_by(f64::total_cmp);
        let upper = self.threshold + levels[RESAMPLED - 1 - ABOVE].max(self.fit.level(self.rate / rate));
        upper.max(self.measured_level(rate))
    }
}

impl Fit {
    /// The most likely one, with Coles' and Dixon's penalty for shapes near 1, which counts as much as one silence
    /// does.
    fn to(excesses: &[(f64, u64)]) -> Self {
        let count = excesses.iter().map(|(_, count)| *count as f64).sum::<f64>();
        let mean_of = |value: &dyn Fn(f64) -> f64| {
            excesses.iter().map(|(excess, count)| value(*excess) * *count as f64).sum::<f64>() / count
        };
        let mean = mean_of(&|excess| excess);
        let (mut best, mut likelihood) = (Fit { scale: mean, shape: 0.0 }, count * (-mean.ln() - 1.0));
        // theta is shape / scale: from nearly exponential to a tail that begins at a thousandth of the mean.
        for step in -120..=120 {
            let theta = 10_f64.powf(f64::from(step) / 40.0) / mean;
            let log = mean_of(&|excess| (theta * excess).ln_1p());
            for shape in (1..100).map(|percent| f64::from(percent) / 100.0) {
                let penalty = 1.0 / (1.0 - shape) - 1.0;
                let here = count * (-(shape / theta).ln() - log / shape - log) - penalty;
                if here > likelihood {
                    (best, likelihood) = (Fit { scale: shape / theta, shape }, here);
                }
            }
        }
        best
    }

    /// Whether long excesses were nowhere seen so often that by this fit it would be a rare chance.
    fn is_adequate(self, excesses: &[(f64, u64)]) -> bool {
        let size = excesses.iter().map(|(_, count)| count).sum::<u64>();
        let mut left = size;
        excesses.windows(2).all(|pair| {
            left -= pair[0].1;
            at_least(left, size as f64 * self.share_above(pair[0].0)) > CHANCE
        })
    }

    /// The share of what exceeds this.
    fn share_above(self, excess: f64) -> f64 {
        if self.shape < 1e-6 {
            (-excess / self.scale).exp()
        } else {
            (-(self.shape * excess / self.scale).ln_1p() / self.shape).exp()
        }
    }

    /// What one in so many exceeds.
    fn level(self, one_in: f64) -> f64 {
        let log = one_in.max(1.0).ln();
        if self.shape < 1e-6 { self.scale * log } else { self.scale / self.shape * (self.shape * log).exp_m1() }
    }
}

/// The silences above a threshold: as many as wanted, or somewhat more. Returns the threshold and the excesses.
fn above(pairs: &[(u64, u64)], wanted: u64) -> (f64, Vec<(f64, u64)>) {
    let (mut first, mut size) = (pairs.len(), 0);
    while size < wanted && first > 0 {
        // The bulk is no tail: it begins above a bucket that holds far more than was wanted.
        if size >= SIZES[0] && size + pairs[first - 1].1 > 2 * wanted {
            break;
        }
        first -= 1;
        size += pairs[first].1;
    }
    // A time stands for the longest one in its bucket: the threshold lies below the bucket.
    let threshold = if first > 0 { pairs[first - 1].0 as f64 } else { 0.0 };
    (threshold, pairs[first..].iter().map(|(time, count)| (*time as f64 - threshold, *count)).collect())
}

/// The chance of at least so many where a mean of `expected` is: the tail of a Poisson distribution.
fn at_least(count: u64, expected: f64) -> f64 {
    let mut term = (-expected).exp();
    let mut fewer = 0.0;
    for k in 0..count {
        fewer += term;
        term *= expected / (k + 1) as f64;
    }
    if fewer < 0.5 {
        return 1.0 - fewer;
    }
    // The small rest itself, which would be lost beside 1.
    let mut rest = 0.0;
    for k in count.. {
        if term <= rest * 1e-12 {
            break;
        }
        rest += term;
        term *= expected / (k + 1) as f64;
    }
    rest
}

/// As many excesses, each drawn from those there are.
fn resample(excesses: &[(f64, u64)], size: u64, random: &mut Pcg64Mcg) -> Vec<(f64, u64)> {
    let mut drawn: Vec<_> = excesses.iter().map(|(excess, _)| (*excess, 0)).collect();
    for _ in 0..size {
        let mut place = ((u128::from(random.next_u64()) * u128::from(size)) >> 64) as u64;
        for ((_, count), (_, drawn)) in excesses.iter().zip(&mut drawn) {
            if place < *count {
                *drawn += 1;
                break;
            }
            place -= count;
        }
    }
    drawn.retain(|(_, count)| *count > 0);
    drawn
}

/// How many node-hours were watched: the silences follow each other without a gap.
pub fn hours(silences: &Distribution) -> f64 {
    // A bucket is a sixteenth wide, so its times are a thirty-second shorter in the mean.
    silences.pairs().map(|(time, count)| time as f64 * 31.0 / 32.0 * count as f64).sum::<f64>() / HOUR_US
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// So many silences of 2 ms, each longer by what the quantile function says.
    fn silences(count: u32, beyond: impl Fn(f64) -> f64) -> Distribution {
        let mut distribution = Distribution::default();
        for n in 0..count {
            let one_in = f64::from(count) / (f64::from(n) + 0.5);
            distribution.add(Duration::from_secs_f64(2e-3 + beyond(one_in)));
        }
        distribution
    }

    /// The silence that comes once in so many.
    fn once_in(silences: &Distribution, tail: &Tail, one_in: f64) -> (f64, f64) {
        let rate = silences.count() as f64 / hours(silences) / one_in;
        (tail.level(rate), tail.upper_level(rate))
    }

    #[test]
    fn an_exponential_tail_is_continued_as_one() {
        let silences = silences(30_000, |one_in| 1e-3 * one_in.ln());
        let tail = Tail::of(&silences).unwrap();
        assert!(tail.shape() < 0.1, "{}", tail.shape());
        let (level, upper) = once_in(&silences, &tail, 1e9);
        let truth = 2e3 + 1e3 * 1e9_f64.ln();
        assert!(level > truth * 0.8 && level < truth * 1.3, "{level} for {truth}");
        assert!(upper > truth * 0.95 && upper < truth * 3.0, "{upper} for {truth}");
    }

    #[test]
    fn a_heavy_tail_is_recognised() {
        let silences = silences(30_000, |one_in| 1e-3 * one_in.powf(0.4));
        let tail = Tail::of(&silences).unwrap();
        // 100 silences leave a shape uncertain by 0.14.
        assert!((tail.shape() - 0.4).abs() < 0.14, "{}", tail.shape());
        let (level, upper) = once_in(&silences, &tail, 1e8);
        let truth = 2e3 + 1e3 * 1e8_f64.powf(0.4);
        assert!(level > truth * 0.3 && level < truth * 3.0, "{level} for {truth}");
        assert!(upper > truth && upper > level, "{upper} for {truth}");
    }

    #[test]
    fn a_few_silences_of_two_kinds_are_no_tail_without_a_mean() {
        // Three seconds of four loaded nodes.
        let mut silences = silences(5880, |one_in| 2e-5 * one_in.ln());
        for one in 0..14 {
            silences.add(Duration::from_micros(2300 + 120 * one));
        }
        for one in 0..6 {
            silences.add(Duration::from_millis(29 + 2 * one));
        }
        let (level, upper) = once_in(&silences, &Tail::of(&silences).unwrap(), 120.0 * 500.0);
        assert!(level > 35e3 && upper > level && upper < 60e6, "{level} {upper}");
    }

    #[test]
    fn rare_stalls_are_not_taken_for_the_end_of_the_usual_trembling() {
        let mut silences = silences(20_000, |one_in| 2e-4 * one_in.ln());
        for stall in 0..9 {
            silences.add(Duration::from_millis(12 + stall));
        }
        let tail = Tail::of(&silences).unwrap();
        assert!(tail.size() < 100, "{}", tail.size());
        let (level, upper) = once_in(&silences, &tail, 4000.0);
        assert!(level < 25_000.0 && upper > 14_000.0 && upper >= level, "{level} {upper}");
        let (level, upper) = once_in(&silences, &tail, 1e8);
        assert!(level > 40_000.0 && upper > level, "{level} {upper}");
        // One single stall is shorter than nothing that is rarer.
        silences.add(Duration::from_millis(900));
        assert!(once_in(&silences, &Tail::of(&silences).unwrap(), 1e5).1 >= 900_000.0);
    }

    #[test]
    fn poisson_tails_are_right() {
        assert!((at_least(1, 1e-6) / 1e-6 - 1.0).abs() < 1e-5);
        assert!((at_least(2, 1e-6) / 0.5e-12 - 1.0).abs() < 1e-5);
        assert!((at_least(3, 2.0) - (1.0 - 5.0 * (-2.0_f64).exp())).abs() < 1e-12);
        assert_eq!(at_least(0, 3.0), 1.0);
        assert!(at_least(100, 1000.0) > 0.999);
    }

    #[test]
    fn within_what_was_measured_the_fit_is_what_was_measured() {
        let silences = silences(30_000, |one_in| 1e-3 * one_in.ln());
        let tail = Tail::of(&silences).unwrap();
        let (level, _) = once_in(&silences, &tail, 1000.0);
        let measured = silences.quantile(0.999).unwrap() as f64;
        assert!((level / measured - 1.0).abs() < 0.1, "{level} and {measured}");
    }

    #[test]
    fn too_little_has_no_tail_and_perfect_regularity_a_short_one() {
        assert!(Tail::of(&silences(999, |_| 0.0)).is_none());
        let regular = silences(5000, |_| 0.0);
        let (level, upper) = once_in(&regular, &Tail::of(&regular).unwrap(), 1e9);
        assert!(level.is_finite() && upper.is_finite() && level > 2000.0, "{level} {upper}");
    }
}
