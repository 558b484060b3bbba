//! Who dies when.

use std::collections::HashSet;

use propagation::NodeId;

use crate::random::{Purpose, Stream};
use crate::scenario::{Failures, Scenario, nanos};

/// The failures of a run in the order of their times, in nanoseconds after the steady state.
///
/// Under the exponential law all that would strike within the horizon: the run may end before.
pub fn draw(scenario: &Scenario) -> Vec<(u64, NodeId)> {
    let mut stream = Stream::new(scenario.seed, Purpose::Failures);
    let mut victims = Victims { nodes: scenario.nodes, taken: HashSet::new() };
    let mut list: Vec<_> = match &scenario.failures {
        Failures::Schedule(list) => list.iter().map(|&(node, at)| (nanos(at), node)).collect(),
        Failures::Within { count, span } => {
            let mut times: Vec<_> = (1..*count).map(|_| stream.up_to(nanos(*span).max(1))).collect();
            times.sort_unstable();
            std::iter::once(0).chain(times).map(|at| (at, victims.take(&mut stream))).collect()
        }
        Failures::Exponential { node_mtbf } => {
            let (mut list, mut at) = (Vec::new(), 0.0);
            while at <= scenario.horizon() as f64 && list.len() < scenario.nodes as usize {
                list.push((at as u64, victims.take(&mut stream)));
                // lambda = n / mu_ind, with the n that are left.
                let alive = scenario.nodes as usize - list.len();
                at += stream.exponential(node_mtbf.as_nanos() as f64 / alive.max(1) as f64);
            }
            list
        }
    };
    list.sort_unstable();
    list
}

/// Nodes without repetition, each equally likely.
struct Victims {
    nodes: u32,
    taken: HashSet<NodeId>,
}

impl Victims {
    fn take(&mut self, stream: &mut Stream) -> NodeId {
        // Floyd's way to a sample without repetition would need their number; few are taken of many, as a rule.
        loop {
            let node = stream.below(u64::from(self.nodes)) as NodeId;
            if self.taken.insert(node) {
                return node;
            }
        }
    }
}
