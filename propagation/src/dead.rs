//! Tracks the dead nodes that a member knows (D in the paper). The set only grows.
//!
//! It includes nodes that left in order: they take no further part either.

use std::collections::BTreeMap;

use crate::message::NodeReason;
use crate::units::{NodeId, Time};

/// Knowledge about one dead node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Death {
    /// The dead node.
    pub node: NodeId,
    /// The reason. [`NodeReason::Silent`] if only the fact is known.
    pub reason: NodeReason,
    /// When this member learned of it.
    pub at: Time,
    /// The node that announced it. This node itself for deaths passed to the constructor.
    pub announcer: NodeId,
    /// The node whose observation led to it, if known.
    pub suspector: Option<NodeId>,
}

/// All deaths, ordered by id, and in order of arrival.
///
/// Flat lists, because there are few deaths and, in a simulation, many members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Dead {
    deaths: Vec<Death>,
    history: Vec<NodeId>,
    /// The deaths that this member announced.
    announced: BTreeMap<NodeId, Announced>,
    /// Time when each sending dead node was last notified of its death.
    told: BTreeMap<NodeId, Time>,
}

/// The data needed to repeat an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Announced {
    /// The number of the broadcast.
    seq: u64,
    /// The number of nodes then.
    universe: u32,
    /// Number of deaths of the history in its list, including its own: this determines the list.
    known: usize,
}

impl Dead {
    pub fn contains(&self, node: NodeId) -> bool {
        self.find(node).is_ok()
    }

    fn find(&self, node: NodeId) -> Result<usize, usize> {
        self.deaths.binary_search_by_key(&node, |death| death.node)
    }

    /// Adds a death; false if the node was known to be dead.
    pub fn insert(&mut self, death: Death) -> bool {
        let Err(place) = self.find(death.node) else {
            return false;
        };
        self.history.push(death.node);
        self.deaths.insert(place, death);
        true
    }

    /// Number of deaths.
    pub fn count(&self) -> u32 {
        u32::try_from(self.deaths.len()).expect("nodes are numbered with 32 bits")
    }

    /// In the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &Death> {
        self.deaths.iter()
    }

    pub fn get(&self, node: NodeId) -> Option<&Death> {
        self.find(node).ok().map(|place| &self.deaths[place])
    }

    /// All dead nodes, ascending.
    pub fn list(&self) -> Vec<NodeId> {
        self.deaths.iter().map(|death| death.node).collect()
    }

    /// The reasons of a list of dead nodes, as in [`Notice::reasons`](crate::Notice::reasons).
    pub fn reasons_of(&self, list: &[NodeId]) -> Vec<(NodeReason, u32)> {
        let mut runs = Vec::<(NodeReason, u32)>::new();
        for reason in list.iter().map(|node| self.get(*node).map_or(NodeReason::Silent, |death| death.reason)) {
            match runs.last_mut() {
                Some((last, count)) if *last == reason => *count += 1,
                _ => runs.push((reason, 1)),
            }
        }
        runs
    }

    /// Notes that this member announces the death of `node` to `universe` nodes in its broadcast `seq`, with the
    /// current list of dead nodes.
    pub fn set_announced(&mut self, node: NodeId, seq: u64, universe: u32) {
        if self.contains(node) {
            self.announced.insert(node, Announced { seq, universe, known: self.history.len() });
        }
    }

    /// The number, the number of nodes and the list of this member's broadcast of that death, if there was one.
    pub fn announcement(&self, node: NodeId) -> Option<(u64, u32, Vec<NodeId>)> {
        let &Announced { seq, universe, known } = self.announced.get(&node)?;
        let mut list = self.history[..known].to_vec();
        list.sort_unstable();
        Some((seq, universe, list))
    }

    /// Whether to notify `node` now of its death, at most once in `interval`.
    pub fn may_tell(&mut self, node: NodeId, now: Time, interval: Time) -> bool {
        let told = self.told.get(&node);
        let due = self.contains(node) && told.is_none_or(|told| now >= told.saturating_add(interval));
        if due {
            self.told.insert(node, now);
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
        dead.set_announced(4, 17, 12);
        assert!(dead.insert(death(1)));
        assert!(!dead.insert(death(4)));
        assert_eq!(dead.announcement(4), Some((17, 12, vec![4, 9])));
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
