//! Gives up capabilities of this process (capabilities(7)): some are needed at the start, hardly any later.
//!
//! Capabilities belong to threads. A thread that is started while the process has some gives them up itself, see
//! [`keep`].

use nix::errno::Errno;
use nix::sys::prctl;

/// A set of capabilities, one bit each.
pub type Set = u64;

/// To lock memory beyond the limit: the memory that an adapter writes into, and a growing stack while all memory is
/// locked.
const IPC_LOCK: Set = 1 << 14;
/// To see data of another process of this user that the kernel shows only to a process that may trace it, such as its
/// exit status.
const SYS_PTRACE: Set = 1 << 19;

/// `_LINUX_CAPABILITY_VERSION_3`
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Half of each set: `struct __user_cap_data_struct`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The capabilities needed after the start by a process that has `permitted` and watches processes that have at most
/// `watched`.
///
/// The kernel shows how a process ended only to a process that has all capabilities of the ended one, or may trace it.
/// An ordinary user needs none for that, root all.
#[must_use]
pub fn needed(permitted: Set, watched: Set) -> Set {
    let locks = permitted & IPC_LOCK;
    match (watched & !locks, permitted & SYS_PTRACE) {
        (0, _) => locks,
        (_, 0) => locks | (permitted & watched),
        (_, traces) => locks | traces,
    }
}

/// The permitted capabilities of the calling thread.
#[must_use]
pub fn permitted() -> Set {
    read().map_or(0, |[low, high]| Set::from(low.permitted) | Set::from(high.permitted) << 32)
}

/// The permitted capabilities of a process, from the text of its `/proc/<pid>/status`.
#[must_use]
pub fn permitted_in(status: &str) -> Set {
    let number = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    number.and_then(|number| Set::from_str_radix(number.trim(), 16).ok()).unwrap_or(0)
}

/// Gives up all capabilities except these, for ever, in the calling thread and the threads and programs that it starts.
pub fn keep(kept: Set) {
    // Needs a capability itself, so it comes first. The kernel reports the end of the list.
    let bounds = (0..64).filter(|number| kept >> number & 1 == 0);
    for number in bounds {
        // SAFETY: takes an integer.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) } != 0 {
            break;
        }
    }
    // SAFETY: takes integers.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    write(kept, kept, 0);
    let _ = prctl::set_no_new_privs();
}

/// Makes all capabilities except these ineffective in the calling thread. Programs that it starts get its former ones.
pub fn rest(used: Set) {
    if let Ok([low, high]) = read() {
        let join = |low, high| Set::from(low) | Set::from(high) << 32;
        write(used, join(low.permitted, high.permitted), join(low.inheritable, high.inheritable));
    }
}

fn read() -> Result<[Half; 2], Errno> {
    let (mut header, mut halves) = (Header { version: VERSION, pid: 0 }, [Half::default(); 2]);
    // SAFETY: of this version the kernel writes two halves, about the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    Errno::result(result).map(|_| halves)
}

/// A capability that the process does not have cannot be gained this way; that loses nothing.
fn write(effective: Set, permitted: Set, inheritable: Set) {
    let half = |shift: u32| Half {
        effective: (effective >> shift) as u32,
        permitted: (permitted >> shift) as u32,
        inheritable: (inheritable >> shift) as u32,
    };
    let (mut header, halves) = (Header { version: VERSION, pid: 0 }, [half(0), half(32)]);
    // SAFETY: of this version the kernel reads two halves, for the calling thread.
    unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYS_NICE: Set = 1 << 23;
    const ALL: Set = (1 << 41) - 1;

    #[test]
    fn what_is_needed_follows_from_what_the_ranks_have() {
        // An ordinary user's, installed with the right to raise its priority.
        assert_eq!(needed(SYS_NICE, 0), 0);
        assert_eq!(needed(SYS_NICE | IPC_LOCK, 0), IPC_LOCK);
        // Root's.
        assert_eq!(needed(ALL, ALL), IPC_LOCK | SYS_PTRACE);
        // Root's in a container that has no right to trace: only the same rights show how a rank ended.
        let container = 0xa804_25fb;
        assert_eq!(needed(container, container), container);
        assert_eq!(needed(ALL, 0), IPC_LOCK);
    }

    #[test]
    fn the_number_in_a_status_is_read_and_nothing_else() {
        assert_eq!(permitted_in("Name:\tx\nCapInh:\t1\nCapPrm:\t000001ffffffffff\nCapEff:\t2\n"), ALL);
        for strange in ["", "CapPrm:", "CapPrm:\tzz", "CapPrm:\t1ffffffffffffffff"] {
            assert_eq!(permitted_in(strange), 0, "{strange}");
        }
    }

    #[test]
    fn what_a_thread_has_given_up_is_gone_for_it_and_the_programs_it_starts() {
        // Only of this thread: the others of this program stay as they are.
        let (own, programs) = std::thread::spawn(|| {
            keep(0);
            let output = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
            (permitted(), permitted_in(&String::from_utf8(output.stdout).unwrap()))
        })
        .join()
        .unwrap();
        assert_eq!((own, programs), (0, 0));
    }

    #[test]
    fn who_rests_hands_on_what_it_has() {
        let (before, after) = std::thread::spawn(|| {
            let before = permitted();
            rest(0);
            let output = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
            (before, permitted_in(&String::from_utf8(output.stdout).unwrap()))
        })
        .join()
        .unwrap();
        assert_eq!(before, after);
    }
}
