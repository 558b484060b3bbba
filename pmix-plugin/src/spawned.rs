//! Jobs that ranks of the fault-tolerant job spawn: the same `ringwatchd`s watch their ranks, which are numbered on from
//! those of all jobs before.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard};

use propagation::NodeId;
use rdma_heartbeat::launch::{Spawned, ToDaemon, decode, encode};
use rdma_heartbeat::ports;
use rdma_heartbeat::segment::SpawnedJob;

use crate::job::Job;

/// The first job and those that were spawned.
pub struct Jobs {
    first: CString,
    size: u32,
    inner: Mutex<Inner>,
}

struct Inner {
    spawned: Vec<Spawned>,
    /// In prterun: the first number that no rank has been given.
    next: u32,
    /// Namespaces of which processes may run.
    open: BTreeSet<CString>,
}

impl Jobs {
    /// The first job alone.
    pub fn new(nspace: &CStr, ranks: usize) -> Self {
        let size = u32::try_from(ranks).unwrap_or(u32::MAX);
        let open = BTreeSet::from([nspace.to_owned()]);
        let inner = Inner { spawned: Vec::new(), next: size, open };
        Self { first: nspace.to_owned(), size, inner: Mutex::new(inner) }
    }

    fn is_first(&self, nspace: &CStr) -> bool {
        self.first.as_c_str() == nspace
    }

    /// The number of a rank; `None` if it belongs to none of the jobs.
    pub fn number(&self, nspace: &CStr, rank: u32) -> Option<u32> {
        if self.is_first(nspace) {
            return Some(rank);
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.nspace.as_bytes() == nspace.to_bytes())?;
        job.first.checked_add(rank).filter(|rank| job.has(*rank))
    }

    /// Namespace of a rank, and its rank there; `None` if nobody has the number.
    pub fn name_of(&self, rank: u32) -> Option<(CString, u32)> {
        if rank < self.size {
            return Some((self.first.clone(), rank));
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.has(rank))?;
        Some((CString::new(job.nspace.as_str()).ok()?, rank - job.first))
    }

    /// Namespace of the process that has opened the port with which this key begins, and its rank there.
    pub fn owner_of_port(&self, key: &str) -> Option<(CString, u32)> {
        let inner = self.inner();
        let spawned = inner.spawned.iter().map(|job| job.nspace.as_str());
        let (nspace, rank) = ports::owner(key, self.first.to_str().ok().into_iter().chain(spawned))?;
        Some((CString::new(nspace).ok()?, rank))
    }

    /// Numbers of the spawned ranks on a node.
    pub fn spawned_ranks_of(&self, node: NodeId) -> Vec<u32> {
        self.inner().spawned.iter().flat_map(|job| job.ranks_of(node)).collect()
    }

    /// Numbers of the ranks of a spawned job.
    pub fn spawned_ranks(&self, nspace: &CStr) -> std::ops::Range<u32> {
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.nspace.as_bytes() == nspace.to_bytes());
        job.map_or(0..0, |job| job.first..job.first + u32::try_from(job.rank_nodes.len()).unwrap_or(0))
    }

    /// Whether the processes of one of the jobs have ended.
    pub fn is_over(&self, nspace: &CStr) -> bool {
        self.number(nspace, 0).is_some() && !self.inner().open.contains(nspace)
    }

    /// The processes of a job have ended; true if no other job is left.
    pub fn finish(&self, nspace: &CStr) -> bool {
        let mut inner = self.inner();
        inner.open.remove(nspace) && inner.open.is_empty()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// prterun launches a job that was spawned, with its ranks on these nodes: makes the launch data.
///
/// # Errors
/// A sentence for the user.
pub fn launch(job: &Job, nspace: &CStr, rank_nodes: &[NodeId]) -> Result<Vec<u8>, String> {
    let mut inner = job.jobs.inner();
    let nspace = nspace.to_string_lossy().into_owned();
    let spawned = Spawned { nspace, first: inner.next, rank_nodes: rank_nodes.to_vec() };
    let bytes = encode(&spawned).map_err(|error| error.to_string())?;
    let size = u32::try_from(rank_nodes.len()).map_err(|error| error.to_string())?;
    inner.next = inner.next.checked_add(size).ok_or("more ranks were spawned than there are numbers")?;
    Ok(bytes)
}

/// A daemon is about to start its ranks of a job that was spawned: has them watched. Returns the first rank's number.
///
/// # Errors
/// A sentence for the user.
pub fn start(job: &Job, nspace: &CStr, bytes: &[u8]) -> Result<u32, String> {
    let spawned: Spawned = decode(bytes).map_err(|error| format!("the launch data cannot be read ({error})"))?;
    let number = number_of(&spawned.nspace, &job.launch.nspace).ok_or_else(|| {
        format!("the namespace {} of a spawned job has nothing in common with {}", spawned.nspace, job.launch.nspace)
    })?;
    let (first, ranks) = (spawned.first, spawned.ranks_of(job.me).collect::<Vec<_>>());
    if !job.segment.admit(SpawnedJob { first, number }, &ranks) {
        return Err(format!("there is no room for the ranks of the spawned job {}", spawned.nspace));
    }
    let mut inner = job.jobs.inner();
    inner.open.insert(nspace.to_owned());
    inner.spawned.push(spawned.clone());
    drop(inner);
    job.supervisor.keep_spawned(&spawned);
    job.supervisor.tell(&ToDaemon::Spawned(spawned));
    Ok(first)
}

/// The number behind the `@` of a namespace that is otherwise the same as another.
fn number_of(nspace: &str, other: &str) -> Option<u32> {
    let (name, number) = nspace.rsplit_once('@')?;
    (other.rsplit_once('@')?.0 == name).then_some(number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawned_job_has_a_number_in_the_namespace_of_the_first() {
        assert_eq!(number_of("prterun-h1-7@3", "prterun-h1-7@1"), Some(3));
        assert_eq!(number_of("prterun-h1-8@3", "prterun-h1-7@1"), None);
        assert_eq!(number_of("other", "prterun-h1-7@1"), None);
    }

    #[test]
    fn ranks_of_all_jobs_have_numbers_and_the_last_job_ends_it() {
        let jobs = Jobs::new(c"a@1", 4);
        jobs.inner().spawned.push(Spawned { nspace: "a@3".into(), first: 6, rank_nodes: vec![1, 0] });
        jobs.inner().open.insert(c"a@3".to_owned());
        assert_eq!((jobs.number(c"a@1", 3), jobs.number(c"a@3", 1)), (Some(3), Some(7)));
        assert_eq!((jobs.number(c"a@3", 2), jobs.number(c"a@2", 0)), (None, None));
        assert_eq!((jobs.name_of(7), jobs.name_of(4)), (Some((c"a@3".to_owned(), 1)), None));
        assert_eq!((jobs.spawned_ranks_of(1), jobs.spawned_ranks(c"a@3")), (vec![6], 6..8));
        assert_eq!((jobs.number(c"a@3", u32::MAX - 1), jobs.is_over(c"a@2")), (None, false));
        assert!(!jobs.is_over(c"a@1") && !jobs.finish(c"a@1") && !jobs.finish(c"a@1"));
        assert!(jobs.is_over(c"a@1") && !jobs.is_over(c"a@3") && jobs.finish(c"a@3"));
    }
}
