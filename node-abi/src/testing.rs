//! Helps unit tests of all crates.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use nix::sys::signal::SigSet;
use platform::testing::wait_until;

use crate::greeting::{Place, ToolKey};
use crate::launch::{Carrier, LAUNCH_VERSION, LaunchData, Origin, Parameters, Startup};

/// An idle process that outlives any test, started as a rank of a job.
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

/// A job of four ranks on four nodes. One node has no rank.
pub fn launch() -> LaunchData {
    LaunchData {
        version: LAUNCH_VERSION,
        job: 1,
        key: [0; 32],
        nspace: "job".into(),
        origin: Origin::default(),
        universe: 4,
        hosts: crate::hosts::Hosts::new((1..=4).map(|number| format!("h{number}")).collect()),
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
            event_loggers: None,
            ports: (0, 0),
            log_level: "info".into(),
            log: "stderr".into(),
            events: String::new(),
        },
    }
}

/// The startup data of `ringwatchd` on a node of that job.
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

/// A key for tools, and its file.
pub fn tool_key() -> (ToolKey, OwnedFd) {
    let key = ToolKey::of(&[7; 32]);
    let file = key.publish().expect("memory for a key");
    (key, file)
}
