//! What `ringwatchd` asks of the operating system for itself: to run at once when something happens, and nothing else of
//! its parent's.

use nix::errno::Errno;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl::{set_dumpable, set_no_new_privs, set_timerslack};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getgid, getuid, setpgid, setresgid, setresuid};
use tracing::{debug, info};

/// Memory that the daemon may come to lock; it needs far less.
const LOCKED_LIMIT: u64 = 64 << 20;

/// Time slice asked for where no priority is to be had, in nanoseconds, the kernel's smallest: with a short one a
/// process that wakes up overtakes busy ones with longer slices. Linux 6.12 and newer.
const SHORT_SLICE: u64 = 100_000;

/// Leaves the process group of the runtime daemon, whose terminal signals are not for this process, and closes every
/// descriptor from `first` on.
pub fn detach(first: u32) {
    for ignored in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGTTOU, Signal::SIGPIPE]
    {
        // SAFETY: ignoring a signal installs no handler.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    // SAFETY: closes descriptors that nothing in this process owns yet: it has opened none.
    unsafe { libc::close_range(first, u32::MAX, 0) };
}

/// Gives up what this process will never need: to become somebody else, and to be looked into, because it has the key.
pub fn give_up_privileges() {
    let (user, group) = (getuid(), getgid());
    // Nothing changes unless the program was installed set-id, which it never should be.
    let _ = setresgid(group, group, group);
    let _ = setresuid(user, user, user);
    let _ = set_no_new_privs();
    let _ = set_dumpable(false);
}

/// Asks for priority, for locked memory and for exact timers; what is refused is logged and done without.
pub fn prepare() {
    raise_priority();
    lock_memory();
    if let Err(error) = set_timerslack(1000) {
        debug!(%error, "timers stay inexact");
    }
    // Three descriptors per rank of this node.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Has the calling thread run at once when it is woken, if that is allowed.
pub fn raise_priority() {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid for the call, which affects the calling thread only.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter) };
    if result == 0 {
        return;
    }
    // SAFETY: takes three integers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
    if result != 0 {
        let error = Errno::last();
        let helped = shorten_slice();
        info!(%error, short_slice = helped, "no right to raise the priority; under heavy load the living may look dead");
    }
}

/// Needs no right. Returns whether the kernel took it.
fn shorten_slice() -> bool {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        // SAFETY: takes two integers.
        sched_nice: unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        sched_priority: 0,
        sched_runtime: SHORT_SLICE,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the structure says its own size, outlives the call and concerns the calling thread only.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// Locks what is mapped now, and what comes later only if the limit cannot make that fail: a failed allocation would
/// end the process.
fn lock_memory() {
    let limit = Resource::RLIMIT_MEMLOCK;
    let _ = setrlimit(limit, RLIM_INFINITY, RLIM_INFINITY);
    let wide = getrlimit(limit).is_ok_and(|(soft, _)| soft >= LOCKED_LIMIT);
    let flags = if wide { MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE } else { MlockAllFlags::MCL_CURRENT };
    if let Err(error) = mlockall(flags) {
        info!(%error, "no right to lock memory; when the node is short of it failures may be seen later");
    }
}
