//! Removes remains of killed processes: shared memory of Open MPI's ranks, and the session folder of a runtime daemon.
//!
//! Names of shared memory are `sm_segment.HOST.UID.JOB.RANK` (btl_sm_component.c) and `osc_rdma.HOST.JOB.WINDOW.PID`,
//! and likewise for `osc_sm` and `osc_ucx` (osc_rdma_component.c); `JOB` is Open MPI's number of the job in base 16.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::ports;

/// The folder of Open MPI's shared memory.
pub const FOLDER: &str = "/dev/shm";
/// Removes remains of a job and of the jobs that it has spawned, on the node named `host`, after all of their ranks
/// there have ended. Nodes that are containers of one machine may share the folder.
pub fn remove(folder: &Path, nspace: &str, host: &str) {
    let user = nix::unistd::getuid().as_raw();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_own = file.metadata().is_ok_and(|data| data.is_file() && data.uid() == user);
        if is_own && file.file_name().to_str().is_some_and(|name| is_of(name, nspace, host)) {
            // Another process may have removed it first.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Removes the session folder of the runtime daemon with this process number and `host` below `top`
/// (`prterun.<host>.<pid>.<uid>`, or `prted`), except stored output, as PRRTE does at its end in order (`_check_file`
/// in `session_dir.c`). A folder of another user under such a name stays: it could lead anywhere.
pub fn remove_session(top: &Path, host: &str, pid: u32) {
    let user = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        let is_own = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == user);
        if is_own && entry.file_name().to_str().is_some_and(|name| is_session(name, host, pid, user)) {
            remove_folder(&entry.path());
        }
    }
}

fn is_session(name: &str, host: &str, pid: u32, user: u32) -> bool {
    let rest = ["prterun.", "prted."].iter().find_map(|kind| name.strip_prefix(kind));
    let node = rest.and_then(|rest| rest.strip_suffix(&format!(".{pid}.{user}")));
    node.is_some_and(|node| first_label(node) == first_label(host))
}

fn remove_folder(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // For a link this is the link's own data.
        let Ok(data) = entry.metadata() else { continue };
        let is_output = || entry.file_name().to_string_lossy().starts_with("output-") && data.len() > 0;
        if data.is_dir() {
            remove_folder(&path);
        } else if !is_output() {
            let _ = fs::remove_file(path);
        }
    }
    // If nothing was kept.
    let _ = fs::remove_dir(folder);
}

/// Whether a file of this name belongs to a job of the same `mpirun` as `nspace`, and to this host.
#[must_use]
pub fn is_of(name: &str, nspace: &str, host: &str) -> bool {
    let fields: Vec<_> = name.split('.').collect();
    // The host's name may contain dots.
    let [kind, label, .., third, second, _] = fields[..] else { return false };
    let job = match kind {
        "sm_segment" => second,
        "osc_rdma" | "osc_sm" | "osc_ucx" => third,
        _ => return false,
    };
    let is_number = job.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let job = u32::from_str_radix(job, 16).ok().filter(|_| is_number);
    // With or without its domain, depending on PRRTE's settings.
    let is_here = label == first_label(host);
    is_here && job.zip(ports::number_of(nspace)).is_some_and(|(job, own)| job >> 16 == own >> 16)
}

fn first_label(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The job of which Open MPI 5.0.7 says 3746627585.
    const JOB: &str = "prterun-h1-245@1";

    #[test]
    fn the_session_of_one_daemon_goes_but_for_output_and_nothing_else() {
        let top = std::env::temp_dir().join(format!("ringwatch-sessions-{}", std::process::id()));
        let user = nix::unistd::geteuid();
        let names = ["prted.h5.7", "prted.h5.77", "prted.h6.7", "prterun.h5.domain.7"];
        let [own, other, of_other_host, kept] = names.map(|name| top.join(format!("{name}.{user}")));
        for session in [&own, &other, &of_other_host, &kept] {
            fs::create_dir_all(session.join("1/0")).unwrap();
            fs::write(session.join("1/0/pmix"), "text").unwrap();
            fs::write(session.join("output-1"), "").unwrap();
        }
        fs::write(kept.join("output-2"), "text").unwrap();
        std::os::unix::fs::symlink(&other, top.join(format!("prted.h5.sub.7.{user}"))).unwrap();
        std::os::unix::fs::symlink(&other, own.join("link")).unwrap();
        remove_session(&top, "h5", 7);
        let there = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
        assert_eq!([&own, &other, &of_other_host, &kept].map(|path| there(path)), [0, 2, 2, 1]);
        assert!(!own.exists());
        assert!(kept.join("output-2").exists());
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn what_the_jobs_of_one_mpirun_left_goes_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("ringwatch-leftovers-{}", std::process::id()));
        fs::create_dir_all(folder.join("osc_rdma.h1.df510001.4.1")).unwrap();
        let job = 3_746_627_585_u32;
        let own = [
            format!("sm_segment.h1.0.{job:x}.3"),
            format!("osc_rdma.h1.{job:x}.6.38813"),
            format!("osc_sm.h1.{:x}.6.1", job + 1),
        ];
        let others = [
            format!("sm_segment.h1.0.{:x}.3", job + (1 << 16)),
            format!("sm_segment.h2.0.{job:x}.3"),
            format!("sm_segment.h11.0.{job:x}.3"),
            format!("osc_rdma.h1.6.{job:x}.38813"),
            format!("mine.h1.{job:x}.6.1"),
            "osc_rdma.".to_owned(),
            "sm_segment.h1.0.-1.3".to_owned(),
            format!("sm_segment.h1.0.+{job:x}.3"),
            format!("sm_segment.h1.{job:x}.3"),
        ];
        own.iter().chain(&others).for_each(|name| fs::write(folder.join(name), "").unwrap());
        remove(&folder, JOB, "h1");
        for name in own {
            assert!(!folder.join(&name).exists(), "{name} is gone");
        }
        for name in others {
            assert!(folder.join(&name).exists(), "{name} stays");
        }
        fs::write(folder.join(format!("osc_sm.node.of.a.cluster.{job:x}.6.1")), "").unwrap();
        remove(&folder, JOB, "node");
        assert!(!folder.join(format!("osc_sm.node.of.a.cluster.{job:x}.6.1")).exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
