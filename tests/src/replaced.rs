//! Jobs under message logging whose ranks are killed from outside.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::wait_until;
use crate::job::Job;
use crate::running::Running;

/// A thread of each process that is a rank, from the end of its `MPI_Init` on; as many bytes of its name as Linux
/// keeps.
const THREAD: &str = "ringwatch-outpu";

/// A job of so many ranks, and of so many spares behind them, on four hosts.
#[must_use]
pub fn logged_job(ranks: u32, spares: u32) -> Job {
    let number = spares.to_string();
    let logging = ["--mca", "hook_ringwatch_recovery", "log", "--mca", "hook_ringwatch_spares", &number];
    let job = Job::new().on(&["h1", "h2", "h3", "h4"], 3).ranks(ranks + spares);
    // Virtual hosts share the cores of one machine.
    job.options(&logging).options(&["--bind-to", "none"])
}

/// The processes of the ranks of a program, once all have left `MPI_Init`.
///
/// # Panics
/// If they do not within `limit`.
#[must_use]
pub fn processes_of(job: &Running, program: &str, ranks: u32, limit: Duration) -> Vec<i32> {
    let mut found = Vec::new();
    let begun = wait_until(limit, || {
        let named = job.processes().into_iter().filter(|process| process.name == program);
        found =
            named.filter(|process| has_begun(process.pid)).map(|process| (rank(process.pid), process.pid)).collect();
        found.len() == ranks as usize
    });
    assert!(begun, "all ranks leave MPI_Init");
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

fn has_begun(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok()).any(|name| name.trim() == THREAD)
}

fn rank(pid: i32) -> u32 {
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
    let rank = environment.split('\0').find_map(|line| line.strip_prefix("PMIX_RANK=")?.parse().ok());
    rank.unwrap_or(u32::MAX)
}

/// A number below `bound` that nobody has chosen.
#[must_use]
pub fn some_number(bound: u32) -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_micros()) % bound
}

/// A moment of a run, from a twentieth to four fifths of it.
#[must_use]
pub fn some_moment(of: Duration) -> Duration {
    of * (some_number(80) + 5) / 100
}
