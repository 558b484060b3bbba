//! Tells at node 0 which accounts of changes of groups belong into the history: no I/O.
//!
//! Several processes tell the same change: the first account counts. A process that does not know yet that it is outside
//! its group may decide for itself, and nobody in the group listens. Its accounts wait: one counts if the same process has
//! a later change, which begins from it.

use std::collections::{BTreeMap, BTreeSet};

use propagation::{NodeId, Time};

use super::Event;

/// Maximum number of changes: a corrupted rank may tell any.
const MOST: usize = 1 << 18;

/// An event as a node has told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The node.
    pub from: NodeId,
    /// Its host.
    pub host: String,
    /// When, on the axis of node 0.
    pub at: Time,
    /// What.
    pub event: Event,
}

/// A change of a rank, by its counter.
type Change = (u32, u32);

/// The changes so far.
#[derive(Debug, Default)]
pub struct Changes {
    told: BTreeSet<Change>,
    /// The highest counter of each rank, and when it had that. An odd one is outside.
    last: BTreeMap<u32, (u32, Time)>,
    /// Accounts of those who were outside.
    waiting: BTreeMap<Change, Account>,
}

impl Changes {
    /// What of an account, and of those that wait, belongs into the history now, in the order of their counters.
    pub fn judge(&mut self, account: Account) -> Vec<Account> {
        let (rank, by, counter) = match account.event {
            Event::Grouped { group, .. } => {
                return if self.is_first((group, 0)) { vec![account] } else { Vec::new() };
            }
            Event::Evicted { rank, by, counter, .. } | Event::Returned { rank, by, counter, .. } => (rank, by, counter),
            _ => return vec![account],
        };
        let change = (rank, counter);
        if self.told.contains(&change) {
            return Vec::new();
        }
        let is_late = self.last.get(&rank).is_some_and(|(last, _)| *last > counter);
        // The first process of a new group brings itself back.
        let brings_itself = by == rank && counter % 2 == 0;
        if !is_late && !brings_itself && self.was_outside(by, account.at) {
            if self.waiting.len() < MOST {
                self.waiting.entry(change).or_insert(account);
            }
            return Vec::new();
        }
        if !is_late {
            self.last.insert(rank, (counter, account.at));
        }
        self.waiting.remove(&change);
        let earlier: Vec<Change> = self.waiting.range((rank, 0)..change).map(|(change, _)| *change).collect();
        let mut accounts: Vec<_> = earlier.iter().filter_map(|change| self.waiting.remove(change)).collect();
        accounts.push(account);
        let changes = earlier.into_iter().chain([change]);
        accounts
            .into_iter()
            .zip(changes)
            .filter(|(_, change)| self.is_first(*change))
            .map(|(account, _)| account)
            .collect()
    }

    fn was_outside(&self, rank: u32, at: Time) -> bool {
        self.last.get(&rank).is_some_and(|(counter, since)| counter % 2 == 1 && *since <= at)
    }

    fn is_first(&mut self, change: Change) -> bool {
        self.told.len() < MOST && self.told.insert(change)
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

    /// What comes into the history of an event at this second.
    fn history(changes: &mut Changes, second: u64, event: Event) -> Vec<Event> {
        let account = Account { from: 0, host: "h1".into(), at: Time::from_secs(second), event };
        changes.judge(account).into_iter().map(|account| account.event).collect()
    }

    #[test]
    fn a_change_counts_once_and_only_if_somebody_in_the_group_tells_it() {
        let mut changes = Changes::default();
        let mut counts = |event: Event| history(&mut changes, 1, event.clone()) == [event];
        assert!(counts(Event::Held) && counts(Event::Held));
        assert!(counts(Event::Grouped { group: 0, processes: 4 }));
        assert!(!counts(Event::Grouped { group: 0, processes: 4 }), "ringwatchd was restarted");
        assert!(counts(evicted(3, 1, 1)) && !counts(evicted(3, 2, 1)));
        assert!(!counts(evicted(2, 3, 1)), "it is outside");
        assert!(counts(evicted(2, 1, 1)), "whoever is in the group decides the same");
        assert!(counts(returned(3, 0, 2)) && counts(evicted(1, 3, 1)), "it is back");
        assert!(!counts(returned(1, 2, 2)) && counts(returned(2, 2, 2)), "it begins a new group");
    }

    #[test]
    fn what_was_decided_before_the_own_eviction_counts() {
        let mut changes = Changes::default();
        assert_eq!(history(&mut changes, 5, evicted(3, 1, 1)).len(), 1);
        assert_eq!(history(&mut changes, 4, evicted(2, 3, 1)).len(), 1, "told later than the other one");
        assert!(history(&mut changes, 6, evicted(0, 3, 1)).is_empty());
    }

    #[test]
    fn what_the_group_has_heard_of_somebody_outside_counts_when_it_goes_on_from_there() {
        let mut changes = Changes::default();
        history(&mut changes, 1, evicted(3, 1, 1));
        assert!(history(&mut changes, 2, evicted(2, 3, 1)).is_empty());
        assert_eq!(history(&mut changes, 3, returned(2, 0, 2)), [evicted(2, 3, 1), returned(2, 0, 2)]);
        assert!(history(&mut changes, 4, evicted(2, 1, 1)).is_empty(), "it was told");
    }

    #[test]
    fn an_account_that_comes_late_counts_and_changes_nothing_else() {
        let mut changes = Changes::default();
        assert_eq!(history(&mut changes, 3, returned(2, 0, 2)).len(), 1);
        assert_eq!(history(&mut changes, 1, evicted(2, 1, 1)).len(), 1);
        assert_eq!(history(&mut changes, 4, evicted(1, 2, 1)).len(), 1, "it is inside");
    }
}
