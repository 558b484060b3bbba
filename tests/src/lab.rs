//! The virtual hosts h1, h2, ..., which one test at a time may use.

use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::wait_until;
use crate::{leftovers, process};

/// The virtual hosts that the tests use.
pub const HOSTS: [&str; 4] = ["h1", "h2", "h3", "h4"];
/// All that there may be.
pub const ALL_HOSTS: [&str; 12] = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10", "h11", "h12"];
/// What a test leaves for people to read.
pub(crate) const FOLDER: &str = "/tmp/system-tests";
/// The bridge of the virtual hosts, and a second one for the other half of a partition.
const BRIDGE: &str = "rw0";
const OTHER_BRIDGE: &str = "rw1";
const SECOND_NETWORK: &str = "rw2";
/// State of a port of a bridge that passes frames on.
const FORWARDING: &str = "3";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static RUNS: AtomicU32 = AtomicU32::new(0);

/// The virtual hosts, whole and without processes, for one test.
pub struct Lab {
    name: String,
    round: u32,
    rounds: u32,
    _lock: MutexGuard<'static, ()>,
    _file: File,
}

/// Runs a test in the lab as often as `SYSTEM_TESTS_REPEAT` says, by default once.
pub fn in_lab(test: impl Fn(&Lab)) {
    let times = std::env::var("SYSTEM_TESTS_REPEAT").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    for round in 1..=times {
        let mut lab = Lab::open();
        (lab.round, lab.rounds) = (round, times);
        if lab.is_repeated() {
            eprintln!("{}: {round} of {times}", lab.name);
        }
        test(&lab);
    }
}

impl Lab {
    /// Takes the virtual hosts and puts them in order.
    ///
    /// # Panics
    /// If there are none, or ringwatch is not installed.
    #[must_use]
    pub fn open() -> Self {
        let lock = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(HOSTS.into_iter().all(is_there), "there are no virtual hosts: run these tests with scripts/test");
        fs::create_dir_all(FOLDER).expect("/tmp can be written");
        let file = File::create(format!("{FOLDER}/lock")).expect("/tmp can be written");
        // SAFETY: a system call on a descriptor that is open. Test programs of one package may run side by side.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
        let name = std::thread::current().name().unwrap_or("test").replace("::", ".");
        let lab = Self { name, round: 1, rounds: 1, _lock: lock, _file: file };
        lab.restore();
        lab
    }

