//! What `ringwatchd` asks of the operating system for itself: to run at once when something happens, and nothing else of
//! its parent's.

use std::ffi::c_void;
use std::ops::Range;

use nix::errno::Errno;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl::{set_dumpable, set_name, set_no_new_privs, set_pdeathsig, set_timerslack};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getgid, getuid, setpgid, setresgid, setresuid};
use tracing::{debug, info, warn};

use crate::privileges;

/// Memory that the daemon may come to lock; it needs far less.
const LOCKED_LIMIT: u64 = 64 << 20;

/// Memory that is kept for later where only what is there at the start can be locked: several times what a node of a
/// small job comes to need.
const RESERVE: usize = 512 << 10;
const PIECE: usize = 64 << 10;

/// Time slice asked for where no priority is to be had, in nanoseconds, the kernel's smallest: with a short one a
/// process that wakes up overtakes busy ones with longer slices. Linux 6.12 and newer.
const SHORT_SLICE: u64 = 100_000;

/// Has all threads take their memory from one place. Else what a thread that comes later has allocated, in a place that
/// may not be locked, would be given on to the daemon's loop when it is freed. Before the first thread.
pub fn share_one_heap() {
    // SAFETY: takes two integers.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

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

/// Has the process called by its name, which it is not where it was started through a descriptor.
pub fn be_called_by_name() {
    let _ = set_name(c"ringwatchd");
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

/// Has the kernel continue this process, should it be stopped, when its runtime daemon ends. Nobody else would find it
/// then, nor the ranks that it has to end. After [`give_up_privileges`], with which this would be lost.
pub fn go_on_when_the_runtime_ends() {
    let _ = set_pdeathsig(Signal::SIGCONT);
}

/// Gives up the capabilities that only the start has needed. An RDMA device serves only threads with the rights of the one
/// that has opened it, so none is opened before.
/// `runtime` is the process whose children are watched. `hands_on` leaves them to the programs that this process starts.
pub fn give_up_capabilities(runtime: Option<i32>, hands_on: bool) {
    let status = runtime.and_then(|pid| std::fs::read(format!("/proc/{pid}/status")).ok()).unwrap_or_default();
    let watched = privileges::permitted_in(&String::from_utf8_lossy(&status));
    let kept = privileges::needed(privileges::permitted(), watched);
    if hands_on { privileges::rest(kept) } else { privileges::keep(kept) }
}

/// A right that this process would need to keep its deadlines on a node that is short of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To run before other processes.
    Priority,
    /// To keep its memory.
    Memory,
    /// To keep what it may come to need of memory beyond a reserve.
    MoreMemory,
}

impl Right {
    /// What it is, what may happen without it, and how to give it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Priority => {
                "to run before other processes, without which a node under heavy load may look dead \
                 (give it with scripts/install --priority, or 'rtprio 1' in /etc/security/limits.conf)"
            }
            Self::Memory => {
                "to lock its memory, without which a node that is short of memory may look dead \
                 (give it with 'memlock unlimited' in /etc/security/limits.conf)"
            }
            Self::MoreMemory => {
                "to lock more memory than it has and 512 KiB, without which a large job may look dead on a node that is \
                 short of memory (give it with 'memlock unlimited' in /etc/security/limits.conf)"
            }
        }
    }
}

/// Asks for priority, for locked memory and for exact timers; returns what was refused, and is done without. What is mapped
/// later may stay out of the lock: see [`lock_the_rest`].
pub fn prepare() -> Vec<Right> {
    let mut refused = Vec::new();
    if let Err(error) = raise_priority() {
        let short_slice = shorten_slice();
        debug!(%error, short_slice, "the priority stays as it is");
        refused.push(Right::Priority);
    } else if !is_real_time() {
        info!("ringwatchd runs with nice -10, as real-time priority is not to be had: other processes may delay it");
    }
    if let Err(error) = lock_memory() {
        debug!(%error, "memory is not locked");
        refused.push(Right::Memory);
    }
    if let Err(error) = set_timerslack(1000) {
        debug!(%error, "timers stay inexact");
    }
    // Three descriptors per rank of this node.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    refused
}

/// Says what was refused, in one line. `loud`: also where nobody has asked for details, unless only large jobs miss it.
pub fn complain(refused: &[Right], loud: bool) {
    let loud = loud && refused.iter().any(|right| *right != Right::MoreMemory);
    let texts: Vec<_> = refused.iter().map(|right| right.text()).collect();
    match (texts.is_empty(), loud) {
        (true, _) => {}
        (false, true) => warn!("ringwatchd has no right {}", texts.join(", and none ")),
        (false, false) => info!("ringwatchd has no right {}", texts.join(", and none ")),
    }
}

