//! What the steady clocks show a process before `MPI_Init`: their first values, for a moment. A library that is loaded
//! before all others (`LD_PRELOAD`) has the table; without it there is none.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The file of the library, from the folder of the plugin for PMIx: PMIx complains of other libraries in that.
pub const FILE: &str = "ringwatch/clocks.so";
/// The name of the table. Another layout is another name.
pub const TABLE: &CStr = c"rw_early_clocks_1";

/// Clocks that begin anywhere: what they show has a meaning only beside an earlier value.
const STEADY: [libc::clockid_t; 4] =
    [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_BOOTTIME];

/// How many readings show the first value, and for how long: what libraries read while they are loaded.
const MOST: u32 = 64;
const LONGEST: u64 = 1_000_000_000;

/// The first value of each.
#[repr(C)]
#[derive(Debug, Default)]
pub struct EarlyClocks {
    /// In nanoseconds; 0 for none.
    first: [AtomicU64; STEADY.len()],
    readings: AtomicU32,
}

impl EarlyClocks {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: [const { AtomicU64::new(0) }; STEADY.len()], readings: AtomicU32::new(0) }
    }

    fn place(&self, clock: libc::clockid_t) -> Option<&AtomicU64> {
        STEADY.iter().position(|steady| *steady == clock).map(|place| &self.first[place])
    }

    /// A clock is read at this time in nanoseconds. Returns what it shows: at first, always the first value.
    pub fn read(&self, clock: libc::clockid_t, now: u64) -> u64 {
        let Some(place) = self.place(clock) else { return now };
        let first =
            place.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|first| first, |_| now);
        let is_early = self.readings.fetch_add(1, Ordering::Relaxed) < MOST && now.saturating_sub(first) < LONGEST;
        if is_early { first } else { now }
    }

    /// Whether all further readings show what they are.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.readings.load(Ordering::Relaxed) >= MOST
    }

    /// The first value of a clock in nanoseconds; `None` for none.
    #[must_use]
    pub fn first(&self, clock: libc::clockid_t) -> Option<u64> {
        self.place(clock).map(|place| place.load(Ordering::Relaxed)).filter(|first| *first > 0)
    }
}

/// The table of this process, if it has one.
#[must_use]
pub fn table() -> Option<&'static EarlyClocks> {
    // SAFETY: the name is that of a table of this type, which stays for ever.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, TABLE.as_ptr()).cast::<EarlyClocks>().as_ref() }
}

/// Nanoseconds of a time.
#[must_use]
pub fn nanos(time: libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The time of so many nanoseconds.
#[must_use]
pub fn time(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// The type of `clock_gettime`.
pub type Read = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_clock_stands_still_at_first() {
        let clocks = EarlyClocks::new();
        assert_eq!(clocks.first(libc::CLOCK_MONOTONIC), None);
        assert_eq!([7, 8].map(|now| clocks.read(libc::CLOCK_MONOTONIC, now)), [7, 7]);
        assert_eq!([8, 9].map(|now| clocks.read(libc::CLOCK_PROCESS_CPUTIME_ID, now)), [8, 9], "it is no steady clock");
        assert_eq!(clocks.read(libc::CLOCK_MONOTONIC, 7 + LONGEST), 7 + LONGEST);
        assert_eq!(clocks.first(libc::CLOCK_MONOTONIC), Some(7));
        for _ in 0..MOST {
            clocks.read(libc::CLOCK_BOOTTIME, 5);
        }
        assert_eq!((clocks.read(libc::CLOCK_BOOTTIME, 6), clocks.is_over()), (6, true));
        assert!(table().is_none(), "no library with a table is loaded");
    }
}