    /// Whether the test is carried out several times.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.rounds > 1
    }

    /// So many seeds, of which no other round of the test has any.
    #[must_use]
    pub fn seeds(&self, count: u32) -> RangeInclusive<u32> {
        (self.round - 1) * count + 1..=self.round * count
    }

    /// A new folder for the traces of one job.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("{FOLDER}/{}.{}.{number}", self.name, std::process::id()));
        fs::create_dir_all(folder.join("diaries")).expect("/tmp can be written");
        folder
    }

    /// Kills everything on a host: a node dies.
    pub fn kill_host(&self, host: &str) {
        hosts_command(&["kill", host]);
    }

    /// Takes the link of a host away. The kernel may take a second to bring such a link up again.
    pub fn cut(&self, host: &str) {
        hosts_command(&["cut", host]);
    }

    /// Parts these hosts from all others, and with `together` not from each other; the links themselves stay up.
    pub fn split(&self, hosts: &[&str], together: bool) {
        if together && !fs::exists(format!("/sys/class/net/{OTHER_BRIDGE}")).unwrap_or(false) {
            ip(&["link", "add", OTHER_BRIDGE, "type", "bridge"]);
            ip(&["link", "set", OTHER_BRIDGE, "up"]);
        }
        for host in hosts {
            let to: &[&str] = if together { &["master", OTHER_BRIDGE] } else { &["nomaster"] };
            ip(&[&["link", "set", &port(host)], to].concat());
        }
    }

    /// Joins a host again with all the others, and does not wait until they reach each other.
    pub fn join(&self, host: &str) {
        ip(&["link", "set", &port(host), "master", BRIDGE, "up"]);
    }

    /// Joins a host again with all the others.
    ///
    /// # Panics
    /// If its link does not come up.
    pub fn heal(&self, host: &str) {
        if !is_joined(host) {
            self.join(host);
            let other_end = || run("ip", &["-n", host, "-brief", "link", "show", "eth0"]).contains(" UP ");
            let whole = wait_until(Duration::from_secs(5), || is_joined(host) && other_end());
            assert!(whole, "the link of {host} does not come up");
            // Each pair for itself and both ways: whoever has asked in vain for the other's address while the link
            // was cut drops what it sends next.
            for other in hosts().filter(|other| *other != host && is_joined(other)) {
                for (from, to) in [(host, other), (other, host)] {
                    let back = wait_until(Duration::from_secs(10), || reaches(from, to));
                    assert!(back, "{from} cannot reach {to} again");
                }
            }
        }
    }

    /// Gives every host a second interface, eth1 in 10.88.0.0/24, until the test ends.
    pub fn second_network(&self) {
        ip(&["link", "add", SECOND_NETWORK, "type", "bridge"]);
        ip(&["link", "set", SECOND_NETWORK, "up"]);
        for host in HOSTS {
            let (number, outside) = (&host[1..], format!("w{}", &host[1..]));
            ip(&["link", "add", &outside, "type", "veth", "peer", "name", "eth1", "netns", host]);
            ip(&["link", "set", &outside, "master", SECOND_NETWORK, "up"]);
            ip(&["-n", host, "address", "add", &format!("10.88.0.{number}/24"), "dev", "eth1"]);
            ip(&["-n", host, "link", "set", "eth1", "up"]);
        }
    }

    /// Kills everything on all hosts and repairs all links.
    pub fn restore(&self) {
        let is_empty = process::on_hosts().is_empty();
        for host in hosts() {
            if !is_empty {
                self.kill_host(host);
            }
            self.heal(host);
        }
        let empty = wait_until(Duration::from_secs(10), || process::on_hosts().is_empty());
        assert!(empty, "processes survive SIGKILL: {:?}", process::on_hosts());
        if fs::exists(format!("/sys/class/net/{SECOND_NETWORK}")).unwrap_or(false) {
            for host in HOSTS {
                ip(&["link", "delete", &format!("w{}", &host[1..])]);
            }
            ip(&["link", "delete", SECOND_NETWORK]);
        }
        for path in leftovers::all() {
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.restore();
        } else if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.restore())).is_err() {
            eprintln!("the virtual hosts could not be put in order");
        }
    }
}

/// Whether there is a host of this name.
fn is_there(host: &str) -> bool {
    fs::exists(format!("/run/netns/{host}")).unwrap_or(false)
}

/// The hosts that there are.
pub fn hosts() -> impl Iterator<Item = &'static str> {
    ALL_HOSTS.into_iter().filter(|host| is_there(host))
}

/// Whether the bridge passes on what a host sends.
fn is_joined(host: &str) -> bool {
    let port = port(host);
    let state = fs::read_to_string(format!("/sys/class/net/{port}/brport/state")).unwrap_or_default();
    let bridge = fs::read_link(format!("/sys/class/net/{port}/master")).unwrap_or_default();
    state.trim() == FORWARDING && bridge.ends_with(BRIDGE)
}

/// Whether a closed port of `to` answers `from`.
fn reaches(from: &str, to: &str) -> bool {
    let connect = format!("timeout 1 bash -c '</dev/tcp/{to}/9' 2>&1; true");
    run("ip", &["netns", "exec", from, "bash", "-c", &connect]).contains("refused")
}

/// Name of a host's port at the bridge.
#[must_use]
pub fn port(host: &str) -> String {
    host.replace('h', "v")
}

fn hosts_command(arguments: &[&str]) {
    run("rw-hosts", arguments);
}

fn ip(arguments: &[&str]) {
    run("ip", arguments);
}

/// Runs a command that has to work.
///
/// # Panics
/// If it does not.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
