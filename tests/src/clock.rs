//! The clock that all virtual hosts share.

use std::time::Duration;

/// Time since the machine started (`CLOCK_BOOTTIME`, as in histories), as the diaries of the ranks have it.
#[must_use]
pub fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct that lives here.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Asks `condition` every few milliseconds until it holds; false if it does not within `limit`.
#[must_use]
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = now() + limit;
    loop {
        if condition() {
            return true;
        }
        if now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
