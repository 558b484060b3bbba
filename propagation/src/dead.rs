//! The dead that a member knows (D in the paper). It only grows.

use std::collections::BTreeMap;

use crate::{NodeId, NodeReason, Time};

/// What a member knows of one dead node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The dead node.
    pub node: NodeId,
    /// Why it is held dead. [`NodeReason::Silent`] if only the fact has come through.
    pub reason: NodeReason,
    /// When this member learned of it.
    pub at: Time,
    /// Who announced it. This node itself for what was handed in at the start.
    pub announcer: NodeId,
    /// Whose observation led to it, if known.
    pub suspector: Option<NodeId>,
}

/// All deaths, in the order of the ids and in the order of the news.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    entries: BTreeMap<NodeId, Entry>,
    history: Vec<NodeId>,
}

#[derive(Debug)]
struct Entry {
    death: Death,
    /// The number of the broadcast by which this member announced the death, and how many of the history
    /// (this death included) were in its list.
    announced: Option<(u64, usize)>,
    /// When the node was last told that it is dead.
    told: Option<Time>,
}

impl Dead {
    pub fn contains(&self, node: NodeId) -> bool {
        self.entries.contains_key(&node)
    }

    /// Adds a death; false if the node was known to be dead.
    pub fn insert(&mut self, death: Death) -> bool {
        let node = death.node;
        if self.contains(node) {
            return false;
        }
        self.entries.insert(node, Entry { death, announced: None, told: None });
        self.history.push(node);
        true
    }

    /// In the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &Death> {
        self.entries.values().map(|entry| &entry.death)
    }

    pub fn get(&self, node: NodeId) -> Option<&Death> {
        self.entries.get(&node).map(|entry| &entry.death)
    }

    /// All dead nodes, ascending.
    pub fn list(&self) -> Vec<NodeId> {
        self.entries.keys().copied().collect()
    }

    /// Remembers that this member announces the death of `node` in its broadcast `seq`, whose list is the
    /// present one.
    pub fn set_announced(&mut self, node: NodeId, seq: u64) {
        let known = self.history.len();
        if let Some(entry) = self.entries.get_mut(&node) {
            entry.announced = Some((seq, known));
        }
    }

    /// The number and the list of this member's broadcast of that death, if there was one. The list is the
    /// beginning of the history: nothing has to be stored per broadcast.
    pub fn announcement(&self, node: NodeId) -> Option<(u64, Vec<NodeId>)> {
        let (seq, known) = self.entries.get(&node)?.announced?;
        let mut list = self.history[..known].to_vec();
        list.sort_unstable();
        Some((seq, list))
    }

    /// Whether to tell `node` now that it is dead, at most once in `interval`.
    pub fn may_tell(&mut self, node: NodeId, now: Time, interval: Time) -> bool {
        let Some(entry) = self.entries.get_mut(&node) else {
            return false;
        };
        let due = entry.told.is_none_or(|told| now >= told.saturating_add(interval));
        if due {
            entry.told = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(node: NodeId) -> Death {
        let reason = NodeReason::Silent;
        Death { node, reason, at: Time::ZERO, announcer: 0, suspector: None }
    }

    #[test]
    fn the_list_of_an_announcement_stays_what_it_was() {
        let mut dead = Dead::default();
        assert!(dead.insert(death(9)));
        assert!(dead.insert(death(4)));
        dead.set_announced(4, 17);
        assert!(dead.insert(death(1)));
        assert!(!dead.insert(death(4)));
        assert_eq!(dead.announcement(4), Some((17, vec![4, 9])));
        assert_eq!(dead.announcement(9), None);
        assert_eq!(dead.list(), [1, 4, 9]);
    }

    #[test]
    fn a_dead_node_is_told_once_per_interval() {
        let mut dead = Dead::default();
        let second = Time::from_secs(1);
        dead.insert(death(4));
        assert!(dead.may_tell(4, second, second));
        assert!(!dead.may_tell(4, second * 3 / 2, second));
        assert!(dead.may_tell(4, second * 2, second));
        assert!(!dead.may_tell(5, second, second));
    }
}
