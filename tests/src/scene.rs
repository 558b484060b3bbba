//! What a test that failed shows: all that is known about its job.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clock::now;
use crate::diary::Diaries;
use crate::process;

/// Most ranks whose stack is shown.
const MOST_STACKS: usize = 8;

/// The traces of one job.
#[derive(Clone, Debug)]
pub struct Scene {
    folder: PathBuf,
    command: String,
    began: Duration,
}

impl Scene {
    /// The job that this command starts.
    #[must_use]
    pub fn new(folder: PathBuf, words: &[String]) -> Self {
        Self { folder, command: words.join(" "), began: now() }
    }

    /// Ends the test.
    ///
    /// # Panics
    /// Always.
    pub fn fail(&self, why: &str) -> ! {
        panic!("{why}\n{}", self.describe())
    }

    /// Ends the test, and shows where the ranks are.
    ///
    /// # Panics
    /// Always.
    pub fn fail_hanging(&self, why: &str) -> ! {
        // First, while nothing has changed.
        let stacks = self.stacks() + &waiting_in_sockets();
        panic!("{why}\n{}{stacks}", self.describe())
    }

    fn describe(&self) -> String {
        let mut text =
            format!("--- {}\n--- started at {}, now {}\n", self.command, seconds(self.began), seconds(now()));
        text += "--- processes: host, number, parent, state, name, wait channel, seconds run and runnable, command\n";
        for process in process::on_hosts() {
            let _ = writeln!(text, "{process}");
        }
        let diaries = Diaries::read(&self.folder.join("diaries"));
        let mut ranks: Vec<u32> = diaries.0.iter().map(|entry| entry.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        text += "--- diaries, the last lines\n";
        for rank in ranks {
            let entries: Vec<_> = diaries.of(rank).collect();
            for entry in entries.iter().skip(entries.len().saturating_sub(9)) {
                let _ = writeln!(text, "rank {rank} {} {} {}", seconds(entry.at), entry.event, entry.text());
            }
        }
        for (name, lines) in [("stdout", 12), ("stderr", 25)] {
            let _ = write!(text, "--- {name} of mpirun, the last lines\n{}", tail(&self.folder.join(name), lines));
        }
        let mut files: Vec<_> =
            fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|file| file.path()).collect();
        files.sort();
        for log in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")) {
            let _ = write!(text, "--- {}, the last lines\n{}", log.display(), tail(log, 10));
        }
        text
    }

    /// Where some of the ranks are.
    fn stacks(&self) -> String {
        let diaries = Diaries::read(&self.folder.join("diaries"));
        let ranks: Vec<i32> = diaries.all("started").filter_map(|entry| diaries.pid(entry.rank)).collect();
        let mut text = String::new();
        for process in process::on_hosts().iter().filter(|process| ranks.contains(&process.pid)).take(MOST_STACKS) {
            let pid = process.pid.to_string();
            let output = Command::new("timeout")
                .args(["-s", "KILL", "20", "gdb", "-q", "-batch", "-p", &pid, "-ex", "thread apply all bt 14"])
                .output()
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
                .unwrap_or_default();
            let _ = writeln!(text, "--- stack of {pid} on {}", process.host);
            for line in output.lines().filter(|line| line.starts_with(['#', 'T'])) {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }
}

/// TCP connections of all hosts in which something waits to be read, or to be acknowledged.
fn waiting_in_sockets() -> String {
    let mut text = String::from("--- TCP connections with bytes to be read, or to be acknowledged\n");
    let hosts: BTreeSet<String> = process::on_hosts().into_iter().map(|process| process.host).collect();
    for host in hosts {
        let output = Command::new("rw-on").args([&host, "ss", "-tnp"]).output();
        let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for line in output.lines().skip(1) {
            if line.split_whitespace().skip(1).take(2).any(|bytes| bytes != "0") {
                let _ = writeln!(text, "{host} {line}");
            }
        }
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.4}", time.as_secs_f64())
}

fn tail(path: &Path, lines: usize) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| format!("{line}\n")).collect()
}
