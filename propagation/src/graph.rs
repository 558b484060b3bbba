//! Computes the graph of a broadcast: the nodes to which each participant forwards.
//!
//! The participants are the nodes of the notice's universe except those in its list of dead. They are labelled 0 to n-1
//! in ring order from the source; k = floor(log2 n). A [`Route`] is a function of n and the label, so that neither a
//! table nor any state beyond the notice is needed, and all participants compute the same.
//!
//! | [`Strategy`](crate::Strategy) | messages per participant | hops | reaches all survivors though ... crash |
//! |---|---|---|---|
//! | [`Circulant`](circulant) | up to 2k, or 4k with acknowledgements | at most (k + 3) / 2 | 2k - 2 |
//! | [`Tree`](tree) | 3, with or without loss | at most k | 2k - 2, then with up to 2k more messages each |
//!
//! The survivors are the participants that stay alive. The guarantee holds if one of them ever received a copy: a
//! source that crashes before its first copy has arrived has sent nothing. A crash may occur at any time, also between
//! two copies. The paper requires k - 1; for n <= 3, where 2k - 2 is 0, nothing needs to be forwarded.

pub mod circulant;
pub mod tree;

use crate::message::{Notice, Route};
use crate::ring::{Participants, RingOrder};
use crate::units::NodeId;

/// The nodes to which `of` forwards a broadcast of `source` along the circulant graph of a ring in the order of the
/// ids. The farthest jumps come first, because their receivers have the longest paths ahead.
///
/// `dead` is the strictly ascending list in the notice, below `universe`. The result is empty if `source` or `of` is no
/// participant. Takes O(log n log |dead|) time and at most 62 entries.
pub fn neighbours(universe: u32, dead: &[NodeId], source: NodeId, of: NodeId) -> Vec<NodeId> {
    let (order, mut found) = (RingOrder::default(), Vec::new());
    if let Some(participants) = Participants::new(&order, universe, dead, source) {
        append(&participants, Route::Circulant, of, &mut found);
    }
    found
}

/// The nodes to which `of` forwards a copy of this notice, if all of them are alive. Empty if `of` is no participant.
pub fn targets(order: &RingOrder, notice: &Notice, of: NodeId) -> Vec<NodeId> {
    let mut found = Vec::new();
    append_targets(order, notice, of, &mut found);
    found
}

/// Appends the [`targets`] to `found`, which allocates only if its capacity does not suffice.
pub fn append_targets(order: &RingOrder, notice: &Notice, of: NodeId, found: &mut Vec<NodeId>) {
    if let Some(participants) = Participants::new(order, notice.universe, &notice.dead, notice.source) {
        append(&participants, notice.route, of, found);
    }
}

fn append(participants: &Participants, route: Route, of: NodeId, found: &mut Vec<NodeId>) {
    let (Some(label), count) = (participants.label(of), participants.count()) else {
        return;
    };
    match route {
        Route::Circulant | Route::Rescue => {
            found.reserve(2 * count.ilog2() as usize);
            found.extend(circulant::neighbours(count, label).map(|label| participants.node(label)));
        }
        Route::Tree => found.extend(tree::children(count, label).map(|label| participants.node(label))),
    }
}

