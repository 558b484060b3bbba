//! Requests resources for `ringwatchd` from the operating system, so that it runs at once after an event, and detaches
//! it from its parent.

use std::ffi::{OsStr, c_int, c_void};
use std::ops::Range;

use nix::errno::Errno;
use nix::sys::prctl::{set_dumpable, set_name, set_no_new_privs, set_pdeathsig, set_timerslack};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getgid, getuid, setpgid, setresgid, setresuid};
use platform::privileges;
use tracing::{debug, info, warn};

/// Maximum amount of locked memory in bytes; the daemon needs far less.
const LOCKED_LIMIT: u64 = 64 << 20;

/// Processor time of a real-time thread without a pause, in microseconds, after which the kernel ends it. The loop
/// pauses in every period, so only a runaway loop takes as much; the plugin then restarts `ringwatchd`.
const MOST_WITHOUT_A_PAUSE: u64 = 2_000_000;

/// Memory reserved at the start, in bytes, if later memory cannot be locked: several times the needs of a node of a
/// small job.
const RESERVE: usize = 512 << 10;
const PIECE: usize = 64 << 10;

/// Time slice without real-time priority, in nanoseconds: the kernel's minimum. With a short slice a process that wakes
/// up overtakes busy ones with longer slices. Linux 6.12 and newer.
const SHORT_SLICE: u64 = 100_000;

/// Makes all threads allocate from one heap. Otherwise memory of a later thread, in a heap that may not be locked,
/// could be reused by the daemon's loop. Call it before the first thread.
pub fn share_one_heap() {
    // SAFETY: takes two integers.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Leaves the process group of the runtime daemon, whose terminal signals do not concern this process, and closes every
/// descriptor from `first` on.
pub fn detach(first: u32) {
    for ignored in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGTTOU, Signal::SIGPIPE]
    {
        // SAFETY: ignoring a signal installs no handler.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    // SAFETY: closes descriptors without an owner: this process has opened none yet.
    unsafe { libc::close_range(first, u32::MAX, 0) };
}

/// Removes variables that make libibverbs load arbitrary libraries, if this program has more rights than its caller (a
/// file capability): otherwise the caller could run code with them. Call it before the first thread.
pub fn drop_driver_variables() {
    // SAFETY: takes an integer.
    if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
        return;
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| chooses_drivers(name)) {
        // SAFETY: this process still has one thread.
        unsafe { std::env::remove_var(name) };
    }
}

/// Whether a variable of the environment is one of libibverbs' (`RDMAV_DRIVERS`, `IBV_DRIVERS`, `IBV_CONFIG_DIR` and
/// others).
fn chooses_drivers(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    [&b"RDMAV_"[..], b"IBV_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Sets the process's name, which is wrong if it was started through a descriptor.
pub fn be_called_by_name() {
    let _ = set_name(c"ringwatchd");
}

/// Gives up unneeded abilities: to change the user, and to be inspected by other processes, because it has the key.
pub fn give_up_privileges() {
    let (user, group) = (getuid(), getgid());
    // No effect unless the program is set-id, which it should never be.
    let _ = setresgid(group, group, group);
    let _ = setresuid(user, user, user);
    let _ = set_no_new_privs();
    let _ = set_dumpable(false);
}

/// Makes the kernel continue this process, if it is stopped, when its runtime daemon ends: otherwise it would stay,
/// with the ranks that it has to end. Call it after [`give_up_privileges`], which would revert this.
pub fn go_on_when_the_runtime_ends() {
    let _ = set_pdeathsig(Signal::SIGCONT);
}

/// Gives up capabilities that only the start needs. An RDMA device serves only threads with the opener's rights, so
/// none is opened before. `runtime` is the process whose children are watched. `hands_on` leaves the capabilities to
/// programs that this process starts.
pub fn give_up_capabilities(runtime: Option<i32>, hands_on: bool) {
    let status = runtime.and_then(|pid| std::fs::read(format!("/proc/{pid}/status")).ok()).unwrap_or_default();
    let watched = privileges::permitted_in(&String::from_utf8_lossy(&status));
    let kept = privileges::needed(privileges::permitted(), watched);
    if hands_on { privileges::rest(kept) } else { privileges::keep(kept) }
}

/// A right that this process needs to keep its deadlines on a node with scarce resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To run before other processes.
    Priority,
    /// To keep its memory.
    Memory,
    /// To keep further memory beyond a reserve.
    MoreMemory,
}

impl Right {
    /// Its name, in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Priority => "raise its priority",
            Self::Memory => "lock its memory",
            Self::MoreMemory => "lock more memory",
        }
    }

    /// Its name, the effect of its absence, and how to grant it.
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