/// Has the calling thread run at once when it is woken, if that is allowed.
///
/// # Errors
/// If it is not.
pub fn raise_priority() -> Result<(), Errno> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid for the call, which affects the calling thread only.
    let result =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter) };
    if result == 0 {
        return Ok(());
    }
    // SAFETY: takes three integers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
    Errno::result(result).map(drop)
}

/// Whether the calling thread runs before all ordinary ones.
fn is_real_time() -> bool {
    // SAFETY: takes one integer.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO }
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
/// end the process. Returns whether what comes later is locked, too.
fn lock_memory() -> Result<bool, Errno> {
    let limit = Resource::RLIMIT_MEMLOCK;
    let _ = setrlimit(limit, RLIM_INFINITY, RLIM_INFINITY);
    let wide = getrlimit(limit).is_ok_and(|(soft, _)| soft >= LOCKED_LIMIT);
    mlockall(MlockAllFlags::MCL_CURRENT)?;
    if wide {
        // Each page from when it is first used: libibverbs loads the drivers of devices that the node does not have.
        // SAFETY: takes an integer.
        Errno::result(unsafe { libc::mlockall(libc::MCL_FUTURE | libc::MCL_ONFAULT) })?;
    }
    Ok(wide)
}

/// Locks all of the library that has this function, which was loaded after [`prepare`]: what the daemon's loop may call there
/// must not have to come from a disk first. Does nothing if that is not allowed.
pub fn lock_library(function: *const c_void) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for range in mappings_of_file(&maps, function as usize) {
        // SAFETY: locking changes no memory; if the mapping were gone the call would fail.
        if unsafe { libc::mlock(range.start as *const c_void, range.len()) } != 0 {
            return debug!(error = %Errno::last(), "a library is not locked");
        }
    }
}

/// All mappings of the file that is mapped at an address, by a text like `/proc/self/maps` (proc_pid_maps(5)).
fn mappings_of_file(maps: &str, address: usize) -> Vec<Range<usize>> {
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let file = rest.split_once('/')?.1.to_owned();
        Some((usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?, file))
    };
    let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
    let Some((_, wanted)) = mappings.iter().find(|(range, _)| range.contains(&address)) else { return Vec::new() };
    mappings.iter().filter(|(_, file)| file == wanted).map(|(range, _)| range.clone()).collect()
}

/// Has the allocator keep some memory that it has not given to anybody, so that it is there to be locked.
fn keep_reserve() {
    // SAFETY: takes two integers.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) };
    // In pieces, because large ones are not from the heap.
    let pieces: Vec<_> = (0..RESERVE / PIECE).map(|_| vec![1_u8; PIECE]).collect();
    std::hint::black_box(pieces);
}

/// Locks what was mapped since [`prepare`], once all that a job needs is there.
pub fn lock_the_rest(refused: &mut Vec<Right>) {
    if refused.contains(&Right::Memory) {
        return;
    }
    let locked = lock_memory().and_then(|wide| {
        if !wide {
            keep_reserve();
            lock_memory()?;
        }
        Ok(wide)
    });
    match locked {
        Ok(true) => {}
        Ok(false) => refused.push(Right::MoreMemory),
        Err(error) => {
            debug!(%error, "not all memory is locked");
            refused.push(Right::Memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::number_in;

    const MAPS: &str = "55d0a000-55d0b000 r-xp 00000000 08:01 11 /usr/bin/ringwatchd
7f10000000-7f10001000 rw-p 00000000 00:00 0
7f20000000-7f20001000 r--p 00000000 08:01 12 /usr/lib/a b/librxe-rdmav34.so
7f20001000-7f20003000 r-xp 00001000 08:01 12 /usr/lib/a b/librxe-rdmav34.so
7f20003000-7f20004000 rw-p 00003000 08:01 12 /usr/lib/a b/librxe-rdmav34.so
7f20004000-7f20005000 rw-p 00000000 00:00 0
7f30000000-7f30001000 r-xp 00000000 08:01 13 /usr/lib/a b/libmlx5-rdmav34.so
7ffd0000-7ffd1000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn a_library_is_found_as_a_whole_and_no_other() {
        let of = |address| mappings_of_file(MAPS, address);
        let whole = [0x7f_2000_0000..0x7f_2000_1000, 0x7f_2000_1000..0x7f_2000_3000, 0x7f_2000_3000..0x7f_2000_4000];
        assert_eq!(of(0x7f_2000_1000), whole);
        assert_eq!(of(0x7f_2000_3fff), whole);
        for nothing in [0x7f_2000_4000, 0x7f_1000_0000, 0x7ffd_0000, 0] {
            assert!(of(nothing).is_empty());
        }
    }

    #[test]
    fn a_library_is_locked() {
        let locked = || number_in::<usize>(&std::fs::read("/proc/self/status").unwrap(), "VmLck:").unwrap();
        let before = locked();
        lock_library(libc::getpid as *const c_void);
        assert!(locked() >= before + 1024, "libc is not locked: {before} kB before, {} kB after", locked());
    }
}
