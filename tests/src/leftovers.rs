//! Files that jobs keep while they run, and that nobody wants to find afterwards.

use std::fs;
use std::path::PathBuf;

/// Where they are, and how their names begin: the folders of PRRTE's daemons, and shared memory of ringwatch, of Open
/// MPI's transport between ranks of a node (`btl/sm`), and of its windows (`osc`).
const KEPT: [(&str, &[&str]); 2] = [
    ("/tmp", &["prterun.", "prted.", "ringwatch"]),
    ("/dev/shm", &["ringwatch", "sm_segment.", "osc_sm.", "osc_rdma.", "osc_ucx."]),
];

/// Those that are there.
#[must_use]
pub fn all() -> Vec<PathBuf> {
    KEPT.iter().flat_map(|(folder, starts)| of(folder, starts)).collect()
}

fn of(folder: &str, starts: &[&str]) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = files.filter(|file| starts.iter().any(|start| file.file_name().to_string_lossy().starts_with(start)));
    kept.map(|file| file.path()).collect()
}
