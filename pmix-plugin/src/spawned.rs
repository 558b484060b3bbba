//! Handles jobs that ranks of the fault-tolerant job spawn: the same `ringwatchd`s watch their ranks.

use std::ffi::CStr;

use node_abi::launch::{Spawned, ToDaemon, decode, encode};
use node_abi::segment::SpawnedJob;
use propagation::NodeId;
use prte_hooks::Runtime;

use crate::job::Job;

/// Variable in which Open MPI gives spawned processes the port to connect to. It is empty for a program without MPI
/// (the key `ompi_non_mpi`), for which no process waits.
const PARENT_PORT: &CStr = c"OMPI_PARENT_PORT";

/// Variable that a replacement under message logging has.
const REPLACES: &CStr = c"RINGWATCH_REPLACES";

/// Launches a spawned job in prterun, with its ranks on these nodes: returns the launch data.
///
/// # Errors
/// A sentence for the user.
pub fn launch(job: &Job, nspace: &CStr, rank_nodes: &[NodeId], runtime: &dyn Runtime) -> Result<Vec<u8>, String> {
    let is_awaited = runtime.job_variable(nspace, PARENT_PORT).is_none_or(|port| !port.is_empty());
    let spawned = job.jobs.plan(nspace.to_string_lossy().into_owned(), rank_nodes.to_vec(), is_awaited);
    let spawned = spawned.ok_or("more ranks were spawned than there are numbers")?;
    let is_replacement = runtime.job_variable(nspace, REPLACES).is_some();
    encode(&Spawned { is_replacement, ..spawned }).map_err(|error| error.to_string())
}

/// Starts to watch ranks of a spawned job, which a daemon is about to start. Returns the first rank's number.
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
    job.link.keep_spawned(&spawned);
    job.link.tell(&ToDaemon::Spawned(spawned));
    Ok(first)
}
