//! Help for the unit tests of all crates.

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, chdir, fork, pause, pipe2, read, write};

/// A process that does nothing for longer than any test.
pub fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep is installed")
}

/// A process that crashes on request and whose core the kernel takes long to write: nearly all of it are untouched
/// pages, which the kernel inspects one by one and which take no space.
pub struct Dumper {
    child: Pid,
    word: OwnedFd,
    folder: PathBuf,
}

impl Dumper {
    /// Starts it; with `thread`, another one than its first thread is to crash. Nothing, and a word about it, where no
    /// core is written into a file of the current folder.
    pub fn start(thread: bool) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        let (_, most) = getrlimit(Resource::RLIMIT_CORE).expect("limits can be asked for");
        if pattern.trim().is_empty() || pattern.contains(['|', '@', '/']) || most != RLIM_INFINITY {
            eprintln!("skipped: this system writes no cores, or somewhere else");
            return None;
        }
        let name = format!("ringwatch-dumper.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("the folder is new");
        let (told, word) = pipe2(OFlag::O_CLOEXEC).expect("there are descriptors left");
        // SAFETY: the child never returns, and needs no lock that another thread may have held but the allocator's, of
        // which the library takes care.
        match unsafe { fork() }.expect("there is room for a process") {
            ForkResult::Parent { child } => Some(Self { child, word, folder }),
            ForkResult::Child => {
                drop(word);
                close_all_but(&told);
                let _ = catch_unwind(AssertUnwindSafe(|| wait_for_crash(told, &folder, thread)));
                // SAFETY: ends the process, and leaves alone what belongs to the tests.
                unsafe { libc::_exit(1) }
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.as_raw()
    }

    /// It crashes now.
    pub fn crash(&self) {
        write(&self.word, &[0]).expect("it waits for that");
    }
}

impl Drop for Dumper {
    fn drop(&mut self) {
        let _ = kill(self.child, Signal::SIGKILL);
        let _ = waitpid(self.child, None);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Other tests may wait until every copy of a descriptor's other end is closed.
fn close_all_but(one: &OwnedFd) {
    let one = u32::try_from(one.as_raw_fd()).unwrap_or(0);
    // SAFETY: the only thread of this process uses none of them.
    unsafe {
        libc::close_range(3, one.saturating_sub(1), 0);
        libc::close_range(one + 1, u32::MAX, 0);
    }
}

fn wait_for_crash(told: OwnedFd, folder: &Path, thread: bool) -> ! {
    setrlimit(Resource::RLIMIT_CORE, RLIM_INFINITY, RLIM_INFINITY).expect("that is allowed");
    // The test of what a `ringwatchd` does at its start has done that to this whole process, too.
    set_dumpable(true).expect("that is allowed");
    chdir(folder).expect("the folder is there");
    make_core_long();
    let crash = move || {
        if read(&told, &mut [0]) == Ok(1) {
            let _ = raise(Signal::SIGABRT);
        }
        std::process::exit(1)
    };
    if !thread {
        crash()
    }
    std::thread::spawn(crash);
    loop {
        pause();
    }
}

fn make_core_long() {
    const LENGTH: NonZeroUsize = NonZeroUsize::new(1 << 40).unwrap();
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: new memory, wherever there is room.
    let memory = unsafe { mmap_anonymous(None, LENGTH, access, flags) }.expect("that much may be asked for");
    // A core leaves out a mapping without a touched page.
    // SAFETY: it begins with a page of this process that no other code knows.
    unsafe { memory.cast::<u8>().write_volatile(1) };
}

/// Runs a function as another user of this node; returns nothing, after a message, where that is not permitted.
pub fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    as_user(65534, act)
}

/// The same for the user with this number.
pub fn as_user<T: Send>(user: libc::uid_t, act: impl FnOnce() -> T + Send) -> Option<T> {
    let work = || {
        // SAFETY: takes three numbers. Other than the library's function, the call concerns the calling thread only.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
        (result == 0).then(act)
    };
    let done = std::thread::scope(|scope| scope.spawn(work).join().expect("what a stranger does does not fail"));
    if done.is_none() {
        eprintln!("skipped: this user cannot become another");
    }
    done
}

/// Waits for something that is bound to happen.
pub fn wait_until(mut happened: impl FnMut() -> bool) {
    let limit = crate::clock::now() + Duration::from_secs(10);
    while !happened() {
        assert!(crate::clock::now() < limit, "in time");
        std::thread::yield_now();
    }
}
