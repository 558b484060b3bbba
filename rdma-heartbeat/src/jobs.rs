//! The fault-tolerant job and those that its ranks spawn, and the numbers of their ranks: each job's follow those of all
//! jobs before.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard};

use propagation::NodeId;

use crate::launch::Spawned;
use crate::ports;

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
    #[must_use]
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
    #[must_use]
    pub fn number(&self, nspace: &CStr, rank: u32) -> Option<u32> {
        if self.is_first(nspace) {
            return Some(rank);
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.nspace.as_bytes() == nspace.to_bytes())?;
        job.first.checked_add(rank).filter(|rank| job.has(*rank))
    }

    /// Namespace of a rank, and its rank there; `None` if nobody has the number.
    #[must_use]
    pub fn name_of(&self, rank: u32) -> Option<(CString, u32)> {
        if rank < self.size {
            return Some((self.first.clone(), rank));
        }
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.has(rank))?;
        Some((CString::new(job.nspace.as_str()).ok()?, rank - job.first))
    }

    /// Namespace of the process that has opened the port with which this key begins, and its rank there.
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

    /// Numbers of the ranks of a spawned job; none of a program without MPI.
    #[must_use]
    pub fn spawned_ranks(&self, nspace: &CStr) -> std::ops::Range<u32> {
        let inner = self.inner();
        let job = inner.spawned.iter().find(|job| job.is_awaited && job.nspace.as_bytes() == nspace.to_bytes());
        job.map_or(0..0, |job| job.first..job.first + u32::try_from(job.rank_nodes.len()).unwrap_or(0))
    }

    /// Whether the processes of one of the jobs have ended.
    #[must_use]
    pub fn is_over(&self, nspace: &CStr) -> bool {
        self.number(nspace, 0).is_some() && !self.inner().open.contains(nspace)
    }

    /// The processes of a job have ended; true if no other job is left.
    pub fn finish(&self, nspace: &CStr) -> bool {
        let mut inner = self.inner();
        inner.open.remove(nspace) && inner.open.is_empty()
    }

    /// In prterun: numbers for the ranks of a job that is spawned on these nodes, and [awaited](Spawned::is_awaited) or not;
    /// `None` if there are not enough.
    #[must_use]
    pub fn plan(&self, nspace: String, rank_nodes: Vec<NodeId>, is_awaited: bool) -> Option<Spawned> {
        let mut inner = self.inner();
        let first = inner.next;
        inner.next = first.checked_add(u32::try_from(rank_nodes.len()).ok()?)?;
        Some(Spawned { nspace, first, rank_nodes, is_awaited })
    }

    /// A spawned job, which PMIx knows under this name, begins on this node.
    pub fn open(&self, nspace: &CStr, spawned: Spawned) {
        let mut inner = self.inner();
        inner.open.insert(nspace.to_owned());
        inner.spawned.push(spawned);
    }

    /// The number behind the `@` of a namespace that is otherwise the same as that of the first job.
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
        jobs.open(c"a@3", Spawned { nspace: "a@3".into(), first: 6, rank_nodes: vec![1, 0], is_awaited: true });
        assert_eq!((jobs.number(c"a@1", 3), jobs.number(c"a@3", 1)), (Some(3), Some(7)));
        assert_eq!((jobs.number(c"a@3", 2), jobs.number(c"a@2", 0)), (None, None));
        assert_eq!((jobs.name_of(7), jobs.name_of(4)), (Some((c"a@3".to_owned(), 1)), None));
        assert_eq!((jobs.spawned_ranks_of(1), jobs.spawned_ranks(c"a@3")), (vec![6], 6..8));
        assert_eq!((jobs.number(c"a@3", u32::MAX - 1), jobs.is_over(c"a@2")), (None, false));
        assert!(!jobs.is_over(c"a@1") && !jobs.finish(c"a@1") && !jobs.finish(c"a@1"));
        assert!(jobs.is_over(c"a@1") && !jobs.is_over(c"a@3") && jobs.finish(c"a@3"));
    }

    #[test]
    fn there_are_not_more_ranks_than_numbers() {
        let jobs = Jobs::new(c"a@1", usize::MAX);
        assert_eq!(jobs.plan("a@2".into(), vec![0], true), None);
    }
}
