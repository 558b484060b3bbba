//! The processes that the runtime daemon has started for ranks, before any of them has registered.

use std::fs;

use crate::pin::Pin;

/// Most processes that one turn looks at: whoever looks has heartbeats to send.
const AT_ONCE: usize = 4;
/// So often all are looked at in vain before the search ends.
const VAIN_PASSES: u32 = 8;

/// A search for them, a few at a time.
pub struct Search {
    runtime: i32,
    /// Who is left of this pass.
    queue: Vec<i32>,
    found: bool,
    vain_passes: u32,
}

impl Search {
    /// A search among the children of this process.
    #[must_use]
    pub fn new(runtime: i32) -> Self {
        Self { runtime, queue: Vec::new(), found: false, vain_passes: 0 }
    }

    /// More processes are going to be started.
    pub fn begin_again(&mut self) {
        self.vain_passes = 0;
    }

    /// Looks at the next few children that are not `known`, and says which of them was started as which rank of which
    /// namespace. A wrapper around a rank counts. `launching`: no rank has got a process yet, so the search goes on.
    pub fn look(&mut self, known: &[i32], launching: bool) -> Vec<(Pin, String, u32)> {
        if self.queue.is_empty() {
            let in_vain = !std::mem::take(&mut self.found) && !launching;
            self.vain_passes = if in_vain { self.vain_passes + 1 } else { 0 };
            if self.vain_passes > VAIN_PASSES {
                self.vain_passes = VAIN_PASSES;
                return Vec::new();
            }
            self.queue = children(self.runtime).filter(|pid| !known.contains(pid)).collect();
        }
        let some = self.queue.split_off(self.queue.len().saturating_sub(AT_ONCE));
        let ranks: Vec<_> = some
            .into_iter()
            .filter_map(|pid| {
                let pin = Pin::take(pid).ok()?;
                let (nspace, rank) = pin.started_as()?;
                Some((pin, nspace, rank))
            })
            .collect();
        self.found |= !ranks.is_empty();
        ranks
    }
}

/// Process numbers of the children of all its threads.
fn children(pid: i32) -> impl Iterator<Item = i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sleeper_of;

    fn found(search: &mut Search, known: &[i32]) -> Vec<(i32, u32)> {
        let is_own = |(_, nspace, _): &(Pin, String, u32)| nspace == "launched@1";
        search.look(known, false).into_iter().filter(is_own).map(|(pin, _, rank)| (pin.pid(), rank)).collect()
    }

    #[test]
    fn children_are_found_by_the_ranks_they_were_started_as_a_few_at_a_time() {
        let me = i32::try_from(std::process::id()).unwrap();
        let mut children: Vec<_> = (0..10).map(|rank| sleeper_of("launched@1", rank)).collect();
        let mut search = Search::new(me);
        let mut all = Vec::new();
        while all.len() < children.len() {
            let some = found(&mut search, &[]);
            assert!(some.len() <= AT_ONCE);
            all.extend(some);
        }
        all.sort_by_key(|(_, rank)| *rank);
        assert!(all.iter().zip(&children).all(|((pid, _), child)| *pid == child.id() as i32), "{all:?}");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_search_in_vain_ends_and_can_begin_again() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let parent = sleeper.id() as i32;
        let mut search = Search::new(parent);
        for _ in 0..=VAIN_PASSES {
            assert!(search.look(&[], false).is_empty());
        }
        assert_eq!(search.vain_passes, VAIN_PASSES);
        assert!(search.look(&[], true).is_empty());
        assert_eq!(search.vain_passes, 0, "nobody has been started yet");
        search.vain_passes = VAIN_PASSES;
        search.begin_again();
        assert_eq!(search.vain_passes, 0);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
