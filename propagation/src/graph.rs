//! Who forwards a broadcast to whom.
//!
//! The participants are all nodes but those in the notice's list of dead. They are labelled 0 to n-1 in ring
//! order from the source. With k = floor(log2 n) the paper (section 2.2) broadcasts twice over a hypercube of
//! 2^k labels: once over the labels j and once over the labels (n - j) mod n, for 0 <= j < 2^k. The links of
//! the two together are those of a circulant graph with the jumps +-2^j, 0 <= j < k, and that is what this
//! module builds: on the first reception every participant, whatever its label, forwards along all its jumps
//! but back to the node the copy came from and to the source. Labels from 2^k on need no special treatment,
//! for the second hypercube contains them, counted from behind.
//!
//! - **Messages:** at most 2k copies per participant, each answered by one acknowledgement.
//! - **Depth:** every label is a sum of at most floor((k + 3) / 2) jumps of either direction.
//! - **Resilience:** the paper promises that k-1 participants may crash during the broadcast. The circulant
//!   graph does better: it stays connected without any 2k-2 of its nodes, which the tests check up to n = 16.

use crate::NodeId;
use crate::ring::Survivors;

/// The nodes that `of` forwards a broadcast of `source` to, the farthest jumps first, because they have the
/// longest way to go on from there.
///
/// `dead` is the strictly ascending list in the notice, below `universe`. The result is empty if `source` or
/// `of` is no participant. Takes O(log n log |dead|) time and at most 64 entries.
pub fn neighbours(universe: u32, dead: &[NodeId], source: NodeId, of: NodeId) -> Vec<NodeId> {
    let survivors = Survivors::new(universe, dead);
    let count = u64::from(survivors.count());
    // The labels are the survivors' numbers turned by that of the source; a jump is the same in both, so only
    // the number of `of` matters. The source merely has to be one of the participants.
    let (Some(_), Some(index)) = (survivors.index(source), survivors.index(of)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for exponent in (0..count.ilog2()).rev() {
        let jump = 1 << exponent;
        for target in [u64::from(index) + jump, u64::from(index) + count - jump] {
            let node = survivors.node((target % count) as u32);
            // Jumps of both directions meet where two powers of two add up to n.
            if !found.contains(&node) {
                found.push(node);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Alive in ring order: 0 1 4 5 6 8 9 10 11; jumps of 4, 2, 1 from 1.
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
