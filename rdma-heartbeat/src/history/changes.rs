//! Tells at node 0 which accounts of changes of groups belong into the history: no I/O.
//!
//! Several processes tell the same change: the first account counts. One that does not know yet that it is outside its
//! group may decide for itself, and nobody in the group listens: what it tells does not count.

use std::collections::BTreeSet;

use super::Event;

/// Maximum number of changes: a corrupted rank may tell any.
const MOST: usize = 1 << 18;

/// The changes so far.
#[derive(Debug, Default)]
pub struct Changes {
    /// Ranks with their counters.
    told: BTreeSet<(u32, u32)>,
    outside: BTreeSet<u32>,
}

impl Changes {
    /// Whether an event is no change of a group, or the first account of one that counts.
    pub fn counts(&mut self, event: &Event) -> bool {
        match event {
            Event::Grouped { group, .. } => self.is_first(*group, 0),
            Event::Evicted { rank, by, counter, .. } => {
                let counts = !self.outside.contains(by) && self.is_first(*rank, *counter);
                if counts {
                    self.outside.insert(*rank);
                }
                counts
            }
            Event::Returned { rank, by, counter, .. } => {
                // The first process of a new group brings itself back.
                let may_decide = by == rank || !self.outside.contains(by);
                let counts = may_decide && self.is_first(*rank, *counter);
                if counts {
                    self.outside.remove(rank);
                }
                counts
            }
            _ => true,
        }
    }

    fn is_first(&mut self, rank: u32, counter: u32) -> bool {
        self.told.len() < MOST && self.told.insert((rank, counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evicted(rank: u32, by: u32, counter: u32) -> Event {
        Event::Evicted { group: 0, rank, by, counter, verdict: None, reply_us: None, threshold_us: None }
    }

    fn returned(rank: u32, by: u32, counter: u32) -> Event {
        Event::Returned { group: 0, rank, by, counter }
    }

    #[test]
    fn a_change_counts_once_and_only_if_somebody_in_the_group_tells_it() {
        let mut changes = Changes::default();
        assert!(changes.counts(&Event::Held) && changes.counts(&Event::Held));
        assert!(changes.counts(&Event::Grouped { group: 0, processes: 4 }));
        assert!(!changes.counts(&Event::Grouped { group: 0, processes: 4 }), "ringwatchd was restarted");
        assert!(changes.counts(&evicted(3, 1, 1)) && !changes.counts(&evicted(3, 2, 1)));
        assert!(!changes.counts(&evicted(2, 3, 1)), "it is outside");
        assert!(changes.counts(&evicted(2, 1, 1)), "whoever is in the group decides the same");
        assert!(changes.counts(&returned(3, 0, 2)) && changes.counts(&evicted(1, 3, 1)), "it is back");
        assert!(!changes.counts(&returned(1, 2, 2)) && changes.counts(&returned(2, 2, 2)), "it begins a new group");
    }
}
