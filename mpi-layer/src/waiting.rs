//! Says what this rank waits in after a death where nothing can end that: Open MPI 5.0 waits for ever for a dead process in
//! one-sided communication, and in constructors that send messages of their own.
//!
//! The progress loop looks at its own stack, once a second for some time after each death. Whoever is in the same function
//! of these at ten looks, and has made no other such call meanwhile, gets a sentence.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rdma_heartbeat::logging::say;

use crate::line::lock;

/// Time between two looks.
const STEP: Duration = Duration::from_secs(1);
/// So many looks at the same call are a wait.
const LOOKS: u32 = 10;
/// A death is looked after for so many steps.
const STEPS: u32 = 30;

/// Functions of MPI in which a rank may wait for the dead, by the beginnings of their names.
const UNINTERRUPTED: [&str; 11] = [
    "MPI_Win_",
    "MPI_Put",
    "MPI_Get",
    "MPI_Rput",
    "MPI_Rget",
    "MPI_Accumulate",
    "MPI_Raccumulate",
    "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",
    "MPI_Comm_create_group",
    "MPI_Intercomm_",
];

static WATCH: Mutex<Option<Watch>> = Mutex::new(None);
/// Calls that were seen to begin or end.
static CALLS: AtomicU32 = AtomicU32::new(0);

struct Watch {
    next: Instant,
    steps: u32,
    calls: u32,
    function: Option<String>,
    looks: u32,
}

/// A process of the job is dead.
pub fn begin() {
    let calls = CALLS.load(Ordering::Relaxed);
    *lock(&WATCH) = Some(Watch { next: Instant::now() + STEP, steps: 0, calls, function: None, looks: 0 });
}

/// A call of one of those functions, or what one of them does only once.
pub fn moved() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// A turn of the progress loop of this rank; false if no further one is needed.
pub fn look(rank: u32) -> bool {
    let Ok(mut watch) = WATCH.try_lock() else { return true };
    let Some(present) = watch.as_mut() else { return false };
    if Instant::now() < present.next {
        return true;
    }
    if let Some(function) = present.step() {
        say(&format!(
            "ringwatch: rank {rank} has been in {function} for {LOOKS} s, since a process died: if it waits for that one, nothing ends it (Open MPI 5.0 does not interrupt this function)"
        ));
        present.steps = STEPS;
    }
    if present.steps >= STEPS {
        *watch = None;
    }
    watch.is_some()
}

impl Watch {
    /// The function in which this rank waits, if it does.
    fn step(&mut self) -> Option<String> {
        self.next = Instant::now() + STEP;
        self.steps += 1;
        let (function, calls) = (present_function(), CALLS.load(Ordering::Relaxed));
        let is_same = function.is_some() && function == self.function && calls == self.calls;
        self.looks = if is_same { self.looks + 1 } else { 1 };
        (self.function, self.calls) = (function, calls);
        self.function.clone().filter(|_| self.looks >= LOOKS)
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
