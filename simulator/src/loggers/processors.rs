//! Jobs wait for a processor of their node. A process does one job at a time.

use std::collections::BTreeMap;

use event_log::logger::round::Address;

/// The processors of all nodes.
#[derive(Debug)]
pub struct Processors {
    /// By node: when each of its processors is free.
    free: Vec<Vec<u64>>,
    /// By process: its node, and when it has done its last job.
    processes: BTreeMap<Address, (usize, u64)>,
}

impl Processors {
    /// Nodes with so many processors each.
    pub fn new(nodes: &[usize]) -> Self {
        let free = nodes.iter().map(|processors| vec![0; *processors]).collect();
        Self { free, processes: BTreeMap::new() }
    }

    /// Puts a process onto a node.
    pub fn place(&mut self, process: Address, node: usize) {
        self.processes.insert(process, (node, 0));
    }

    /// When a job that could begin now begins.
    pub fn begin(&mut self, process: Address, now: u64) -> u64 {
        let (node, done) = self.processes[&process];
        let first = self.free[node].iter().copied().min().unwrap_or(0);
        now.max(done).max(first)
    }

    /// The job has a processor until then.
    pub fn take(&mut self, process: Address, end: u64) {
        let (node, done) = self.processes.get_mut(&process).expect("it has a node");
        *done = end;
        if let Some(first) = self.free[*node].iter_mut().min() {
            *first = end;
        }
    }

    /// The node of a process.
    pub fn node(&self, process: Address) -> usize {
        self.processes[&process].0
    }
}
