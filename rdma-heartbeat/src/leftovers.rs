//! Shared memory that Open MPI's ranks have left behind: whoever is killed at an unlucky moment, or whose runtime daemon is,
//! removes nothing.
//!
//! Names are `sm_segment.HOST.UID.JOB.RANK` (btl_sm_component.c) and `osc_rdma.HOST.JOB.WINDOW.PID`, and so for `osc_sm` and
//! `osc_ucx` (osc_rdma_component.c); `JOB` is Open MPI's number of it in base 16.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::ports;

/// Where Open MPI puts it.
pub const FOLDER: &str = "/dev/shm";
/// Removes what the ranks of a job and of those that it has spawned left on the node that calls itself `host`, once none of
/// them runs there any more. Nodes that are containers of one machine may share the folder.
pub fn remove(folder: &Path, nspace: &str, host: &str) {
    let user = nix::unistd::getuid().as_raw();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_own = file.metadata().is_ok_and(|data| data.is_file() && data.uid() == user);
        if is_own && file.file_name().to_str().is_some_and(|name| is_of(name, nspace, host)) {
            // Who else removes such files may have come first.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Whether a file of this name belongs to a job of the same `mpirun` as `nspace`, and to this host.
#[must_use]
pub fn is_of(name: &str, nspace: &str, host: &str) -> bool {
    let fields: Vec<_> = name.split('.').collect();
    // The host's name may have several.
    let [kind, label, .., third, second, _] = fields[..] else { return false };
    let job = match kind {
        "sm_segment" => second,
        "osc_rdma" | "osc_sm" | "osc_ucx" => third,
        _ => return false,
    };
    let is_number = job.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let job = u32::from_str_radix(job, 16).ok().filter(|_| is_number);
    // With or without its domain, as PRRTE is told to keep it.
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
