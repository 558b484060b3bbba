//! The processes on the virtual hosts, as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
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
        // Of its first thread: nanoseconds on a processor, and waiting for one.
        let times: Vec<f64> = file("schedstat").split(' ').filter_map(|word| word.parse().ok()).collect();
        let [ran, waited] = [0, 1].map(|at| times.get(at).map_or(0.0, |ns| ns / 1e9));
        write!(out, "{host} {pid:>7} {parent:>7} {state} {name:<12} {wait:<24} {ran:>6.1} {waited:>6.1} {line}")
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

/// Whether a process has a thread of this name.
#[must_use]
pub fn has_thread(pid: i32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .into_iter()
        .any(|thread| fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == name))
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

/// Targets of the open files of a process.
fn open_files(pid: i32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect()
}

/// UDP ports on which a process listens, with however many sockets.
#[must_use]
pub fn udp_ports(pid: i32) -> BTreeSet<u16> {
    ports(pid, "udp", |_, _| true)
}

/// TCP ports at which a process hears other hosts, over IPv4.
#[must_use]
pub fn open_tcp_ports(pid: i32) -> BTreeSet<u16> {
    const LISTENS: &str = "0A";
    const LOOPBACK: &str = "0100007F";
    ports(pid, "tcp", |address, state| address != LOOPBACK && state == LISTENS)
}

/// The ports of sockets that are wanted for their own address and state.
fn ports(pid: i32, protocol: &str, is_wanted: impl Fn(&str, &str) -> bool) -> BTreeSet<u16> {
    let own = open_files(pid);
    let table = fs::read_to_string(format!("/proc/{pid}/net/{protocol}")).unwrap_or_default();
    let port = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let inode = format!("socket:[{}]", words.get(9)?);
        let (address, port) = words.get(1)?.split_once(':')?;
        let is_it = own.contains(&inode) && is_wanted(address, words.get(3)?);
        is_it.then(|| u16::from_str_radix(port, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(port).collect()
}

/// Frames that have left an interface of the host of a process.
#[must_use]
pub fn frames_sent(pid: i32, interface: &str) -> u64 {
    let table = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")).map(str::to_owned));
    line.and_then(|line| line.split_ascii_whitespace().nth(9)?.parse().ok()).unwrap_or(0)
}

/// The environment of a process.
#[must_use]
pub fn environment(pid: i32) -> BTreeMap<String, String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split('\0')
        .filter_map(|one| one.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Processes that hold a node segment of ringwatch, wherever they run.
#[must_use]
pub fn holders_of_segments() -> Vec<i32> {
    let holds = |pid: &i32| open_files(*pid).iter().any(|target| target.starts_with("/memfd:ringwatch"));
    numbers().into_iter().filter(holds).collect()
}
