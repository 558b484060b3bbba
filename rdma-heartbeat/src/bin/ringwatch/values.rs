//! Values on the command line that more than one command reads.

use std::num::NonZero;
use std::time::Duration;

use rdma_heartbeat::parameters::parse_duration;

/// A time with its unit.
pub fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| {
        "a time from zero on with its unit was expected (us, ms, s, min, h, d or y), such as 10ms or 2s".into()
    })
}

/// A share of all messages.
pub fn share(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "a number from 0 to 1 was expected, such as 0.01".into())
}

/// A seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a number from 0 to {} was expected", u64::MAX))
}

/// A number of threads.
pub fn threads(text: &str) -> Result<NonZero<usize>, String> {
    let threads = text.parse().ok().filter(|&threads: &NonZero<usize>| threads.get() <= 1024);
    threads.ok_or_else(|| "a number from 1 to 1024 was expected".into())
}

/// A number of runs: what they have in common is worked out from all of them, in memory.
pub fn runs(text: &str) -> Result<u64, String> {
    let runs = text.parse().ok().filter(|runs| (1..=100_000_000).contains(runs));
    runs.ok_or_else(|| "a number from 1 to 100000000 was expected".into())
}
