//! Which period and timeout keep a rate of false suspicions.
//!
//! A living node is suspected when nothing of it comes for a whole timeout. That needs either a stall, during which
//! nothing is sent, carried or looked at, or as many lost heartbeats in a row as a timeout has. Each of the two gets
//! half of the wanted rate. The timeout then is the stall plus the periods of the heartbeats that may be lost.

use std::time::Duration;

/// Heartbeats may wait for their emitter's an eighth of a period longer (see `propagation`).
const STRETCH: f64 = 1.125;
/// A timeout has about so many periods, as by default: more cost processor time and gain little.
const PERIODS: f64 = 10.0;
/// Most heartbeats that may be lost in a row; a network that loses more has to be mended.
const MOST_SPARE: i32 = 6;
/// The parameters' ranges.
const LONGEST_PERIOD: Duration = Duration::from_secs(60);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

/// What the measurement says.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The stall that is exceeded at half of the wanted rate, in microseconds.
    pub stall_us: f64,
    /// The share of heartbeats that gets lost, at most.
    pub loss: f64,
    /// The period with which that was measured: a shorter one was not tried.
    pub period: Duration,
}

/// What is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Time between two heartbeats.
    pub period: Duration,
    /// Suspicion timeout.
    pub timeout: Duration,
    /// How many heartbeats in a row may be lost besides the stall.
    pub spare: i32,
}

/// Period and timeout for so many false suspicions per node and hour; a fixed period if the user wants one.
///
/// # Errors
/// A sentence if there is none within the parameters' ranges.
pub fn advise(measured: Measured, per_hour: f64, fixed: Option<Duration>) -> Result<Advice, String> {
    for spare in 1..=MOST_SPARE {
        let needed = STRETCH * f64::from(spare + 1);
        let shortest = round_up(measured.stall_us / (PERIODS - needed)).clamp(measured.period, LONGEST_PERIOD);
        let period = fixed.unwrap_or(shortest);
        let lost_per_hour = measured.loss.powi(spare + 1) * 3600.0 / period.as_secs_f64();
        if lost_per_hour > per_hour / 2.0 {
            continue;
        }
        let timeout = round_up(measured.stall_us + needed * period.as_secs_f64() * 1e6).max(period * 3);
        if timeout > LONGEST_TIMEOUT {
            let needed = timeout.as_secs();
            return Err(format!(
                "silences on these nodes have so heavy a tail that a timeout of {needed} s would be needed, and 600 s is the longest: \
                 measure longer, or accept a higher --rate"
            ));
        }
        return Ok(Advice { period, timeout, spare });
    }
    Err(format!(
        "up to {:.2} % of the heartbeats were lost: with so much loss no timeout keeps that rate; mend the network, measure longer, \
         or accept a higher --rate",
        measured.loss * 100.0
    ))
}

/// The share that is lost, with 95 % confidence not more, when so many of so many were.
pub fn most_lost(lost: u64, sent: u64) -> f64 {
    // The upper end of a Poisson count: 3 for none (the rule of three), about 1.645 standard deviations for many.
    let lost = lost as f64;
    ((lost + 1.645 * lost.sqrt() + 3.0) / (sent as f64).max(1.0)).min(1.0)
}

/// A time in microseconds as one that people write: two digits, not shorter.
fn round_up(micros: f64) -> Duration {
    let micros = micros.clamp(1.0, 1e15);
    let unit = 10_f64.powf((micros.log10().floor() - 1.0).max(0.0));
    // A value that is round already stays, whatever its logarithm was rounded to.
    Duration::from_micros(((micros / unit - 1e-9).ceil() * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn measured(stall_us: f64, loss: f64) -> Measured {
        Measured { stall_us, loss, period: 2 * MS }
    }

    #[test]
    fn the_timeout_bears_the_stall_and_the_losses_and_has_about_ten_periods() {
        for (stall_us, loss) in [(0.0, 1e-6), (900.0, 1e-4), (40_000.0, 1e-4), (3e6, 0.01)] {
            let Advice { period, timeout, spare } = advise(measured(stall_us, loss), 1e-4, None).unwrap();
            assert!(period >= 2 * MS && timeout >= 3 * period && timeout <= 12 * period, "{period:?} {timeout:?}");
            let bears = stall_us + period.as_secs_f64() * 1e6 * f64::from(spare + 1);
            assert!(timeout.as_secs_f64() * 1e6 >= bears, "{timeout:?} for {bears}");
            assert!(loss.powi(spare + 1) * 3600.0 / period.as_secs_f64() <= 1e-4 / 2.0);
        }
    }

    #[test]
    fn a_fixed_period_is_kept() {
        let advice = advise(measured(40_000.0, 1e-9), 1e-4, Some(100 * MS)).unwrap();
        assert_eq!((advice.period, advice.spare), (100 * MS, 1));
        // 40 ms and twice 112.5 ms.
        assert_eq!(advice.timeout, 300 * MS);
    }

    #[test]
    fn what_cannot_be_kept_is_said() {
        assert!(advise(measured(1e9, 1e-6), 1e-4, None).unwrap_err().contains("measure longer"));
        assert!(advise(measured(1e3, 0.5), 1e-4, None).unwrap_err().contains("50.00 %"));
    }

    #[test]
    fn times_are_rounded_up_to_two_digits() {
        let rounded: Vec<_> =
            [0.0, 7.2, 10.0, 101.0, 2000.0, 2001.0, 99_900.0].map(|micros| round_up(micros).as_micros()).to_vec();
        assert_eq!(rounded, [1, 8, 10, 110, 2000, 2100, 100_000]);
    }

    #[test]
    fn no_loss_seen_is_not_no_loss() {
        assert!((most_lost(0, 3000) - 1e-3).abs() < 1e-9);
        assert!(most_lost(100, 10_000) > 0.01 && most_lost(100, 10_000) < 0.0121);
        assert!(most_lost(5, 0) <= 1.0);
    }
}
