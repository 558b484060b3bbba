//! Files that jobs keep while they run, and that nobody wants to find afterwards.

use std::fs;
use std::path::{Path, PathBuf};

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

/// A file, or a folder with all that is in it.
#[must_use]
pub fn with_contents(path: PathBuf) -> Vec<PathBuf> {
    // What a link leads to is not the job's.
    let is_folder = fs::symlink_metadata(&path).is_ok_and(|file| file.is_dir());
    let inner = if is_folder { of(&path, &[""]) } else { Vec::new() };
    let mut all = vec![path];
    all.extend(inner.into_iter().flat_map(with_contents));
    all
}

fn of(folder: impl AsRef<Path>, starts: &[&str]) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = files.filter(|file| starts.iter().any(|start| file.file_name().to_string_lossy().starts_with(start)));
    kept.map(|file| file.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_a_folder_is_named_and_no_link_is_followed() {
        let top = std::env::temp_dir().join(format!("leftovers.{}", std::process::id()));
        fs::create_dir_all(top.join("job/rank")).unwrap();
        fs::write(top.join("job/rank/file"), "").unwrap();
        std::os::unix::fs::symlink("/", top.join("link")).unwrap();
        let mut named = with_contents(top.clone());
        fs::remove_dir_all(&top).unwrap();
        named.sort();
        assert_eq!(named, ["", "job", "job/rank", "job/rank/file", "link"].map(|name| top.join(name)));
    }
}
