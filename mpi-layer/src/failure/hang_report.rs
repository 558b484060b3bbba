//! Reports calls in which this rank hangs after a death.
//!
//! Open MPI 5.0 waits for ever for a dead process in one-sided communication, in constructors that send messages of
//! their own, and in the runtime's group operations.
//!
//! The progress loop inspects its own stack, once a second for some time after each death and every five seconds from
//! then on. ringwatch prints a sentence if a rank has been in the same function for ten seconds and has made no other
//! such call.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use platform::clock::of_last_tick;
use platform::say::say;

use crate::failure::wakeup;
use openmpi_internals::sync::lock;

/// Interval of inspections after a death, number of inspections at that interval, and the interval afterwards.
const STEP: Duration = Duration::from_secs(1);
const STEPS: u32 = 15;
const LATER: Duration = Duration::from_secs(5);
/// Minimum duration and number of inspections in the same call before it is reported.
const LONG: Duration = Duration::from_secs(10);
const LOOKS: u32 = 3;

/// Prefixes of MPI functions in which a rank may wait for a dead process.
const UNINTERRUPTED: [&str; 14] = [
    "MPI_Win_",
    "MPI_Put",
    "MPI_Get",
    "MPI_Rput",
    "MPI_Rget",
    "MPI_Accumulate",
    "MPI_Raccumulate",
    "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",
    "MPI_Comm_create_from_group",
    "MPI_Intercomm_",
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_spawn",
];

static INSPECTION: Mutex<Option<Inspection>> = Mutex::new(None);
/// Number of such calls that have begun or ended.
static CALLS: AtomicU32 = AtomicU32::new(0);

struct Inspection {
    /// Time of the next inspection, on the clock [`of_last_tick`].
    next: Duration,
    steps: u32,
    present: Option<Wait>,
}

/// A call in which this rank was seen.
struct Wait {
    function: String,
    /// Value of [`CALLS`].
    calls: u32,
    since: Duration,
    looks: u32,
    is_told: bool,
}

/// Starts inspections after the death of a process of the job.
pub fn begin() {
    *lock(&INSPECTION) = Some(Inspection { next: of_last_tick() + STEP, steps: 0, present: None });
    wakeup::end_rest();
}

/// Counts progress: a call of one of those functions, or a step that one of them does only once.
pub fn moved() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// How often a module needs turns of the progress loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// Occasionally, to read the clock.
    Rarely,
    EveryTurn,
}

/// Reports the call in which this rank has hung since a death, if any. Called in a turn of the progress loop.
pub fn report_long_wait(rank: u32) -> Need {
    let Ok(mut watch) = INSPECTION.try_lock() else { return Need::EveryTurn };
    let Some(present) = watch.as_mut() else { return Need::Nothing };
    if of_last_tick() >= present.next {
        if let Some((function, duration)) = present.step() {
            say(&format!(
                "ringwatch: rank {rank} has been in {function} for {} s, since a process died: if it waits for that one, nothing ends it (Open MPI 5.0 does not interrupt this function)",
                duration.as_secs()
            ));
        }
    }
    if present.steps < STEPS { Need::EveryTurn } else { Need::Rarely }
}

impl Inspection {
    /// The function in which this rank hangs, and for how long; once for each hang.
    fn step(&mut self) -> Option<(String, Duration)> {
        let now = of_last_tick();
        self.steps = self.steps.saturating_add(1);
        self.next = now + if self.steps < STEPS { STEP } else { LATER };
        self.seen(now, present_function(), CALLS.load(Ordering::Relaxed))
    }

    /// Evaluates an inspection at time `now`: the function that the rank is in, and the number of calls so far.
    fn seen(&mut self, now: Duration, function: Option<String>, calls: u32) -> Option<(String, Duration)> {
        let Some(function) = function else {
            self.present = None;
            return None;
        };
        match &mut self.present {
            Some(wait) if wait.function == function && wait.calls == calls => {
                wait.looks = wait.looks.saturating_add(1);
                let duration = now.saturating_sub(wait.since);
                if wait.is_told || wait.looks < LOOKS || duration < LONG {
                    return None;
                }
                wait.is_told = true;
                Some((function, duration))
            }
            other => {
                *other = Some(Wait { function, calls, since: now, looks: 1, is_told: false });
                None
            }
        }
    }
}

/// The function among [`UNINTERRUPTED`] that is on this thread's stack.
fn present_function() -> Option<String> {
    let mut frames = [std::ptr::null_mut::<c_void>(); 64];
    // SAFETY: the array has room for that many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let frames = &frames[..usize::try_from(count).unwrap_or(0)];
    frames.iter().find_map(|frame| {
        let name = symbol(*frame)?;
        let name = name.strip_prefix('P').unwrap_or(&name);
        UNINTERRUPTED.iter().any(|known| name.starts_with(known)).then(|| name.to_owned())
    })
}

/// Name of the exported function that contains an address.
pub fn symbol(address: *mut c_void) -> Option<String> {
    // SAFETY: any address may be passed; the name belongs to a library that stays loaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(address, &mut info) != 0 && !info.dli_sname.is_null();
        found.then(|| CStr::from_ptr(info.dli_sname).to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reports of a rank for inspections of (seconds after a death, function, number of calls).
    fn reports(looks: &[(u64, &str, u32)]) -> Vec<(String, u64)> {
        let start = Duration::ZERO;
        let mut watch = Inspection { next: start, steps: 0, present: None };
        let mut said = Vec::new();
        for (second, function, calls) in looks {
            let function = (!function.is_empty()).then(|| (*function).to_owned());
            said.extend(watch.seen(start + Duration::from_secs(*second), function, *calls));
        }
        said.into_iter().map(|(function, duration)| (function, duration.as_secs())).collect()
    }

    #[test]
    fn a_hang_is_reported_once() {
        let looks: Vec<_> = (1..=30).map(|second| (second, "MPI_Win_lock", 5)).collect();
        assert_eq!(reports(&looks), [("MPI_Win_lock".to_owned(), 10)]);
    }

    #[test]
    fn a_hang_that_begins_long_after_a_death_is_reported() {
        assert_eq!(reports(&[(85, "", 0), (90, "MPI_Put", 1), (95, "MPI_Put", 1)]), []);
        let looks = [(85, "", 0), (90, "MPI_Put", 1), (95, "MPI_Put", 1), (100, "MPI_Put", 1), (105, "MPI_Put", 1)];
        assert_eq!(reports(&looks), [("MPI_Put".to_owned(), 10)]);
    }

    #[test]
    fn repeated_calls_are_not_a_hang() {
        let looks: Vec<_> = (1..=100).map(|second| (second, "MPI_Win_lock", second as u32)).collect();
        assert_eq!(reports(&looks), []);
        let looks: Vec<_> = (1..=100).map(|second| (second, ["MPI_Put", "MPI_Get"][second as usize % 2], 5)).collect();
        assert_eq!(reports(&looks), []);
        let looks: Vec<_> =
            (1..=100).map(|second| (second, ["MPI_Put", ""][usize::from(second % 9 == 0)], 5)).collect();
        assert_eq!(reports(&looks), []);
    }

    #[test]
    fn a_second_hang_is_reported_too() {
        let looks: Vec<_> = (0..60).map(|second| (second, "MPI_Win_lock", 5 + second as u32 / 30)).collect();
        assert_eq!(reports(&looks).len(), 2);
    }
}
