//! Finds processes that the runtime daemon has started for ranks, before any of them has registered.

use std::fs;

use node_abi::rank_environment::rank_in;
use platform::pin::Pin;

/// Number of passes without a result after which the search ends.
const VAIN_PASSES: u32 = 8;

/// A process that was started as a rank, with namespace and rank. A wrapper around a rank counts.
pub type Launched = (Pin, String, u32);

/// Decides whether another search is useful.
#[derive(Debug, Default)]
pub struct Search {
    vain_passes: u32,
    under_way: bool,
}

impl Search {
    /// Begins the search again, because more processes are going to be started.
    pub fn begin_again(&mut self) {
        self.vain_passes = 0;
    }

    /// Whether a pass begins now; it is then under way until [`Search::passed`]. With `launching` no rank has a process
    /// yet, so the search continues.
    pub fn begins(&mut self, launching: bool) -> bool {
        if launching {
            self.begin_again();
        }
        let begins = !self.under_way && self.vain_passes < VAIN_PASSES;
        self.under_way |= begins;
        begins
    }

    /// Notes the number of processes that a pass has found.
    pub fn passed(&mut self, found: usize) {
        self.under_way = false;
        self.vain_passes = if found == 0 { self.vain_passes + 1 } else { 0 };
    }
}

/// Inspects all children of a process that are not `known`. It may block on them: see [`platform::inquiry`].
#[must_use]
pub fn ranks_among_children(runtime: i32, known: &[i32]) -> Vec<Launched> {
    let unknown = children(runtime).filter(|pid| !known.contains(pid));
    let as_rank = |pid| {
        let pin = Pin::take(pid).ok()?;
        let (nspace, rank) = rank_in(&pin.environment().ok()?.read())?;
        Some((pin, nspace, rank))
    };
    unknown.filter_map(as_rank).collect()
}

/// Process numbers of the children of all its threads.
fn children(pid: i32) -> impl Iterator<Item = i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
}

#[cfg(test)]
mod tests {
    use node_abi::testing::sleeper_of;

    use super::*;

    #[test]
    fn children_are_found_by_the_ranks_they_were_started_as() {
        let me = i32::try_from(std::process::id()).unwrap();
        let mut children: Vec<_> = (0..10).map(|rank| sleeper_of("launched@1", rank)).collect();
        let found = |known: &[i32]| {
            let all = ranks_among_children(me, known).into_iter().filter(|(_, nspace, _)| nspace == "launched@1");
            let mut all: Vec<_> = all.map(|(pin, _, rank)| (rank, pin.pid())).collect();
            all.sort_unstable();
            all
        };
        let expected: Vec<_> = (0..).zip(children.iter().map(|child| child.id() as i32)).collect();
        assert_eq!(found(&[]), expected);
        assert_eq!(found(&[expected[0].1]), expected[1..]);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_search_in_vain_ends_and_can_begin_again() {
        let mut search = Search::default();
        for _ in 0..VAIN_PASSES {
            assert!(search.begins(false));
            assert!(!search.begins(false), "one at a time");
            search.passed(0);
        }
        assert!(!search.begins(false));
        assert!(search.begins(true), "nobody has been started yet");
        search.passed(2);
        for _ in 0..VAIN_PASSES {
            assert!(search.begins(false));
            search.passed(0);
        }
        assert!(!search.begins(false));
        search.begin_again();
        assert!(search.begins(false));
    }
}
