//! Help for the unit tests.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use nix::sys::signal::SigSet;

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
