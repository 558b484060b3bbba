//! Who tests whom: all each other, or VCube.
//!
//! With VCube (Duarte, Bona and Ruoso 2014) a process is tested by the first member of each of its log2 N clusters, so
//! that there are at most N log2 N tests in an interval. All clusters have their turn in each interval here; in VCube
//! one has.

use crate::cluster::{cluster, dimension};
use crate::group::Group;
use crate::units::Rank;

/// A test assignment. Only members test; everybody is tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Assignment {
    /// Each member tests all others, as in the paper.
    #[default]
    AllToAll,
    /// The first member of each cluster of a process tests it.
    VCube,
}

impl Assignment {
    /// Whom a member tests, of `count` processes.
    #[must_use]
    pub fn targets(self, me: Rank, count: u32, group: &Group) -> Vec<Rank> {
        match self {
            Assignment::AllToAll => (0..count).filter(|rank| *rank != me).collect(),
            Assignment::VCube => {
                let in_clusters = (1..=dimension(count)).flat_map(|s| cluster(me, s).map(move |j| (s, j)));
                let is_mine = |(s, j): &(u32, Rank)| *j < count && tester(*j, *s, group) == Some(me);
                in_clusters.filter(is_mine).map(|(_, j)| j).collect()
            }
        }
    }

    /// Who tests this process: they vote on its return.
    #[must_use]
    pub fn testers(self, target: Rank, count: u32, group: &Group) -> Group {
        match self {
            Assignment::AllToAll => Group::of(count, group.iter().filter(|rank| *rank != target)),
            Assignment::VCube => Group::of(count, (1..=dimension(count)).filter_map(|s| tester(target, s, group))),
        }
    }
}

/// The first member of cluster `s` of a process.
fn tester(of: Rank, s: u32, group: &Group) -> Option<Rank> {
    cluster(of, s).find(|rank| group.contains(*rank))
}
