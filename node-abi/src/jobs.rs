//! Numbers the ranks of the fault-tolerant job and of the jobs that its ranks spawn. Each job's numbers follow those of
//! all earlier jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard};

use propagation::NodeId;

use crate::launch::Spawned;
use crate::ports;
use crate::segment::{MOST_JOBS, SPARE_SLOTS};

/// The first job and the spawned ones.
pub struct Jobs {
    first: CString,
    size: u32,
    inner: Mutex<Inner>,
}

struct Inner {
    spawned: Vec<Spawned>,
    /// In prterun: the first unused number.
    next: u32,
    /// Namespaces that may have running processes.
    open: BTreeSet<CString>,
    /// In prterun: number of mapped jobs, and of their ranks on each node.
    mapped: (u32, BTreeMap<NodeId, u32>),
}

/// The reason why a job cannot be spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// There would be more than [`MOST_JOBS`].
    Jobs,
    /// This node would have more than [`SPARE_SLOTS`] spawned ranks.
    Ranks(NodeId),
}

impl Jobs {
    /// Only the first job.
    #[must_use]
    pub fn new(nspace: &CStr, ranks: usize) -> Self {
        let size = u32::try_from(ranks).unwrap_or(u32::MAX);
        let open = BTreeSet::from([nspace.to_owned()]);
        let inner = Inner { spawned: Vec::new(), next: size, open, mapped: Default::default() };
        Self { first: nspace.to_owned(), size, inner: Mutex::new(inner) }
    }

    fn is_first(&self, nspace: &CStr) -> bool {
        self.first.as_c_str() == nspace
    }

    /// The number of a rank; `None` if it belongs to none of the jobs.
    #[must_use]
    pub fn number(&self, nspace: &CStr, rank: u32) -> Option<u32> {
        if self.is_first(nspace) {
            return Some(rank);
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.nspace.as_bytes() == nspace.to_bytes())?;
        job.first.checked_add(rank).filter(|rank| job.has(*rank))
    }

    /// Namespace of a rank, and its rank there; `None` if the number is unused.
    #[must_use]
    pub fn name_of(&self, rank: u32) -> Option<(CString, u32)> {
        if rank < self.size {
            return Some((self.first.clone(), rank));
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.has(rank))?;
        Some((CString::new(job.nspace.as_str()).ok()?, rank - job.first))
    }

    /// Namespace and rank of the process that has opened the port at the begin of this key.
    #[must_use]
    pub fn owner_of_port(&self, key: &str) -> Option<(CString, u32)> {
        let inner = self.inner();
        let spawned = inner.spawned.iter().map(|job| job.nspace.as_str());
        let (nspace, rank) = ports::owner(key, self.first.to_str().ok().into_iter().chain(spawned))?;
        Some((CString::new(nspace).ok()?, rank))
    }

    /// Numbers of the spawned ranks on a node.
    #[must_use]
    pub fn spawned_ranks_of(&self, node: NodeId) -> Vec<u32> {
        self.inner().spawned.iter().flat_map(|job| job.ranks_of(node)).collect()
    }

    /// Numbers of the ranks of all spawned jobs, except programs without MPI.
    #[must_use]
    pub fn spawned_ranks(&self) -> Vec<u32> {
        let inner = self.inner();
        let jobs = inner.spawned.iter().filter(|job| job.is_awaited);
        jobs.flat_map(|job| (job.first..).zip(&job.rank_nodes).map(|(rank, _)| rank)).collect()
    }

