//! Defines the order of the nodes on the ring, and labels along it.
//!
//! Everything that depends on the order is in this module: the ring itself, and the labels of the broadcast graph, so
//! that neighbours on the ring are also linked by the jumps of +-1.

use std::borrow::Cow;
use std::sync::Arc;

use crate::units::NodeId;

/// The order of the nodes on the ring: the same at all members of a job.
///
/// Nodes keep their ids in every message; only the neighbours depend on the order. The order of the ids, the default,
/// needs no table. Another order is a table of 8 bytes per node, which members of one process share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RingOrder(Option<Arc<Table>>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Table {
    nodes: Vec<NodeId>,
    places: Vec<u32>,
}

impl RingOrder {
    /// The ring that visits the nodes 0 to `nodes.len()` - 1 as listed. Nodes that join later follow in the order of
    /// their ids. `None` if a node is missing or listed twice.
    pub fn new(nodes: Vec<NodeId>) -> Option<RingOrder> {
        let mut places = vec![u32::MAX; nodes.len()];
        for (place, &node) in (0..).zip(&nodes) {
            let slot = places.get_mut(node as usize).filter(|slot| **slot == u32::MAX)?;
            *slot = place;
        }
        Some(RingOrder(Some(Arc::new(Table { nodes, places }))))
    }

    /// The place of a node, counted from 0.
    pub fn place(&self, node: NodeId) -> u32 {
        let table = self.0.as_ref();
        table.and_then(|table| table.places.get(node as usize).copied()).unwrap_or(node)
    }

    /// The node at a place.
    pub fn node(&self, place: u32) -> NodeId {
        let table = self.0.as_ref();
        table.and_then(|table| table.nodes.get(place as usize).copied()).unwrap_or(place)
    }

    /// Number of nodes in the table; `None` for the order of the ids, which fits every number.
    pub fn named(&self) -> Option<u32> {
        self.0.as_ref().map(|table| table.nodes.len() as u32)
    }

    /// The places of a list of nodes, ascending. The order of the ids needs no allocation.
    fn places<'a>(&self, nodes: &'a [NodeId]) -> Cow<'a, [u32]> {
        if self.0.is_none() {
            return Cow::Borrowed(nodes);
        }
        let mut places: Vec<_> = nodes.iter().map(|&node| self.place(node)).collect();
        places.sort_unstable();
        Cow::Owned(places)
    }

    /// The nearest node after `of` on a ring of `universe` nodes that is not `dead`; `None` if there is no other.
    pub(crate) fn successor(&self, universe: u32, of: NodeId, dead: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let of = self.place(of);
        (of + 1..universe).chain(0..of).map(|place| self.node(place)).find(|&node| !dead(node))
    }

    /// The nearest node before `of` on a ring of `universe` nodes that is not `dead`; `None` if there is no other.
    pub(crate) fn predecessor(&self, universe: u32, of: NodeId, dead: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let of = self.place(of);
        (0..of).rev().chain((of + 1..universe).rev()).map(|place| self.node(place)).find(|&node| !dead(node))
    }
}

/// The participants of a broadcast, labelled 0 to n-1 in ring order from the source.
pub(crate) struct Participants<'a> {
    order: &'a RingOrder,
    universe: u32,
    dead: Cow<'a, [u32]>,
    source: u32,
}

impl<'a> Participants<'a> {
    /// All nodes except `dead`, which is strictly ascending and below `universe`. `None` if the source is dead or
    /// unknown.
    pub(crate) fn new(order: &'a RingOrder, universe: u32, dead: &'a [NodeId], source: NodeId) -> Option<Self> {
        let dead = order.places(dead);
        let source = Survivors::new(universe, &dead).index(order.place(source))?;
        Some(Participants { order, universe, dead, source })
    }

    fn survivors(&self) -> Survivors<'_> {
        Survivors::new(self.universe, &self.dead)
    }

    /// Number of participants (n).
    pub(crate) fn count(&self) -> u32 {
        self.survivors().count()
    }

    /// The label of a node; `None` if it takes no part.
    pub(crate) fn label(&self, node: NodeId) -> Option<u32> {
        let count = self.count();
        let index = self.survivors().index(self.order.place(node))?;
        Some(if index >= self.source { index - self.source } else { index + (count - self.source) })
    }

    /// The node with a label below n.
    pub(crate) fn node(&self, label: u32) -> NodeId {
        let to_wrap = self.count() - self.source;
        let index = if label < to_wrap { self.source + label } else { label - to_wrap };
        self.order.node(self.survivors().place(index))
    }
}

