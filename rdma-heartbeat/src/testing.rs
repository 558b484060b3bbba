//! Help for the unit tests.

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, chdir, fork, pause, pipe2, read, write};

use crate::greeting::{Place, ToolKey};
use crate::launch::{Carrier, LAUNCH_VERSION, LaunchData, Parameters, Startup};

/// A process that does nothing for longer than any test.
pub fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep is installed")
}

/// The same, started as a rank of a job.
pub fn sleeper_of(nspace: &str, rank: u32) -> Child {
    sleeper_that_blocks(nspace, rank, SigSet::empty())
}

/// The same, with signals blocked.
pub fn sleeper_that_blocks(nspace: &str, rank: u32, signals: SigSet) -> Child {
    let mut command = Command::new("sleep");
    let block = move || signals.thread_block().map_err(Into::into);
    // SAFETY: changes the signals of the child's only thread, without memory.
    unsafe { command.pre_exec(block) };
    command.arg("60").env("PMIX_NAMESPACE", nspace).env("PMIX_RANK", rank.to_string());
    let child = command.spawn().expect("sleep is installed");
    // A child may be seen a moment before its environment.
    wait_until(|| std::fs::read(format!("/proc/{}/environ", child.id())).is_ok_and(|text| !text.is_empty()));
    child
}

/// A process that crashes when it is told to, and whose core takes the kernel long to write: nearly all of it are pages that were
/// never touched, which the kernel looks at one by one, and which take no room.
pub struct Dumper {
    child: Pid,
    word: OwnedFd,
    folder: PathBuf,
}

impl Dumper {
    /// Starts it; with `thread`, another one than its first thread is to crash. Nothing, and a word about it, where no core is
    /// written into a file of the current folder.
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
        // SAFETY: the child never returns, and needs no lock that another thread may have held but the allocator's, of which the
        // library takes care.
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

/// Of the tests beside this one some wait until nobody has the other end of something any more.
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
    // A core leaves out what nobody has touched any page of.
    // SAFETY: it begins with a page of this process that nobody else knows of.
    unsafe { memory.cast::<u8>().write_volatile(1) };
}

/// What another user of this node gets who does this; nothing, and a word about it, where nobody can become another.
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

/// A job of four ranks on four nodes, one of which has none.
pub fn launch() -> LaunchData {
    LaunchData {
        version: LAUNCH_VERSION,
        job: 1,
        key: [0; 32],
        nspace: "job".into(),
        universe: 4,
        ring: vec![],
        rank_nodes: vec![0, 1, 1, 2],
        rendezvous: vec![],
        daemon: String::new(),
        agent: String::new(),
        rank_environment: Vec::new(),
        changes: Vec::new(),
        ranks_register: true,
        ranks_start_stopped: false,
        parameters: Parameters {
            period: Duration::from_millis(10),
            timeout: Duration::from_millis(100),
            stop_timeout: None,
            fence: true,
            interfaces: vec![],
            transport: Carrier::Auto,
            ring_order: "ids".into(),
            strategy: propagation::Strategy::Circulant,
            offload: Vec::new(),
            ports: (0, 0),
            log_level: "info".into(),
            log: "stderr".into(),
            events: String::new(),
        },
    }
}

/// What `ringwatchd` of a node of it is started with.
pub fn startup() -> Startup {
    Startup {
        launch: launch(),
        me: 1,
        incarnation: 0,
        roster: None,
        runtime_pid: 0,
        runtime_started: 0,
        tools: Place::default(),
        spawned: Vec::new(),
        known: Vec::new(),
    }
}

/// A key for tools, and what holds it.
pub fn tool_key() -> (ToolKey, OwnedFd) {
    let key = ToolKey::of(&[7; 32]);
    let file = key.publish().expect("memory for a key");
    (key, file)
}
