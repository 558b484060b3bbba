//! Stands before `clock_gettime` in a rank with replicas. Before `MPI_Init` each steady clock stands still for a moment
//! at its first value, which is noted ([`EarlyClocks`]).
//!
//! LAMMPS subtracts the time at which its library was loaded from every later one, and sends sums of these numbers.
//! Replicas are loaded at different times. They are shown the same times since the first reading.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use openmpi_internals::loaded::has_begun;
use platform::early_clocks::{EarlyClocks, Read, nanos, time};

/// The table that the layer in the rank looks for by this name.
#[allow(non_upper_case_globals, reason = "its name in the library")]
#[unsafe(no_mangle)]
pub static rw_early_clocks_1: EarlyClocks = EarlyClocks::new();

/// Whether MPI has begun: what it reads is not the program's.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// The function of the C library.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// As of the C library, but for the first readings.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, place: *mut libc::timespec) -> c_int {
    let mut next = NEXT.load(Ordering::Relaxed);
    if next.is_null() {
        // SAFETY: a terminated name.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        NEXT.store(next, Ordering::Relaxed);
    }
    let code = if next.is_null() {
        // SAFETY: as of the caller.
        unsafe { libc::syscall(libc::SYS_clock_gettime, clock, place) as c_int }
    } else {
        // SAFETY: the function of this name in the library behind this one; as of the caller.
        unsafe { std::mem::transmute::<*mut c_void, Read>(next)(clock, place) }
    };
    if code == 0 && !IS_OVER.load(Ordering::Relaxed) {
        if has_begun() || rw_early_clocks_1.is_over() {
            IS_OVER.store(true, Ordering::Relaxed);
        } else {
            // SAFETY: the clock has written it.
            let now = nanos(unsafe { *place });
            // SAFETY: as above.
            unsafe { *place = time(rw_early_clocks_1.read(clock, now)) };
        }
    }
    code
}
