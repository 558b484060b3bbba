//! Postpones calls about processes of jobs that this node does not know yet.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};

/// Calls that wait until this node knows their jobs.
#[derive(Debug)]
pub struct Postponed {
    /// The jobs that this node knows.
    heard: BTreeSet<CString>,
    /// Calls, and the unknown jobs of each.
    calls: Vec<(usize, BTreeSet<CString>)>,
}

impl Default for Postponed {
    fn default() -> Self {
        Self::new()
    }
}

impl Postponed {
    /// Without jobs and calls.
    #[must_use]
    pub const fn new() -> Self {
        Self { heard: BTreeSet::new(), calls: Vec::new() }
    }

    /// Adds a call about processes of these jobs; returns whether it must wait.
    pub fn add(&mut self, id: usize, jobs: &BTreeSet<CString>) -> bool {
        let unknown: BTreeSet<_> = jobs.difference(&self.heard).cloned().collect();
        let waits = !unknown.is_empty();
        if waits {
            self.calls.push((id, unknown));
        }
        waits
    }

    /// Adds a job; returns the calls that need not wait any longer, in order.
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