    /// Numbers of the ranks of a spawned job, each with its node; `None` for a program without MPI, or another job.
    #[must_use]
    pub fn spawned_rank_nodes(&self, nspace: &str) -> Option<Vec<(u32, NodeId)>> {
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.is_awaited && job.nspace == nspace)?;
        Some((job.first..).zip(job.rank_nodes.iter().copied()).collect())
    }

    /// Numbers of the ranks of all jobs, except programs without MPI.
    #[must_use]
    pub fn ranks(&self) -> Vec<u32> {
        let inner = self.inner();
        let spawned = inner.spawned.iter().filter(|job| job.is_awaited);
        let numbers = spawned.flat_map(|job| job.first..job.first + u32::try_from(job.rank_nodes.len()).unwrap_or(0));
        (0..self.size).chain(numbers).collect()
    }

    /// A rank for messages: `rank 5`, or `rank 1 of the spawned job NSPACE`.
    #[must_use]
    pub fn title_of(&self, rank: u32) -> String {
        match self.name_of(rank) {
            Some((nspace, rank)) if !self.is_first(&nspace) => {
                format!("rank {rank} of the spawned job {}", nspace.to_string_lossy())
            }
            _ => format!("rank {rank}"),
        }
    }

    /// Whether the processes of one of the jobs have ended.
    #[must_use]
    pub fn is_over(&self, nspace: &CStr) -> bool {
        self.number(nspace, 0).is_some() && !self.inner().open.contains(nspace)
    }

    /// Numbers of the ranks of a job; empty if it is unknown.
    pub fn ranks_of(&self, nspace: &CStr) -> std::ops::Range<u32> {
        if self.is_first(nspace) {
            return 0..self.size;
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.nspace.as_bytes() == nspace.to_bytes());
        job.map_or(0..0, |job| job.first..job.first + u32::try_from(job.rank_nodes.len()).unwrap_or(0))
    }

    /// Namespaces of all jobs that this node knows.
    #[must_use]
    pub fn all_jobs(&self) -> Vec<CString> {
        let inner = self.inner();
        let spawned = inner.spawned.iter().filter_map(|job| CString::new(job.nspace.as_str()).ok());
        std::iter::once(self.first.clone()).chain(spawned).collect()
    }

    /// Namespaces that may have running processes.
    #[must_use]
    pub fn open_jobs(&self) -> Vec<CString> {
        self.inner().open.iter().cloned().collect()
    }

    /// Handles the end of a job's processes; true if no other job remains.
    pub fn finish(&self, nspace: &CStr) -> bool {
        let mut inner = self.inner();
        inner.open.remove(nspace) && inner.open.is_empty()
    }

    /// In prterun: reserves slots for the ranks of a job that is spawned on these nodes.
    ///
    /// # Errors
    /// If there is not enough room; then nothing is reserved.
    pub fn reserve(&self, rank_nodes: &[NodeId]) -> Result<(), NoRoom> {
        let mut inner = self.inner();
        let (jobs, ranks) = &mut inner.mapped;
        if *jobs >= MOST_JOBS {
            return Err(NoRoom::Jobs);
        }
        let mut taken = ranks.clone();
        for node in rank_nodes {
            let count = taken.entry(*node).or_default();
            *count += 1;
            if *count > SPARE_SLOTS {
                return Err(NoRoom::Ranks(*node));
            }
        }
        (*jobs, *ranks) = (*jobs + 1, taken);
        Ok(())
    }

    /// In prterun: numbers for the ranks of a job that is spawned on these nodes, and [awaited](Spawned::is_awaited) or
    /// not; `None` if there are not enough.
    #[must_use]
    pub fn plan(&self, nspace: String, rank_nodes: Vec<NodeId>, is_awaited: bool) -> Option<Spawned> {
        let mut inner = self.inner();
        let first = inner.next;
        inner.next = first.checked_add(u32::try_from(rank_nodes.len()).ok()?)?;
        Some(Spawned { nspace, first, rank_nodes, is_awaited, is_replacement: false })
    }

    /// Begins a spawned job, which PMIx knows under this name, on this node.
    pub fn open(&self, nspace: &CStr, spawned: Spawned) {
        let mut inner = self.inner();
        inner.open.insert(nspace.to_owned());
        inner.spawned.push(spawned);
    }

    /// The number behind the `@` of a namespace that otherwise equals that of the first job.
    #[must_use]
    pub fn number_in(&self, nspace: &str) -> Option<u32> {
        let (name, number) = nspace.rsplit_once('@')?;
        (self.first.to_str().ok()?.rsplit_once('@')?.0 == name).then_some(number)?.parse().ok()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawned_job_has_a_number_in_the_namespace_of_the_first() {
        let jobs = Jobs::new(c"prterun-h1-7@1", 4);
        assert_eq!(jobs.number_in("prterun-h1-7@3"), Some(3));
        assert_eq!(jobs.number_in("prterun-h1-8@3"), None);
        assert_eq!(jobs.number_in("other"), None);
    }

    #[test]
    fn ranks_of_all_jobs_have_numbers_and_the_last_job_ends_it() {
        let jobs = Jobs::new(c"a@1", 4);
        let numbers = |jobs: &Jobs, ranks| jobs.plan("a@2".into(), vec![0; ranks], true).map(|job| job.first);
        assert_eq!((numbers(&jobs, 2), numbers(&jobs, 1), numbers(&jobs, 0)), (Some(4), Some(6), Some(7)));
        let own =
            Spawned { nspace: "a@3".into(), first: 6, rank_nodes: vec![1, 0], is_awaited: true, is_replacement: false };
        jobs.open(c"a@3", own);
        assert_eq!((jobs.number(c"a@1", 3), jobs.number(c"a@3", 1)), (Some(3), Some(7)));
        assert_eq!((jobs.number(c"a@3", 2), jobs.number(c"a@2", 0)), (None, None));
        assert_eq!((jobs.name_of(7), jobs.name_of(4)), (Some((c"a@3".to_owned(), 1)), None));
        assert_eq!((jobs.spawned_ranks_of(1), jobs.spawned_ranks()), (vec![6], vec![6, 7]));
        assert_eq!((jobs.number(c"a@3", u32::MAX - 1), jobs.is_over(c"a@2")), (None, false));
        assert!(!jobs.is_over(c"a@1") && !jobs.finish(c"a@1") && !jobs.finish(c"a@1"));
        assert!(jobs.is_over(c"a@1") && !jobs.is_over(c"a@3") && jobs.finish(c"a@3"));
    }

    #[test]
    fn there_is_room_for_so_many_jobs_and_ranks_on_a_node() {
        let jobs = Jobs::new(c"a@1", 4);
        let most = vec![3; SPARE_SLOTS as usize];
        assert_eq!((jobs.reserve(&most), jobs.reserve(&[4, 3])), (Ok(()), Err(NoRoom::Ranks(3))));
        assert!((1..MOST_JOBS).all(|job| jobs.reserve(&[4 + job / SPARE_SLOTS]).is_ok()));
        assert_eq!(jobs.reserve(&[2]), Err(NoRoom::Jobs));
    }

    #[test]
    fn there_are_not_more_ranks_than_numbers() {
        let jobs = Jobs::new(c"a@1", usize::MAX);
        assert_eq!(jobs.plan("a@2".into(), vec![0], true), None);
    }
}