/// Requests priority, locked memory and exact timers; returns refused rights, without which it continues. Later
/// mappings may stay unlocked: see [`lock_the_rest`]. Pages that have not been used yet are not read: see
/// [`read_memory`]. Call it before the log starts.
pub fn prepare() -> Vec<Right> {
    let mut refused = Vec::new();
    let _ = setrlimit(Resource::RLIMIT_RTTIME, MOST_WITHOUT_A_PAUSE, MOST_WITHOUT_A_PAUSE);
    if raise_priority().is_err() {
        let _ = shorten_slice();
        refused.push(Right::Priority);
    }
    if lock_memory().is_err() {
        refused.push(Right::Memory);
    }
    let _ = set_timerslack(1000);
    // Three descriptors per rank of this node.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    refused
}

/// Logs refused rights in one line. With `loud` it is a warning, unless only large jobs need them.
pub fn complain(refused: &[Right], loud: bool) {
    if !refused.contains(&Right::Priority) && !is_real_time() {
        info!("ringwatchd runs with nice -10, as real-time priority is not to be had: other processes may delay it");
    }
    let loud = loud && refused.iter().any(|right| *right != Right::MoreMemory);
    let texts: Vec<_> = refused.iter().map(|right| right.name()).collect();
    let sentence =
        || format!("ringwatchd has no right to {}: 'ringwatch status' says how to give it", texts.join(" or to "));
    match (texts.is_empty(), loud) {
        (true, _) => {}
        (false, true) => warn!("{}", sentence()),
        (false, false) => info!("{}", sentence()),
    }
}

/// Makes the calling thread run at once when it is woken, if permitted.
///
/// # Errors
/// If it is not permitted.
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

/// Whether the calling thread has real-time priority.
fn is_real_time() -> bool {
    // SAFETY: takes one integer.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO }
}

/// Sets the time slice, which needs no right. Returns whether the kernel accepted it.
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
    // SAFETY: the structure contains its own size, outlives the call and affects the calling thread only.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// Locks current mappings, and later ones only if the limit cannot make an allocation fail, which would end the
/// process. Each page is locked at its first use. Returns whether later mappings are locked, too.
fn lock_memory() -> Result<bool, Errno> {
    let limit = Resource::RLIMIT_MEMLOCK;
    let _ = setrlimit(limit, RLIM_INFINITY, RLIM_INFINITY);
    let wide = getrlimit(limit).is_ok_and(|(soft, _)| soft >= LOCKED_LIMIT);
    let later = if wide { libc::MCL_FUTURE } else { 0 };
    // SAFETY: takes an integer.
    Errno::result(unsafe { libc::mlockall(libc::MCL_CURRENT | later | libc::MCL_ONFAULT) })?;
    Ok(wide)
}

/// Locks the whole library that contains `function`, which was loaded after [`prepare`]: the daemon's loop must not
/// wait for its code to be read from a disk. Does nothing if that is not permitted.
pub fn lock_library(function: *const c_void) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for range in mappings_of_file(&maps, function as usize) {
        // SAFETY: locking changes no memory; if the mapping had vanished the call would fail.
        if unsafe { libc::mlock(range.start as *const c_void, range.len()) } != 0 {
            return debug!(error = %Errno::last(), "a library is not locked");
        }
    }
}

