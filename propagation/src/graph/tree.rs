//! Computes a binomial tree with a proof of completeness; without the proof the circulant graph rescues the broadcast.
//!
//! Blind forwarding needs f + 1 copies per participant to tolerate f crashes: with fewer, all senders to one node may
//! crash. Three messages per participant suffice if silence has a meaning:
//!
//! 1. **Copy**, down the tree. Label 0 is the root; the children of label x are x + 2^j for all 2^j > x. The smallest
//!    jump comes first, because its subtree is the largest: if messages are sent one at a time, the copies arrive
//!    within floor(log2 n) + 1 message times. No label is deeper than its number of set bits.
//! 2. [`Complete`](crate::Message::Complete), up the tree: sent by a leaf at once, by every other label once all its
//!    children have sent it.
//! 3. [`Done`](crate::Message::Done), down the tree: the root has received it from all its children, hence all
//!    participants have the broadcast.
//!
//! A participant that does not learn within [`wait`] that the broadcast is done *rescues* it: it sends copies with
//! [`Route::Rescue`](crate::Route::Rescue) along all its links in the [circulant graph](super::circulant). Each
//! receiver does so, too, unless it knows that the broadcast is done. A death that becomes known meanwhile repairs the
//! tree: the parent sends copies to the children of the dead child, the children report to the nearest living ancestor,
//! and no rescue is needed.
//!
//! **Why all survivors are reached** if only one survivor is. Case 1: that survivor learns that the broadcast is done.
//! Then the root has received reports of all its children, these of theirs, and so on. A node reports only what has
//! arrived, and the children of dead nodes report for themselves. So all survivors have it. Case 2: it does not learn
//! that, and rescues. A survivor that the rescue misses would also be missed in the circulant graph, because each node
//! that gets a rescue copy takes part unless the broadcast is done, in which case all survivors have it. The argument
//! needs neither an order of the copies nor a bound on their times: an unnecessary rescue only costs messages.
//!
//! Corrected trees (Kuettler, Planeta, Bierbaum, Weinhold, Haertig, Hoefler, PPoPP 2019) repair a tree along a ring
//! instead. f crashes can leave gaps of 2^f labels there, a quarter of the participants for the f promised here, and
//! closing a gap takes as many steps; their bounded variants do not promise to reach all survivors.

use std::time::Duration;

/// The children of one of `count` labels, the largest subtree first.
pub fn children(count: u32, label: u32) -> impl Iterator<Item = u32> {
    let first = label.checked_ilog2().map_or(0, |highest| highest + 1);
    (first..u32::BITS).map_while(move |exponent| {
        let child = label.checked_add(1 << exponent)?;
        (child < count).then_some(child)
    })
}

/// The label from which `label` gets its copy; `None` for the root.
pub fn parent(label: u32) -> Option<u32> {
    label.checked_ilog2().map(|highest| label ^ 1 << highest)
}

/// How long a participant waits for [`Done`](crate::Message::Done), if a message takes at most `tau`.
///
/// Each of the three waves takes floor(log2 n) + 1 message times if a node sends one message at a time; a fourth part
/// is for reports that arrive together and are handled one after another.
pub fn wait(count: u32, tau: Duration) -> Duration {
    tau.saturating_mul(4 * (count.max(1).ilog2() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_tree_of_all_labels_no_deeper_than_the_logarithm() {
        for count in 1..=200_u32 {
            let mut reached = vec![0];
            let mut next = 0;
            while next < reached.len() {
                let label = reached[next];
                for child in children(count, label) {
                    assert_eq!(parent(child), Some(label));
                    reached.push(child);
                }
                assert!(label.count_ones() <= count.ilog2());
                next += 1;
            }
            reached.sort_unstable();
            assert_eq!(reached, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn copies_sent_one_at_a_time_arrive_within_the_logarithm_and_one() {
        fn arrival(count: u32, label: u32) -> u32 {
            parent(label).map_or(0, |parent| {
                let turn = children(count, parent).position(|child| child == label).unwrap();
                arrival(count, parent) + turn as u32 + 1
            })
        }
        for count in 1..=300_u32 {
            assert!((0..count).all(|label| arrival(count, label) <= count.ilog2() + 1), "{count}");
        }
    }

    #[test]
    fn the_largest_tree_is_no_problem() {
        assert_eq!(children(u32::MAX, 0).count(), 32);
        assert_eq!(children(u32::MAX, 1 << 31).count(), 0);
        assert_eq!(children(u32::MAX, 3).last(), Some(3 + (1 << 31)));
        assert_eq!(parent(u32::MAX - 1), Some(u32::MAX / 2 - 1));
    }
}
