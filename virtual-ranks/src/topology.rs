//! Topologies of communicators: with whom a member exchanges data.

use std::ffi::c_int;

use openmpi_internals::layout::mpi::MPI_PROC_NULL;

use crate::grid::Grid;

/// A topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// All members lie in a grid.
    Grid(Grid),
    /// All members know the edges of all.
    Graph(Graph),
    /// Each member knows its own edges.
    Edges(Edges),
}

/// The edges of all members (MPI 4.1, 8.5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where the edges of each member end.
    pub index: Vec<c_int>,
    /// Neighbours of all members, one after the other.
    pub edges: Vec<c_int>,
}

/// The edges of one member (MPI 4.1, 8.5.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Members from which data come, and their weights.
    pub sources: Vec<(c_int, c_int)>,
    /// Members to which data go, and their weights.
    pub destinations: Vec<(c_int, c_int)>,
    /// Whether the weights mean something.
    pub is_weighted: bool,
}

/// With whom a member exchanges data; `MPI_PROC_NULL` at a border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// From whom data come.
    pub sources: Vec<c_int>,
    /// To whom data go.
    pub destinations: Vec<c_int>,
    /// Places of the destinations, in the order in which sources await their data.
    pub order: Vec<usize>,
}

impl Graph {
    /// `None` if edges end before they begin, or lead to somebody who is none of so many members.
    pub fn new(index: &[c_int], edges: &[c_int]) -> Option<Self> {
        let is_sorted = index.iter().try_fold(0, |last, end| (*end >= last).then_some(*end)).is_some();
        let members = 0..index.len() as c_int;
        let fits = is_sorted && edges.iter().all(|edge| members.contains(edge));
        fits.then(|| Self { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// The neighbours of a member; nobody where there is no such member.
    pub fn neighbours(&self, member: usize) -> &[c_int] {
        let end = |member: usize| self.index.get(member).map_or(0, |end| *end as usize);
        let start = member.checked_sub(1).map_or(0, end);
        self.edges.get(start..end(member)).unwrap_or_default()
    }
}

impl Edges {
    /// Those of one member among all edges: from, to, weight.
    pub fn of(member: c_int, all: &[[c_int; 3]], is_weighted: bool) -> Self {
        let named = |place: usize, other: usize| -> Vec<(c_int, c_int)> {
            all.iter().filter(|edge| edge[place] == member).map(|edge| (edge[other], edge[2])).collect()
        };
        Self { sources: named(1, 0), destinations: named(0, 1), is_weighted }
    }
}

impl Topology {
    /// The grid, if it is one.
    pub fn grid(&self) -> Option<&Grid> {
        if let Self::Grid(grid) = self { Some(grid) } else { None }
    }

    /// With whom a member exchanges data.
    ///
    /// Where a member is a neighbour several times, what it sends in one direction of a grid is received from the
    /// opposite one (MPI 4.1, 8.6), and what it sends along edges is received in their order.
    pub fn neighbours(&self, member: usize) -> Neighbours {
        let named = |edges: &[(c_int, c_int)]| edges.iter().map(|(member, _)| *member).collect();
        match self {
            Self::Grid(grid) => {
                let dimensions = 0..grid.dims.len();
                let both = |dimension| <[c_int; 2]>::from(grid.shift(member, dimension, 1));
                let all: Vec<c_int> = dimensions.clone().flat_map(both).collect();
                let order = dimensions.flat_map(|dimension| [2 * dimension + 1, 2 * dimension]).collect();
                Neighbours { sources: all.clone(), destinations: all, order }
            }
            Self::Graph(graph) => {
                let all = graph.neighbours(member).to_vec();
                Neighbours { sources: all.clone(), order: (0..all.len()).collect(), destinations: all }
            }
            Self::Edges(edges) => Neighbours {
                sources: named(&edges.sources),
                destinations: named(&edges.destinations),
                order: (0..edges.destinations.len()).collect(),
            },
        }
    }
}

/// A member, if it is one.
pub fn somebody(member: c_int) -> Option<usize> {
    usize::try_from(member).ok().filter(|_| member != MPI_PROC_NULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_of_a_graph_has_its_own_neighbours() {
        let graph = Graph::new(&[2, 3, 3], &[1, 2, 0]).unwrap();
        assert_eq!((0..4).map(|member| graph.neighbours(member)).collect::<Vec<_>>(), [&[1, 2][..], &[0], &[], &[]]);
        assert_eq!(Graph::new(&[2, 1], &[0, 0]), None);
        assert_eq!(Graph::new(&[1], &[1]), None);
    }

    #[test]
    fn edges_that_anybody_has_named_are_those_of_their_ends() {
        let all = [[0, 1, 5], [2, 1, 6], [1, 0, 7]];
        let expected = Edges { sources: vec![(0, 5), (2, 6)], destinations: vec![(0, 7)], is_weighted: true };
        assert_eq!(Edges::of(1, &all, true), expected);
        assert_eq!(Topology::Edges(expected).neighbours(1).sources, [0, 2]);
    }

    /// Members 0 and 1 are neighbours on both sides of each other.
    #[test]
    fn what_is_sent_to_one_side_of_a_ring_is_received_from_the_other() {
        let ring = Topology::Grid(Grid::new(&[2], &[1]).unwrap());
        let [zero, one] = [0, 1].map(|member| ring.neighbours(member));
        // In the order of sending: what 0 sends to the right is the first that 1 receives, which comes from its left.
        assert_eq!((zero.order.as_slice(), one.sources.as_slice()), (&[1, 0][..], &[0, 0][..]));
    }
}