/// The places of a ring without those of some dead nodes, numbered without holes.
///
/// Uses binary search in the list of the dead: its cost does not grow with the size of the ring.
#[derive(Clone, Copy)]
struct Survivors<'a> {
    universe: u32,
    dead: &'a [u32],
}

impl<'a> Survivors<'a> {
    /// `dead` is strictly ascending and below `universe`.
    fn new(universe: u32, dead: &'a [u32]) -> Self {
        debug_assert!(dead.is_sorted_by(|a, b| a < b));
        debug_assert!(dead.last().is_none_or(|&last| last < universe));
        Survivors { universe, dead }
    }

    /// Number of survivors.
    fn count(self) -> u32 {
        self.universe - self.dead.len() as u32
    }

    /// The number of a place: the number of survivors before it. `None` if no survivor is there.
    fn index(self, place: u32) -> Option<u32> {
        match self.dead.binary_search(&place) {
            Err(dead_before) if place < self.universe => Some(place - dead_before as u32),
            _ => None,
        }
    }

    /// The place of the survivor with this number, which is below [`count`](Self::count).
    fn place(self, index: u32) -> u32 {
        // The i-th dead node has dead[i] - i survivors before it, which never falls with i. Dead nodes with at most
        // `index` survivors before them precede the wanted place.
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
        assert_eq!(RingOrder::default().successor(6, 2, dead), Some(5));
        assert_eq!(RingOrder::default().successor(6, 5, dead), Some(1));
        assert_eq!(RingOrder::default().predecessor(6, 5, dead), Some(2));
        assert_eq!(RingOrder::default().predecessor(6, 1, dead), Some(5));
    }

    #[test]
    fn the_last_survivor_has_no_neighbours() {
        assert_eq!(RingOrder::default().successor(3, 1, |_| true), None);
        assert_eq!(RingOrder::default().predecessor(3, 1, |_| true), None);
        assert_eq!(RingOrder::default().successor(1, 0, |_| false), None);
    }

    #[test]
    fn numbering_agrees_with_a_plain_list_for_every_set_of_dead() {
        let universe = 10;
        for set in 0_u32..1 << universe {
            let (dead, alive): (Vec<_>, Vec<_>) = (0..universe).partition(|node| set >> node & 1 == 1);
            let survivors = Survivors::new(universe, &dead);
            assert_eq!(survivors.count() as usize, alive.len());
            for (index, &node) in alive.iter().enumerate() {
                assert_eq!(survivors.place(index as u32), node);
                assert_eq!(survivors.index(node), Some(index as u32));
            }
            assert!(dead.iter().all(|&node| survivors.index(node).is_none()));
            assert_eq!(survivors.index(universe), None);
        }
    }

    #[test]
    fn another_order_is_a_permutation_that_newcomers_follow() {
        assert_eq!(RingOrder::new(vec![0, 2, 2]), None);
        assert_eq!(RingOrder::new(vec![0, 1, 3]), None);
        let order = RingOrder::new(vec![2, 0, 3, 1]).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|node| order.place(node)), [1, 3, 0, 2, 4]);
        assert_eq!([0, 1, 2, 3, 4].map(|place| order.node(place)), [2, 0, 3, 1, 4]);
        assert_eq!(order.successor(4, 1, |_| false), Some(2));
        assert_eq!(order.successor(5, 1, |_| false), Some(4));
        assert_eq!(order.predecessor(4, 3, |node| node == 0), Some(2));
    }

    #[test]
    fn labels_count_from_the_source_in_ring_order() {
        let order = RingOrder::new(vec![2, 0, 3, 1]).unwrap();
        let participants = Participants::new(&order, 5, &[3], 0).unwrap();
        // On the ring: 2 0 1 4.
        assert_eq!((0..participants.count()).map(|label| participants.node(label)).collect::<Vec<_>>(), [0, 1, 4, 2]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|node| participants.label(node)),
            [Some(0), Some(1), Some(3), None, Some(2), None]
        );
        assert!(Participants::new(&order, 5, &[3], 3).is_none());
    }
}
