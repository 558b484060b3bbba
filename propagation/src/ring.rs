//! The order of the nodes on the ring, and counting along it.
//!
//! The order is that of the ids. Everything that depends on this is in this module, so that another order
//! (one that keeps neighbours in different racks, say) has one place to go to.

use crate::NodeId;

/// The nearest node after `of` on a ring of `universe` nodes that is not `dead`; `None` if there is no other.
pub(crate) fn successor(universe: u32, of: NodeId, dead: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    (of + 1..universe).chain(0..of).find(|&node| !dead(node))
}

/// The nearest node before `of` on a ring of `universe` nodes that is not `dead`; `None` if there is no other.
pub(crate) fn predecessor(universe: u32, of: NodeId, dead: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    (0..of).rev().chain((of + 1..universe).rev()).find(|&node| !dead(node))
}

/// The nodes of a ring without some dead ones, numbered in ring order without holes.
///
/// Answers by binary search in the list of the dead: nothing here grows with the size of the ring.
#[derive(Clone, Copy)]
pub(crate) struct Survivors<'a> {
    universe: u32,
    dead: &'a [NodeId],
}

impl<'a> Survivors<'a> {
    /// `dead` is strictly ascending and below `universe`.
    pub(crate) fn new(universe: u32, dead: &'a [NodeId]) -> Self {
        debug_assert!(dead.is_sorted_by(|a, b| a < b));
        debug_assert!(dead.last().is_none_or(|&last| last < universe));
        Survivors { universe, dead }
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        self.universe - self.dead.len() as u32
    }

    /// The number of `node`: how many survivors come before it. `None` if it is not one of them.
    pub(crate) fn index(self, node: NodeId) -> Option<u32> {
        match self.dead.binary_search(&node) {
            Err(dead_before) if node < self.universe => Some(node - dead_before as u32),
            _ => None,
        }
    }

    /// The survivor with this number, which is below [`count`](Self::count).
    pub(crate) fn node(self, index: u32) -> NodeId {
        // The i-th of the dead has dead[i] - i survivors before it, and that never falls with i. Those with at
        // most `index` survivors before them come before the wanted node.
        let (mut low, mut high) = (0, self.dead.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.dead[middle] - middle as u32 <= index {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        index + low as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_on_the_ring_skip_the_dead_and_wrap_around() {
        let dead = |node| [0, 3, 4].contains(&node);
        assert_eq!(successor(6, 2, dead), Some(5));
        assert_eq!(successor(6, 5, dead), Some(1));
        assert_eq!(predecessor(6, 5, dead), Some(2));
        assert_eq!(predecessor(6, 1, dead), Some(5));
    }

    #[test]
    fn the_last_survivor_has_no_neighbours() {
        assert_eq!(successor(3, 1, |_| true), None);
        assert_eq!(predecessor(3, 1, |_| true), None);
        assert_eq!(successor(1, 0, |_| false), None);
    }

    #[test]
    fn numbering_agrees_with_a_plain_list_for_every_set_of_dead() {
        let universe = 10;
        for set in 0_u32..1 << universe {
            let (dead, alive): (Vec<_>, Vec<_>) = (0..universe).partition(|node| set >> node & 1 == 1);
            let survivors = Survivors::new(universe, &dead);
            assert_eq!(survivors.count() as usize, alive.len());
            for (index, &node) in alive.iter().enumerate() {
                assert_eq!(survivors.node(index as u32), node);
                assert_eq!(survivors.index(node), Some(index as u32));
            }
            assert!(dead.iter().all(|&node| survivors.index(node).is_none()));
            assert_eq!(survivors.index(universe), None);
        }
    }
}
