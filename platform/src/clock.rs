//! The clocks: monotonic for the protocol, UTC for the log.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Time since the node started. It goes on while the process is stopped and while the node itself sleeps, and is the
/// same in every process of the node.
#[must_use]
pub fn now() -> Duration {
    time_of(ClockId::CLOCK_BOOTTIME)
}

/// Time since the node started without its sleep.
#[must_use]
pub fn awake() -> Duration {
    time_of(ClockId::CLOCK_MONOTONIC)
}

/// Time since the node started without its sleep, as of the kernel's last tick (1 to 10 ms ago): costs a fraction of
/// [`now`].
#[must_use]
pub fn of_last_tick() -> Duration {
    time_of(ClockId::CLOCK_MONOTONIC_COARSE)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock).expect("Linux always has a monotonic clock");
    Duration::new(time.tv_sec().unsigned_abs(), u32::try_from(time.tv_nsec()).unwrap_or(0))
}

/// A moment in UTC as `2026-01-01T00:00:00.000000Z`.
#[must_use]
pub fn utc(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date_of(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_micros()
    )
}

/// Now in UTC, as [`utc`] writes it.
#[must_use]
pub fn utc_now() -> String {
    utc(SystemTime::now())
}

/// Date of a day counted from 1970-01-01. Counts from a March 1st, so that the leap day ends its year.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let at = |seconds: u64, micros: u32| utc(UNIX_EPOCH + Duration::new(seconds, micros * 1000));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399, 999_999), "2000-02-28T23:59:59.999999Z");
        assert_eq!(at(951_782_400, 1), "2000-02-29T00:00:00.000001Z");
        assert_eq!(at(1_767_225_600, 0), "2026-01-01T00:00:00.000000Z");
        assert_eq!(at(4_107_542_399, 0), "2100-02-28T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }

    /// A step of the wall clock changes only output, and no decision.
    #[test]
    fn only_what_is_written_and_the_age_of_a_heartbeat_ask_the_wall_clock() {
        fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => sources(&path, found),
                    false => found.push(path),
                }
            }
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        for part in [
            "rdma-heartbeat",
            "node-abi",
            "platform",
            "propagation",
            "pmix-plugin",
            "prte-hooks",
            "event-log",
            "checkpoints",
            "logger-client",
            "message-logging",
            "mpi-entry",
            "mpi-layer",
        ] {
            sources(&root.join(part).join("src"), &mut found);
        }
        assert!(found.len() > 50, "the sources are here: {}", found.len());
        let wall = ["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME", "gettimeofday"];
        let mut asking: Vec<_> = found
            .iter()
            .filter(|path| wall.iter().any(|word| std::fs::read_to_string(path).unwrap().contains(word)))
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        asking.sort_unstable();
        // This file, times of records, how old a datagram is by the kernel's stamp (which is believed only between two
        // looks of the daemon's own clock), and times of log lines.
        assert_eq!(asking, ["clock.rs", "history.rs", "lane.rs", "logging.rs"]);
    }

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
    }
}
