//! Detects that the whole job is suspended, which is no failure. No I/O.
//!
//! A batch system stops every process of a job within some hundred milliseconds and continues them much later. If the
//! `ringwatchd`s are among them, no process watches, and afterwards each detects that it was late. Otherwise they see
//! stopped ranks; but a stopped rank matters only if others wait for it. So each node reports to node 0 that all its
//! living ranks are stopped, after half the stop limit, and repeats it until one runs. While all nodes report that,
//! node 0 answers that the job is suspended, and each receiver restarts the limit of stopped ranks. A single rank is no
//! job: mpirun waits for the last rank that lives, or has not finalised.

use std::collections::BTreeMap;
use std::time::Duration;

use propagation::{NodeId, Time};

use crate::detector::stopped::sampling_interval;

/// Reports of nodes whose ranks are all stopped.
#[derive(Debug)]
pub struct Suspension {
    limit: Duration,
    /// At node 0: the time of each node's last report, and its number of ranks.
    reports: BTreeMap<NodeId, (Time, u32)>,
    next: Time,
}

impl Suspension {
    /// For ranks that may be stopped for `limit`.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, reports: BTreeMap::new(), next: Time::ZERO }
    }

    /// How long the ranks of a node must be stopped before a report.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.limit / 2
    }

    /// Whether the ranks of this node must be checked.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + sampling_interval(self.limit) / 2;
        }
        due
    }

    /// At node 0: handles a node's report that all its ranks, this number, are stopped.
    pub fn report(&mut self, node: NodeId, now: Time, ranks: u32) {
        self.reports.insert(node, (now, ranks));
    }

    /// At node 0: whether all of `nodes` have recently reported that, with more than one rank.
    pub fn holds(&self, nodes: impl IntoIterator<Item = NodeId>, now: Time) -> bool {
        let fresh = |node: NodeId| {
            let (at, ranks) = self.reports.get(&node)?;
            (now.saturating_sub(*at) < self.span()).then_some(u64::from(*ranks))
        };
        nodes.into_iter().map(fresh).sum::<Option<u64>>().is_some_and(|ranks| ranks > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_if_every_node_says_so_and_says_so_again_the_job_is_suspended() {
        let at = Duration::from_millis;
        let mut suspension = Suspension::new(at(2000));
        suspension.report(1, at(1000), 2);
        assert!(!suspension.holds([1, 2], at(1000)));
        suspension.report(2, at(1300), 2);
        assert!(suspension.holds([1, 2], at(1300)));
        assert!(suspension.holds([1, 2], at(1999)));
        assert!(!suspension.holds([1, 2], at(2000)), "node 1 has not said so for a second");
        suspension.report(1, at(2000), 1);
        suspension.report(2, at(2000), 0);
        assert!(!suspension.holds([1, 2], at(2000)), "it is one rank");
        assert!(suspension.is_due(at(5)) && !suspension.is_due(at(6)) && suspension.is_due(at(130)));
    }
}
