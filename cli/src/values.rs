//! Values on the command line of `ringwatch`. Each reader has one sentence for whatever is no such value.

use std::num::NonZero;
use std::time::Duration;

use node_abi::parameters::parse_duration;
use propagation::NodeId;

/// A time with its unit.
///
/// # Errors
/// A sentence for the user.
pub fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| {
        "a time from zero on with its unit was expected (us, ms, s, min, h, d or y), such as 10ms or 2s".into()
    })
}

/// A share of all messages.
///
/// # Errors
/// A sentence for the user.
pub fn share(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "a number from 0 to 1 was expected, such as 0.01".into())
}

/// A seed.
///
/// # Errors
/// A sentence for the user.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a number from 0 to {} was expected", u64::MAX))
}

/// A number of threads.
///
/// # Errors
/// A sentence for the user.
pub fn threads(text: &str) -> Result<NonZero<usize>, String> {
    let threads = text.parse().ok().filter(|&threads: &NonZero<usize>| threads.get() <= 1024);
    threads.ok_or_else(|| "a number from 1 to 1024 was expected".into())
}

/// A number of runs: what they have in common is worked out from all of them, in memory.
///
/// # Errors
/// A sentence for the user.
pub fn runs(text: &str) -> Result<u64, String> {
    let runs = text.parse().ok().filter(|runs| (1..=100_000_000).contains(runs));
    runs.ok_or_else(|| "a number from 1 to 100000000 was expected".into())
}

/// A node and when it fails: `5@1.2s`.
///
/// # Errors
/// A sentence for the user.
pub fn failure(text: &str) -> Result<(NodeId, Duration), String> {
    let expected = || "a node and a time were expected, such as 5@1.2s".to_owned();
    let (node, at) = text.split_once('@').ok_or_else(expected)?;
    Ok((node.trim().parse().map_err(|_| expected())?, time(at)?))
}

/// False suspicions per node and time.
#[derive(Clone, Debug)]
pub struct Rate {
    /// As it was given.
    pub text: String,
    /// From 1e-12 to 1e6.
    pub per_hour: f64,
}

/// A rate: `1/y`, `0.01/d`, `2/10h`.
///
/// # Errors
/// A sentence for the user.
pub fn rate(text: &str) -> Result<Rate, String> {
    let parsed = || {
        let (count, unit) = text.split_once('/')?;
        let count: f64 = count.trim().parse().ok()?;
        let unit = unit.trim();
        let digits = unit.starts_with(|c: char| c.is_ascii_digit());
        let time = parse_duration(&if digits { unit.to_owned() } else { format!("1{unit}") })?;
        let per_hour = count * 3600.0 / time.as_secs_f64();
        (per_hour.is_finite() && (1e-12..=1e6).contains(&per_hour)).then_some(per_hour)
    };
    let sentence = "a rate was expected, such as 1/y, 0.01/d or 2/h, from one in 1e12 hours to a million an hour";
    parsed().map(|per_hour| Rate { text: text.to_owned(), per_hour }).ok_or_else(|| sentence.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_time() {
        let per_hour = |text| rate(text).unwrap().per_hour;
        assert!((per_hour("1/h") - 1.0).abs() < 1e-9);
        assert!((per_hour("0.5 / d") - 0.5 / 24.0).abs() < 1e-9);
        assert!((per_hour("2/10y") - 0.2 / 8766.0).abs() < 1e-9);
        for bad in ["", "1", "1/", "/y", "-1/y", "0/y", "1/parsec", "NaN/h", "1e300/us", "1/0s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
