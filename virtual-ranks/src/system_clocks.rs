//! Clocks of the system, which a program may decide by: they show what the protocol says. The program's own calls are
//! meant, and those of the libraries of its language.
//!
//! | function | what is decided |
//! |---|---|
//! | `time`, `gettimeofday`, `clock_gettime` | the time |
//! | `clock_gettime` of a clock that the program has read before `MPI_Init` and that begins anywhere | the time since then |
//! | `clock`, `getrusage` | the processor time |

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use openmpi_internals::calls_by_name::{self, ByName};
use platform::early_clocks;

use crate::layer;

thread_local! {
    /// Whether this is the thread of the program that calls MPI.
    static CALLS_MPI: Cell<bool> = const { Cell::new(false) };
}

/// Has the program's clocks show what the protocol says. In the thread that calls MPI, when the layer is there. Returns
/// whether all of the program's objects could be changed.
pub fn take() -> bool {
    CALLS_MPI.set(true);
    let functions: [ByName; 5] = [
        (c"time", time as *const c_void),
        (c"gettimeofday", gettimeofday as *const c_void),
        (c"clock_gettime", clock_gettime as *const c_void),
        (c"clock", clock as *const c_void),
        (c"getrusage", getrusage as *const c_void),
    ];
    // SAFETY: each has the type of its function in the C library, and stays for ever.
    unsafe { calls_by_name::take_calls(&functions) }
}

/// What a number of this process is for the program: what the protocol says, in the program's thread and outside of
/// MPI; else the number itself is `None`.
pub fn decided(own: u64) -> Option<u64> {
    let decide = || {
        // A function of MPI under way has the lock.
        let mut protocol = layer::present()?.protocol.try_lock().ok()?;
        Some(protocol.clock(own))
    };
    let is_meant = CALLS_MPI.try_with(Cell::get).unwrap_or(false);
    is_meant.then(|| catch_unwind(AssertUnwindSafe(decide)).ok().flatten()).flatten()
}

fn shown(own: u64) -> u64 {
    decided(own).unwrap_or(own)
}

unsafe extern "C" fn time(place: *mut libc::time_t) -> libc::time_t {
    // SAFETY: the system's function.
    let time = shown(unsafe { libc::time(std::ptr::null_mut()) } as u64) as libc::time_t;
    // SAFETY: null, or room for a time, as of the caller.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = time;
    }
    time
}

unsafe extern "C" fn gettimeofday(place: *mut libc::timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the system's function, with the caller's places.
    let code = unsafe { libc::gettimeofday(place, zone.cast()) };
    // SAFETY: null, or what the system has written.
    if let (0, Some(time)) = (code, unsafe { place.as_mut() }) {
        decide(time);
    }
    code
}

fn decide(time: &mut libc::timeval) {
    let micros = shown(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    (time.tv_sec, time.tv_usec) = ((micros / 1_000_000) as c_long, (micros % 1_000_000) as c_long);
}

unsafe extern "C" fn clock_gettime(which: libc::clockid_t, place: *mut libc::timespec) -> c_int {
    // SAFETY: the system's function, with the caller's place.
    let code = unsafe { libc::clock_gettime(which, place) };
    // SAFETY: null, or what the system has written.
    if let (0, Some(time)) = (code, unsafe { place.as_mut() }) {
        let origin = early_clocks::table().and_then(|early| early.first(which)).unwrap_or(0);
        let nanos = origin.wrapping_add(shown(early_clocks::nanos(*time).wrapping_sub(origin)));
        (time.tv_sec, time.tv_nsec) = ((nanos / 1_000_000_000) as c_long, (nanos % 1_000_000_000) as c_long);
    }
    code
}

unsafe extern "C" fn clock() -> libc::clock_t {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system's function, with room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    shown(used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000) as libc::clock_t
}

unsafe extern "C" fn getrusage(who: c_int, place: *mut libc::rusage) -> c_int {
    // SAFETY: the system's function, with the caller's place.
    let code = unsafe { libc::getrusage(who, place) };
    // SAFETY: null, or what the system has written.
    if let (0, Some(used)) = (code, unsafe { place.as_mut() }) {
        decide(&mut used.ru_utime);
        decide(&mut used.ru_stime);
    }
    code
}
