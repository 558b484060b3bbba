//! Jobs that ranks of the fault-tolerant job spawn: the same `ringwatchd`s watch their ranks.

use std::ffi::CStr;

use propagation::NodeId;
use rdma_heartbeat::launch::{Spawned, ToDaemon, decode, encode};
use rdma_heartbeat::segment::SpawnedJob;

use crate::job::Job;

/// prterun launches a job that was spawned, with its ranks on these nodes: makes the launch data.
///
/// # Errors
/// A sentence for the user.
pub fn launch(job: &Job, nspace: &CStr, rank_nodes: &[NodeId]) -> Result<Vec<u8>, String> {
    let spawned = job.jobs.plan(nspace.to_string_lossy().into_owned(), rank_nodes.to_vec());
    encode(&spawned.ok_or("more ranks were spawned than there are numbers")?).map_err(|error| error.to_string())
}

/// A daemon is about to start its ranks of a job that was spawned: has them watched. Returns the first rank's number.
///
/// # Errors
/// A sentence for the user.
pub fn start(job: &Job, nspace: &CStr, bytes: &[u8]) -> Result<u32, String> {
    let spawned: Spawned = decode(bytes).map_err(|error| format!("the launch data cannot be read ({error})"))?;
    let number = job.jobs.number_in(&spawned.nspace).ok_or_else(|| {
        format!("the namespace {} of a spawned job has nothing in common with {}", spawned.nspace, job.launch.nspace)
    })?;
    let (first, ranks) = (spawned.first, spawned.ranks_of(job.me).collect::<Vec<_>>());
    if !job.segment.admit(SpawnedJob { first, number }, &ranks) {
        return Err(format!("there is no room for the ranks of the spawned job {}", spawned.nspace));
    }
    job.jobs.open(nspace, spawned.clone());
    job.supervisor.keep_spawned(&spawned);
    job.supervisor.tell(&ToDaemon::Spawned(spawned));
    Ok(first)
}
