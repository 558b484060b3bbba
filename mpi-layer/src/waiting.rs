//! Says what this rank waits in after a death where nothing can end that: Open MPI 5.0 waits for ever for a dead process in
//! one-sided communication, in constructors that send messages of their own, and where groups meet in the runtime.
//!
//! The progress loop looks at its own stack, once a second for some time after each death and every five seconds from then on.
//! Whoever is in the same function of these for ten seconds, and has made no other such call meanwhile, gets a sentence.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdma_heartbeat::clock::of_last_tick;
use rdma_heartbeat::logging::say;

use crate::line::lock;

/// Time between two looks after a death, for so many looks, and then.
const STEP: Duration = Duration::from_secs(1);
const STEPS: u32 = 15;
const LATER: Duration = Duration::from_secs(5);
/// Who is seen in the same call for so long, and so often, waits.
const LONG: Duration = Duration::from_secs(10);
const LOOKS: u32 = 3;
/// Turns of the progress loop between two looks at the clock, later.
const TURNS: u32 = 1000;

/// Functions of MPI in which a rank may wait for the dead, by the beginnings of their names.
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

static WATCH: Mutex<Option<Watch>> = Mutex::new(None);
/// Calls that were seen to begin or end.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Turns of the progress loop that nobody needs.
static RESTING: AtomicU32 = AtomicU32::new(0);

struct Watch {
    /// When the next look is due, on the clock [`of_last_tick`].
    next: Duration,
    steps: u32,
    present: Option<Wait>,
}

/// A call that this rank was seen in.
struct Wait {
    function: String,
    /// Of [`CALLS`].
    calls: u32,
    since: Duration,
    looks: u32,
    is_told: bool,
}

/// A process of the job is dead.
pub fn begin() {
    *lock(&WATCH) = Some(Watch { next: of_last_tick() + STEP, steps: 0, present: None });
    RESTING.store(0, Ordering::Relaxed);
}

/// A call of one of those functions, or what one of them does only once.
pub fn moved() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// What a rank needs turns of the progress loop for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// A look at the clock now and then.
    Rarely,
    EveryTurn,
}

/// A turn of the progress loop of this rank.
pub fn look(rank: u32) -> Need {
    let Ok(mut watch) = WATCH.try_lock() else { return Need::EveryTurn };
    let Some(present) = watch.as_mut() else { return Need::Nothing };
    if of_last_tick() >= present.next
        && let Some((function, duration)) = present.step()
    {
        say(&format!(
            "ringwatch: rank {rank} has been in {function} for {} s, since a process died: if it waits for that one, nothing ends it (Open MPI 5.0 does not interrupt this function)",
            duration.as_secs()
        ));
    }
    if present.steps < STEPS { Need::EveryTurn } else { Need::Rarely }
}

/// No turn is needed for some time, unless [`wake`] is called or somebody dies.
pub fn rest() {
    RESTING.store(TURNS, Ordering::Relaxed);
}

/// Every turn is needed.
pub fn wake() {
    RESTING.store(0, Ordering::Relaxed);
}

/// Whether this turn is not needed.
pub fn is_resting() -> bool {
    let left = RESTING.load(Ordering::Relaxed);
    if left > 0 {
        // Threads may count the same turn, and one that is woken up may be put to rest: it is for a thousand turns.
        RESTING.store(left - 1, Ordering::Relaxed);
    }
    left > 0
}

impl Watch {
    /// The function in which this rank waits, and how long it has, once for each wait.
    fn step(&mut self) -> Option<(String, Duration)> {
        let now = of_last_tick();
        self.steps = self.steps.saturating_add(1);
        self.next = now + if self.steps < STEPS { STEP } else { LATER };
        self.seen(now, present_function(), CALLS.load(Ordering::Relaxed))
    }

    /// At this time, this rank is in a function, and so many calls were counted.
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

/// The function of MPI among [`UNINTERRUPTED`] that this thread is in.
fn present_function() -> Option<String> {
    let mut frames = [std::ptr::null_mut::<c_void>(); 64];
    // SAFETY: room for that many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let frames = &frames[..usize::try_from(count).unwrap_or(0)];
    frames.iter().find_map(|frame| {
        let name = symbol(*frame)?;
        let name = name.strip_prefix('P').unwrap_or(&name);
        UNINTERRUPTED.iter().any(|known| name.starts_with(known)).then(|| name.to_owned())
    })
}

/// Name of the exported function that an address is in.
pub fn symbol(address: *mut c_void) -> Option<String> {
    // SAFETY: any address may be asked for; the name belongs to a library that stays.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(address, &mut info) != 0 && !info.dli_sname.is_null();
        found.then(|| CStr::from_ptr(info.dli_sname).to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a rank says when it is seen in these functions, as so many calls were counted, so many seconds after a death.
    fn told(looks: &[(u64, &str, u32)]) -> Vec<(String, u64)> {
        let start = Duration::ZERO;
        let mut watch = Watch { next: start, steps: 0, present: None };
        let mut said = Vec::new();
        for (second, function, calls) in looks {
            let function = (!function.is_empty()).then(|| (*function).to_owned());
            said.extend(watch.seen(start + Duration::from_secs(*second), function, *calls));
        }
        said.into_iter().map(|(function, duration)| (function, duration.as_secs())).collect()
    }

    #[test]
    fn a_wait_is_told_once() {
        let looks: Vec<_> = (1..=30).map(|second| (second, "MPI_Win_lock", 5)).collect();
        assert_eq!(told(&looks), [("MPI_Win_lock".to_owned(), 10)]);
    }

    #[test]
    fn a_wait_that_begins_long_after_a_death_is_told() {
        assert_eq!(told(&[(85, "", 0), (90, "MPI_Put", 1), (95, "MPI_Put", 1)]), []);
        let looks = [(85, "", 0), (90, "MPI_Put", 1), (95, "MPI_Put", 1), (100, "MPI_Put", 1), (105, "MPI_Put", 1)];
        assert_eq!(told(&looks), [("MPI_Put".to_owned(), 10)]);
    }

    #[test]
    fn who_calls_again_and_again_does_not_wait() {
        let looks: Vec<_> = (1..=100).map(|second| (second, "MPI_Win_lock", second as u32)).collect();
        assert_eq!(told(&looks), []);
        let looks: Vec<_> = (1..=100).map(|second| (second, ["MPI_Put", "MPI_Get"][second as usize % 2], 5)).collect();
        assert_eq!(told(&looks), []);
        let looks: Vec<_> =
            (1..=100).map(|second| (second, ["MPI_Put", ""][usize::from(second % 9 == 0)], 5)).collect();
        assert_eq!(told(&looks), []);
    }

    #[test]
    fn a_second_wait_is_told_as_well() {
        let looks: Vec<_> = (0..60).map(|second| (second, "MPI_Win_lock", 5 + second as u32 / 30)).collect();
        assert_eq!(told(&looks).len(), 2);
    }
}