/// The nodes above `of` in the tree of this notice, its parent first.
pub(crate) fn ancestors(order: &RingOrder, notice: &Notice, of: NodeId) -> Vec<NodeId> {
    let Some(participants) = Participants::new(order, notice.universe, &notice.dead, notice.source) else {
        return vec![];
    };
    let parent = |&label: &u32| tree::parent(label);
    let labels = std::iter::successors(participants.label(of).and_then(tree::parent), parent);
    labels.map(|label| participants.node(label)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{NodeReason, Subject};

    /// A ring in some order, and a notice of one of the participants.
    fn any_notice() -> impl Strategy<Value = (RingOrder, Notice)> {
        let route = prop::sample::select(vec![Route::Circulant, Route::Tree, Route::Rescue]);
        let ring = (1..200_u32).prop_flat_map(|universe| {
            let shuffled = Just((0..universe).collect::<Vec<_>>()).prop_shuffle();
            let order = prop_oneof![Just(None), shuffled.prop_map(RingOrder::new)];
            (Just(universe), order, 0..universe, btree_set(0..universe, 0..20))
        });
        (ring, route).prop_map(|((universe, order, source, mut dead), route)| {
            dead.remove(&source);
            let subject = Subject::Node { node: 0, reason: NodeReason::Silent };
            let (dead, reasons, suspector) = (dead.into_iter().collect(), vec![], None);
            let notice = Notice { source, incarnation: 0, seq: 0, subject, suspector, dead, reasons, universe, route };
            (order.unwrap_or_default(), notice)
        })
    }

    proptest! {
        /// Each participant's result is consistent with those of the others: each receiver knows its sender, all are
        /// reached, and no dead node is included.
        #[test]
        fn all_participants_compute_the_same_graph((order, notice) in any_notice()) {
            let links: Vec<_> = (0..notice.universe).map(|of| targets(&order, &notice, of)).collect();
            let (mut from, mut reached) = (vec![vec![]; links.len()], vec![notice.source]);
            (0..).zip(&links).for_each(|(of, to)| to.iter().for_each(|&to| from[to as usize].push(of)));
            for next in 0..links.len() - notice.dead.len() {
                prop_assert!(next < reached.len(), "only {reached:?} are reached");
                let copies = links[reached[next] as usize].iter().copied();
                reached.extend(copies.filter(|to| !reached.contains(to)).collect::<Vec<_>>());
            }
            for &of in &reached {
                let mut expected = match notice.route {
                    Route::Tree => ancestors(&order, &notice, of).into_iter().take(1).collect(),
                    Route::Circulant | Route::Rescue => links[of as usize].clone(),
                };
                expected.sort_unstable();
                prop_assert_eq!(&from[of as usize], &expected, "copies for {}", of);
            }
            for &dead in &notice.dead {
                prop_assert!(links[dead as usize].is_empty() && !reached.contains(&dead));
            }
        }
    }

    /// The participants that a broadcast of node 0 reaches while those in `crashed` forward nothing, and the
    /// largest number of hops.
    fn reached(universe: u32, dead: &[NodeId], crashed: u32) -> (u32, u32) {
        let (mut reached, mut wave, mut hops) = (1_u32, vec![0], 0);
        loop {
            let mut next = Vec::new();
            for node in wave {
                for to in neighbours(universe, dead, 0, node) {
                    if (reached | crashed) >> to & 1 == 0 {
                        reached |= 1 << to;
                        next.push(to);
                    }
                }
            }
            if next.is_empty() {
                return (reached, hops);
            }
            (wave, hops) = (next, hops + 1);
        }
    }

    #[test]
    fn every_live_participant_is_reached_whatever_2k_minus_2_others_crash() {
        for n in 2..=16_u32 {
            let k = n.ilog2();
            let tolerated = (k - 1).max(2 * k - 2);
            for crashed in (0..1_u32 << n).step_by(2).filter(|set| set.count_ones() <= tolerated) {
                let alive = ((1 << n) - 1) & !crashed;
                assert_eq!(reached(n, &[], crashed).0, alive, "n = {n}, crashed {crashed:b}");
            }
        }
    }

    #[test]
    fn depth_is_about_half_the_logarithm() {
        for n in 2..=31_u32 {
            assert!(reached(n, &[], 0).1 <= (n.ilog2() + 3) / 2, "n = {n}");
        }
    }

    #[test]
    fn links_go_both_ways_and_jump_over_the_dead() {
        let dead = [2, 3, 7];
        let universe = 12;
        let alive: Vec<_> = (0..universe).filter(|node| !dead.contains(node)).collect();
        for &a in &alive {
            let links = neighbours(universe, &dead, 5, a);
            assert!(links.len() <= 2 * alive.len().ilog2() as usize);
            for b in links {
                assert!(b != a && alive.contains(&b));
                assert!(neighbours(universe, &dead, 5, b).contains(&a));
            }
        }
        // Survivors in ring order: 0 1 4 5 6 8 9 10 11; jumps of 4, 2, 1 from 1.
        assert_eq!(neighbours(universe, &dead, 5, 1), [8, 9, 5, 11, 4, 0]);
    }

    #[test]
    fn all_participants_compute_the_same_graph_whoever_is_the_source() {
        let dead = [1, 4];
        for of in [0, 2, 3, 5, 6, 7, 8] {
            let from_zero = neighbours(9, &dead, 0, of);
            assert!([2, 3, 5].iter().all(|&source| neighbours(9, &dead, source, of) == from_zero));
        }
    }

    #[test]
    fn outsiders_have_no_neighbours() {
        assert!(neighbours(1, &[], 0, 0).is_empty());
        assert!(neighbours(4, &[1], 0, 1).is_empty());
        assert!(neighbours(4, &[1], 1, 0).is_empty());
        assert!(neighbours(2, &[1], 0, 0).is_empty());
        assert!(neighbours(4, &[], 0, 9).is_empty());
    }

    #[test]
    fn the_largest_ring_is_no_problem() {
        let links = neighbours(u32::MAX, &[7, 8], 0, u32::MAX - 1);
        assert_eq!(links.len(), 62);
    }
}
