//! When the whole job is suspended, which is nobody's failure, without I/O.
//!
//! A batch system stops every process of a job within some hundred milliseconds and lets them go on much later. If the
//! `ringwatchd`s are among them, nobody watches, and afterwards each knows that it was late. If not, they see stopped
//! ranks; but a rank is missed only where others wait for it. So each node tells node 0 that all its living ranks are
//! stopped, after half the time that a rank may be, and again until one runs. While all nodes say so, node 0 answers that
//! the job is suspended, and whoever hears that gives the stopped the whole time anew. One rank alone is no job: the last
//! one that lives, or that has not finalised, is missed by `mpirun`.

use std::collections::BTreeMap;
use std::time::Duration;

use propagation::{NodeId, Time};

use crate::stopped::sampling_interval;

/// Who has all ranks stopped.
#[derive(Debug)]
pub struct Suspension {
    limit: Duration,
    /// At node 0: when each node last said so, and of how many ranks.
    reports: BTreeMap<NodeId, (Time, u32)>,
    next: Time,
}

impl Suspension {
    /// For ranks that may be stopped for `limit`.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, reports: BTreeMap::new(), next: Time::ZERO }
    }

    /// How long the ranks of a node have to be stopped to be reported.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.limit / 2
    }

    /// Whether it is time to look at the ranks of this node.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + sampling_interval(self.limit) / 2;
        }
        due
    }

    /// At node 0: a node says that all its ranks are stopped, so many.
    pub fn report(&mut self, node: NodeId, now: Time, ranks: u32) {
        self.reports.insert(node, (now, ranks));
    }

    /// At node 0: whether all of `nodes` have said so a short while ago, and it is more than one rank.
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
