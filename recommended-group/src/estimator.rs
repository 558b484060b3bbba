//! The threshold of a reply follows the replies: algorithm 1 of the paper, for one tester and one tested process.
//!
//! It is TCP's estimate (Jacobson and Karels) with a tolerance. Printed, it starts with zeros, so that even a constant
//! process fails the second test. Here the first reply is the mean and half of it the variance, as in RFC 6298; for the
//! first test the threshold is a parameter.

use std::time::Duration;

use crate::units::Time;

/// Parameters of all estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tolerance {
    /// Weight of the past, in thousandths (alpha in the paper).
    pub past: u32,
    /// Weight of the variance (beta in the paper).
    pub variance: u32,
    /// The estimate is multiplied by this, in thousandths.
    pub multiplier: u32,
    /// Then this is added.
    pub addend: Time,
    /// Threshold of the first test.
    pub initial: Time,
}

impl Default for Tolerance {
    /// As in the paper's experiments: 0.9, 4, 2.5, nothing, 8 s.
    fn default() -> Self {
        let (addend, initial) = (Duration::ZERO, Duration::from_secs(8));
        Self { past: 900, variance: 4, multiplier: 2500, addend, initial }
    }
}

/// What a tester expects of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Estimator {
    /// Mean and variance of the replies in nanoseconds; none before the first reply.
    of_replies: Option<(u64, u64)>,
}

impl Estimator {
    /// The time within which a reply is good.
    #[must_use]
    pub fn threshold(&self, tolerance: &Tolerance) -> Time {
        let Some((mean, variance)) = self.of_replies else { return tolerance.initial };
        let timeout = u128::from(mean) + u128::from(tolerance.variance) * u128::from(variance);
        let product = timeout * u128::from(tolerance.multiplier) / 1000;
        Duration::from_nanos(product.min(u128::from(u64::MAX)) as u64).saturating_add(tolerance.addend)
    }

    /// Takes the time of a reply, in time or late.
    pub fn observe(&mut self, reply: Time, tolerance: &Tolerance) {
        let reply = reply.as_nanos().min(u128::from(u64::MAX)) as u64;
        let mix = |old: u64, new: u64| {
            let past = u128::from(tolerance.past);
            ((past * u128::from(old) + (1000 - past) * u128::from(new)) / 1000) as u64
        };
        self.of_replies = Some(match self.of_replies {
            None => (reply, reply / 2),
            Some((mean, variance)) => {
                // The paper takes the difference from the new mean, RFC 6298 from the old one.
                let mean = mix(mean, reply);
                (mean, mix(variance, mean.abs_diff(reply)))
            }
        });
    }

    /// The mean of the replies.
    #[must_use]
    pub fn mean(&self) -> Option<Time> {
        self.of_replies.map(|(mean, _)| Duration::from_nanos(mean))
    }
}
