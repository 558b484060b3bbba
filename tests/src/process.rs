//! The processes on the virtual hosts, as `/proc` shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// One process on a virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its host.
    pub host: String,
    /// Name of its program, at most 15 bytes.
    pub name: String,
    /// State letter, see `proc_pid_stat(5)`.
    pub state: char,
}

impl Process {
    fn read(pid: i32, hosts: &BTreeMap<u64, String>) -> Option<Self> {
        let network = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
        let host = hosts.get(&network)?.clone();
        let (name, state, parent) = stat(pid)?;
        Some(Self { pid, parent, host, name, state })
    }

    /// Whether it still runs: a zombie does not.
    #[must_use]
    pub fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, parent, host, name, state } = self;
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (wait, line) = (file("wchan"), file("cmdline").replace('\0', " "));
        let line: String = line.chars().take(90).collect();
        write!(out, "{host} {pid:>7} {parent:>7} {state} {name:<12} {wait:<24} {line}")
    }
}

/// Name, state and parent of a process.
fn stat(pid: i32) -> Option<(String, char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let mut rest = stat[close + 1..].split_ascii_whitespace();
    Some((stat[open + 1..close].to_owned(), rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

/// State letter of a process; `None` if there is none with this number.
#[must_use]
pub fn state(pid: i32) -> Option<char> {
    stat(pid).map(|(_, state, _)| state)
}

/// Whether a process is there and no zombie.
#[must_use]
pub fn lives(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Number of threads of a process.
#[must_use]
pub fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Sends a signal; a process that is gone does not mind.
pub fn signal(pid: i32, signal: i32) {
    assert!(pid > 1, "{pid} is no process of a job");
    // SAFETY: a system call without memory arguments.
    unsafe { libc::kill(pid, signal) };
}

/// The living processes of all virtual hosts, in order of host and number.
#[must_use]
pub fn on_hosts() -> Vec<Process> {
    let hosts: BTreeMap<u64, String> = fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| {
            Some((fs::metadata(file.path()).ok()?.ino(), file.file_name().to_string_lossy().into_owned()))
        })
        .collect();
    let mut found: Vec<Process> =
        numbers().into_iter().filter_map(|pid| Process::read(pid, &hosts)).filter(Process::lives).collect();
    found.sort_by(|a, b| (&a.host, a.pid).cmp(&(&b.host, b.pid)));
    found
}

/// The numbers of all processes.
#[must_use]
pub fn numbers() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Processes that hold a node segment of ringwatch, wherever they run.
#[must_use]
pub fn holders_of_segments() -> Vec<i32> {
    let holds = |pid: &i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|target| target.to_string_lossy().starts_with("/memfd:ringwatch"))
    };
    numbers().into_iter().filter(holds).collect()
}