/// All mappings of the file that is mapped at an address, from a text like `/proc/self/maps` (proc_pid_maps(5)).
fn mappings_of_file(maps: &str, address: usize) -> Vec<Range<usize>> {
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        Some((addresses(range)?, rest.split_once('/')?.1.to_owned()))
    };
    let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
    let Some((_, wanted)) = mappings.iter().find(|(range, _)| range.contains(&address)) else { return Vec::new() };
    mappings.iter().filter(|(_, file)| file == wanted).map(|(range, _)| range.clone()).collect()
}

/// Makes the allocator keep some unused memory, so that it can be locked.
fn keep_reserve() {
    // SAFETY: takes two integers.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) };
    // In pieces, because large ones are not taken from the heap.
    let pieces: Vec<_> = (0..RESERVE / PIECE).map(|_| vec![1_u8; PIECE]).collect();
    std::hint::black_box(pieces);
}

/// Locks mappings since [`prepare`], once all resources for a job exist.
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

/// Stack of the thread that reads memory, in bytes: it is read, too.
const SMALL_STACK: usize = 64 << 10;

/// Reads all memory that has not been used yet, in a thread of its own: 5 ms of a processor, which the launch does not
/// wait for. Until then the loop may wait for a disk.
pub fn read_memory() {
    let read = || {
        privileges::keep(0);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for (range, advice) in maps.lines().filter_map(reading) {
            // SAFETY: reads pages, or copies private ones, of a mapping; if it had vanished the call would fail.
            if unsafe { libc::madvise(range.start as *mut c_void, range.len(), advice) } != 0 {
                debug!(error = %Errno::last(), "memory at {:x} is read at its first use", range.start);
            }
        }
    };
    let thread = std::thread::Builder::new().name("memory".into()).stack_size(SMALL_STACK);
    if let Err(error) = thread.spawn(read) {
        debug!(%error, "memory is read at its first use");
    }
}

/// The mapping of a line of proc_pid_maps(5), and how it is read: the process gets its own copies of what it may write.
fn reading(line: &str) -> Option<(Range<usize>, c_int)> {
    let mut words = line.split(' ');
    let range = addresses(words.next()?)?;
    let advice = match words.next()?.as_bytes() {
        [_, b'w', _, b'p'] => libc::MADV_POPULATE_WRITE,
        [b'r', ..] => libc::MADV_POPULATE_READ,
        _ => return None,
    };
    Some((range, advice))
}

/// The first column of proc_pid_maps(5).
fn addresses(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use platform::procfs::number_in;

    use super::*;

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
    fn variables_of_libibverbs_choose_drivers_and_no_others() {
        assert!(
            ["RDMAV_DRIVERS", "RDMAV_FORK_SAFE", "IBV_DRIVERS", "IBV_CONFIG_DIR"]
                .map(OsStr::new)
                .into_iter()
                .all(chooses_drivers)
        );
        assert!(!["PATH", "XRDMAV_DRIVERS", "IBVX", "UCX_TLS"].map(OsStr::new).into_iter().any(chooses_drivers));
    }

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
    fn what_may_be_written_is_copied_and_what_may_not_be_read_is_left_alone() {
        let readings: Vec<_> = MAPS.lines().filter_map(reading).collect();
        let advice = |address: usize| readings.iter().find(|(range, _)| range.contains(&address)).map(|found| found.1);
        assert_eq!(advice(0x55d0_a000), Some(libc::MADV_POPULATE_READ));
        assert_eq!(advice(0x7f_1000_0000), Some(libc::MADV_POPULATE_WRITE));
        assert_eq!(reading("7f0000000-7f0001000 ---p 00000000 00:00 0"), None);
        let shared = reading("7f0000000-7f0001000 rw-s 00000000 00:01 5 /memfd:ringwatch");
        assert_eq!(shared, Some((0x7_f000_0000..0x7_f000_1000, libc::MADV_POPULATE_READ)));
    }

    #[test]
    fn a_library_is_locked() {
        let locked = || number_in::<usize>(&std::fs::read("/proc/self/status").unwrap(), "VmLck:").unwrap();
        let before = locked();
        lock_library(libc::getpid as *const c_void);
        assert!(locked() >= before + 1024, "libc is not locked: {before} kB before, {} kB after", locked());
    }
}
