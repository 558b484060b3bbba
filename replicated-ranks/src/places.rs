//! Which process is which replica.
//!
//! The processes are the first replicas of all ranks, then the second ones, then the third ones. Where replicas of a
//! rank would share a node so, the processes are taken node by node in place of their own order. Replicas of a rank are
//! then as many processes apart as there are ranks, and share a node only where that has more processes than the
//! program has ranks.

use replication::replicas::{Degrees, Replica};

/// Processes and replicas.
#[derive(Clone, Debug)]
pub struct Places {
    replicas: Vec<Replica>,
    /// The processes, in the order of [`Degrees::all`].
    processes: Vec<u32>,
    degrees: Degrees,
}

impl Places {
    /// On these nodes, one for each process. `degrees` has as many replicas.
    pub fn new<N: PartialEq>(degrees: Degrees, nodes: &[N]) -> Self {
        let plain = Self::in_order(&degrees, (0..nodes.len() as u32).collect());
        if plain.sharing(nodes).is_none() {
            return plain;
        }
        let first = |process: &u32| nodes.iter().position(|node| *node == nodes[*process as usize]);
        let mut by_node: Vec<u32> = (0..nodes.len() as u32).collect();
        by_node.sort_by_key(first);
        let by_node = Self::in_order(&degrees, by_node);
        if by_node.sharing(nodes).is_none() { by_node } else { plain }
    }

    fn in_order(degrees: &Degrees, processes: Vec<u32>) -> Self {
        let mut replicas = vec![Replica { rank: 0, index: 0 }; processes.len()];
        for (process, replica) in processes.iter().zip(degrees.all()) {
            replicas[*process as usize] = replica;
        }
        Self { replicas, processes, degrees: degrees.clone() }
    }

    /// The replicas of all ranks.
    pub fn degrees(&self) -> &Degrees {
        &self.degrees
    }

    /// The replica that a process is; `None` if there is no such process.
    pub fn replica(&self, process: u32) -> Option<Replica> {
        self.replicas.get(process as usize).copied()
    }

    /// The process that is a replica.
    pub fn process(&self, replica: Replica) -> Option<u32> {
        self.degrees.process(replica).and_then(|place| self.processes.get(place as usize).copied())
    }

    /// A node that has two replicas of one rank: one of them.
    pub fn sharing<N: PartialEq>(&self, nodes: &[N]) -> Option<Replica> {
        let is_second = |(process, replica): &(usize, &Replica)| {
            let others = self.replicas.iter().zip(nodes).take(*process);
            others.into_iter().any(|(other, node)| other.rank == replica.rank && *node == nodes[*process])
        };
        self.replicas.iter().enumerate().find(is_second).map(|(_, replica)| *replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(replicas: u8, nodes: &[char]) -> Places {
        Places::new(Degrees::uniform(nodes.len() as u32 / u32::from(replicas), replicas).unwrap(), nodes)
    }

    #[test]
    fn processes_keep_their_order_where_replicas_are_on_different_nodes() {
        let places = places(2, &['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd']);
        assert_eq!(places.replica(5), Some(Replica { rank: 1, index: 1 }));
        assert_eq!(places.process(Replica { rank: 1, index: 1 }), Some(5));
        assert_eq!((places.replica(8), places.process(Replica { rank: 4, index: 0 })), (None, None));
    }

    #[test]
    fn processes_that_are_dealt_out_in_turn_are_taken_node_by_node() {
        let nodes = ['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b'];
        let places = places(2, &nodes);
        assert_eq!(places.sharing(&nodes), None);
        for process in 0..8 {
            assert_eq!(places.process(places.replica(process).unwrap()), Some(process));
        }
    }

    #[test]
    fn a_node_with_more_processes_than_ranks_is_found() {
        let nodes = ['a', 'a', 'a', 'b'];
        assert_eq!(places(2, &nodes).sharing(&nodes), Some(Replica { rank: 0, index: 1 }));
    }
}
