//! Ports of nodes, and delays.

use crate::replication::costs::Costs;

/// Time of a message between processes of one node, in nanoseconds.
const WITHIN: u64 = 1_000;

/// The ports of all nodes.
#[derive(Debug)]
pub struct Network {
    costs: Costs,
    /// By node: when its ports are free, for what leaves and for what comes.
    free: Vec<(f64, f64)>,
}

impl Network {
    /// For so many processes.
    pub fn new(costs: Costs, processes: usize) -> Self {
        Self { costs, free: vec![(0.0, 0.0); processes.div_ceil(costs.per_node as usize)] }
    }

    fn node(&self, process: usize) -> usize {
        process / self.costs.per_node as usize
    }

    fn time(&self, bytes: u64) -> f64 {
        bytes as f64 * self.costs.per_byte
    }

    /// Whether two processes are on one node.
    pub fn is_within(&self, from: usize, to: usize) -> bool {
        self.node(from) == self.node(to)
    }

    /// When the first byte of a message that leaves a process now is at the port of its receiver.
    pub fn leave(&mut self, from: usize, to: usize, bytes: u64, now: u64) -> u64 {
        if self.is_within(from, to) {
            return now + WITHIN;
        }
        let (node, time) = (self.node(from), self.time(bytes));
        let begin = self.free[node].0.max(now as f64);
        self.free[node].0 = begin + time;
        begin as u64 + self.costs.latency
    }

    /// When the last byte of a message whose first one is at the port of its receiver now has come.
    pub fn come(&mut self, to: usize, bytes: u64, now: u64) -> u64 {
        let (node, time) = (self.node(to), self.time(bytes));
        let end = self.free[node].1.max(now as f64) + time;
        self.free[node].1 = end;
        end as u64
    }
}
