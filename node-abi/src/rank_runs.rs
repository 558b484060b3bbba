//! Encodes the nodes of a job's ranks in few bytes: launchers place ranks by node or in turn, so that most lists are a
//! few runs. For serde's attribute `with`.

use propagation::NodeId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of ranks that can be received.
const MOST_RANKS: u64 = 1 << 26;

/// Successive nodes with equally many successive ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    /// The first node.
    first: NodeId,
    /// Number of nodes.
    nodes: u32,
    /// Number of ranks of each.
    ranks: u32,
}

impl Run {
    /// Whether `next`, a run of one node, continues this one.
    fn takes(&mut self, next: &Self) -> bool {
        let fits = self.ranks == next.ranks && self.first.checked_add(self.nodes) == Some(next.first);
        self.nodes += u32::from(fits);
        fits
    }
}

fn runs(rank_nodes: &[NodeId]) -> Vec<Run> {
    let mut runs = Vec::<Run>::new();
    for same in rank_nodes.chunk_by(|a, b| a == b) {
        let next = Run { first: same[0], nodes: 1, ranks: u32::try_from(same.len()).unwrap_or(u32::MAX) };
        if !runs.last_mut().is_some_and(|last| last.takes(&next)) {
            runs.push(next);
        }
    }
    runs
}

/// Serde's function.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(rank_nodes: &[NodeId], serializer: S) -> Result<S::Ok, S::Error> {
    runs(rank_nodes).serialize(serializer)
}

/// Serde's function.
///
/// # Errors
/// Those of the deserializer, and if the runs are too long.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NodeId>, D::Error> {
    let runs = Vec::<Run>::deserialize(deserializer)?;
    let length = |run: &Run| u64::from(run.nodes).saturating_mul(u64::from(run.ranks));
    let total = runs.iter().map(length).fold(0_u64, u64::saturating_add);
    if total > MOST_RANKS || runs.iter().any(|run| run.first.checked_add(run.nodes).is_none()) {
        return Err(D::Error::custom("a list of ranks is too long"));
    }
    let nodes = runs.into_iter().flat_map(|run| {
        (run.first..run.first + run.nodes).flat_map(move |node| std::iter::repeat_n(node, run.ranks as usize))
    });
    Ok(nodes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
    struct List(#[serde(with = "super")] Vec<NodeId>);

    fn length(list: Vec<NodeId>) -> usize {
        let bytes = postcard::to_stdvec(&List(list.clone())).unwrap();
        assert_eq!(postcard::from_bytes::<List>(&bytes).unwrap().0, list);
        bytes.len()
    }

    #[test]
    fn placements_of_launchers_take_few_bytes() {
        let by_node = (0..1024).flat_map(|node| std::iter::repeat_n(node, 64)).collect();
        let in_turn = (0..64).flat_map(|_| 0..1024).collect();
        assert!(length(by_node) < 10);
        assert!(length(in_turn) < 300);
    }

    #[test]
    fn any_placement_survives() {
        for list in
            [vec![], vec![7], vec![3, 2, 1], vec![0, 0, 1, 1, 2, 5, 5, 6, 6, 0], vec![u32::MAX - 1, u32::MAX - 2]]
        {
            length(list);
        }
    }

    #[test]
    fn a_list_without_end_is_refused() {
        for run in [Run { first: 0, nodes: u32::MAX, ranks: u32::MAX }, Run { first: u32::MAX, nodes: 2, ranks: 1 }] {
            let bytes = postcard::to_stdvec(&vec![run]).unwrap();
            assert!(postcard::from_bytes::<List>(&bytes).is_err());
        }
    }
}
