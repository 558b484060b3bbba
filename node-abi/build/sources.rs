//! A short name for the sources of everything that is installed.

use std::fs;
use std::path::{Path, PathBuf};

/// The packages of which the plugin, `ringwatchd`, the components of the ranks and the command line tool consist.
const PACKAGES: [&str; 22] = [
    "c-shims",
    "checkpoints",
    "cli",
    "event-log",
    "group-client",
    "ishrink",
    "logger-client",
    "message-logging",
    "mpi-entry",
    "mpi-layer",
    "node-abi",
    "openmpi-internals",
    "platform",
    "pmix-plugin",
    "pmix-sys",
    "propagation",
    "prte-hooks",
    "rdma-heartbeat",
    "recommended-group",
    "replicated-ranks",
    "replication",
    "virtual-ranks",
];

/// How many digits it has: of a thousand sources two have the same name once in 10,000 times.
const DIGITS: usize = 8;

/// Where the sources are in the tree at `root`: a file, and folders.
pub fn places(root: &Path) -> Vec<PathBuf> {
    let folders = PACKAGES.iter().map(|package| root.join(package).join("src"));
    std::iter::once(root.join("Cargo.lock")).chain(folders).collect()
}

/// The name of the sources in the tree at `root`: the same for the same files with the same content, wherever the tree
/// is.
pub fn name(root: &Path) -> String {
    let mut files = Vec::new();
    places(root).iter().for_each(|place| collect(place, &mut files));
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in &files {
        let content = fs::read(file).unwrap_or_default();
        let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy();
        for part in [path.as_bytes(), &content] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
    }
    hasher.finalize().to_hex()[..DIGITS].to_owned()
}

/// The files at `place` and below.
fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(place) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) if place.is_file() => files.push(place.into()),
        Err(_) => {}
    }
}
