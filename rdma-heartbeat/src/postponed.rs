//! Calls about processes of jobs that this node is yet to hear of.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};

/// Calls that wait until this node has heard of jobs.
#[derive(Debug)]
pub struct Postponed {
    /// The jobs that this node has heard of.
    heard: BTreeSet<CString>,
    /// Calls, and the jobs that each waits for.
    calls: Vec<(usize, BTreeSet<CString>)>,
}

impl Default for Postponed {
    fn default() -> Self {
        Self::new()
    }
}

impl Postponed {
    /// Of no job, and without calls.
    #[must_use]
    pub const fn new() -> Self {
        Self { heard: BTreeSet::new(), calls: Vec::new() }
    }

    /// A call about processes of these jobs; returns whether it has to wait.
    pub fn add(&mut self, id: usize, jobs: &BTreeSet<CString>) -> bool {
        let unknown: BTreeSet<_> = jobs.difference(&self.heard).cloned().collect();
        let waits = !unknown.is_empty();
        if waits {
            self.calls.push((id, unknown));
        }
        waits
    }

    /// A job is known; returns the calls that need not wait any more, in their order.
    pub fn hear(&mut self, nspace: &CStr) -> Vec<usize> {
        self.heard.insert(nspace.to_owned());
        let mut ready = Vec::new();
        self.calls.retain_mut(|(id, unknown)| {
            unknown.remove(nspace);
            if unknown.is_empty() {
                ready.push(*id);
            }
            !unknown.is_empty()
        });
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(names: &[&CStr]) -> BTreeSet<CString> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_call_waits_until_all_its_jobs_are_known() {
        let mut postponed = Postponed::new();
        assert!(!postponed.add(1, &jobs(&[])));
        assert!(postponed.add(2, &jobs(&[c"a@2"])) && postponed.add(3, &jobs(&[c"a@2", c"a@3"])));
        assert_eq!((postponed.hear(c"a@4"), postponed.hear(c"a@2")), (vec![], vec![2]));
        assert!(!postponed.add(4, &jobs(&[c"a@2", c"a@4"])));
        assert_eq!((postponed.hear(c"a@3"), postponed.hear(c"a@3")), (vec![3], vec![]));
    }
}
