//! Decides whether the ranks of a job have ringwatch's components on all nodes or on none. No I/O.
//!
//! With the components a rank has other defaults of Open MPI than without, and ranks with different defaults send each
//! other wrong data.
//!
//! In `MPI_Init` the ranks of a node enter a fence of the runtime together, and each has opened its components before.
//! The node's plugin then sends the components of its ranks to prterun's plugin ([`Report`]). It continues the fence at
//! once only if all of them have the components. So no rank leaves `MPI_Init` before each node has reported. If no rank
//! has them, prterun's plugin makes all nodes continue: the user has excluded them ([`Verdict::Without`]).

use std::collections::BTreeMap;

use propagation::NodeId;
use serde::{Deserialize, Serialize};

/// Maximum number of nodes named in a sentence.
const NAMED: usize = 16;

/// The components of one job's ranks on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Namespace of the job.
    pub nspace: String,
    /// The node.
    pub node: NodeId,
    /// Its host.
    pub host: String,
    /// Number of nodes with ranks of this job.
    pub nodes: u32,
    /// Whether there are ranks with the components.
    pub has_served: bool,
    /// Numbers of the ranks without them.
    pub without: Vec<u32>,
}

/// A message between plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// To prterun's node when a daemon starts: this node has a plugin.
    Here,
    /// To prterun's node.
    Report(Report),
    /// From prterun's node: the ranks of this job continue, without the components.
    CarryOn(String),
}

/// The conclusion from the reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rank of a job has the components: these nodes must continue.
    Without(Vec<NodeId>),
    /// Only some ranks have the components: the job ends, with this sentence.
    Mixed(String),
}

/// The reports of all nodes about a job and the jobs that it has spawned.
#[derive(Debug, Default)]
pub struct Tally {
    reports: BTreeMap<String, BTreeMap<NodeId, Report>>,
}

impl Tally {
    /// A tally without reports.
    #[must_use]
    pub const fn new() -> Self {
        Self { reports: BTreeMap::new() }
    }

    /// Adds a report; returns a conclusion, if there is one, once all nodes of its job have reported.
    pub fn take(&mut self, report: Report) -> Option<Verdict> {
        let (nspace, nodes) = (report.nspace.clone(), report.nodes as usize);
        let known = self.reports.entry(nspace.clone()).or_default();
        known.insert(report.node, report);
        if known.len() < nodes {
            return None;
        }
        let own: Vec<NodeId> = known.keys().copied().collect();
        let all = || self.reports.values().flat_map(BTreeMap::values);
        let without: Vec<_> = all().filter(|report| !report.without.is_empty()).collect();
        let in_this_job = without.iter().any(|report| report.nspace == nspace);
        if all().any(|report| report.has_served) && !without.is_empty() {
            Some(Verdict::Mixed(sentence(&without)))
        } else if in_this_job {
            Some(Verdict::Without(own))
        } else {
            None
        }
    }
}

fn sentence(without: &[&Report]) -> String {
    let named = without.iter().take(NAMED).map(|report| {
        let ranks: Vec<_> = report.without.iter().map(u32::to_string).collect();
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("node {} ({}, {noun} {})", report.node, report.host, ranks.join(", "))
    });
    let left = without.len().saturating_sub(NAMED);
    let more = if left > 0 { format!(" and {left} more nodes") } else { String::new() };
    format!(
        "on {}{more} Open MPI does not open the components of ringwatch, and on other nodes it does: install them on every \
         node, or leave them out on all (--mca hook ^ringwatch); the job is ended",
        named.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(nspace: &str, node: NodeId, has_served: bool, without: &[u32]) -> Report {
        let (host, without) = (format!("h{}", node + 1), without.to_vec());
        Report { nspace: nspace.into(), node, host, nodes: 3, has_served, without }
    }

    #[test]
    fn nothing_follows_if_all_have_them() {
        let mut tally = Tally::new();
        assert_eq!([0, 1, 2].map(|node| tally.take(report("a@1", node, true, &[]))), [None, None, None]);
    }

    #[test]
    fn all_continue_if_no_rank_has_them() {
        let mut tally = Tally::new();
        assert_eq!([0, 2].map(|node| tally.take(report("a@1", node, false, &[node]))), [None, None]);
        assert_eq!(tally.take(report("a@1", 4, false, &[1])), Some(Verdict::Without(vec![0, 2, 4])));
        // The same holds for jobs that they spawn.
        assert_eq!([0, 2].map(|node| tally.take(report("a@2", node, false, &[node]))), [None, None]);
        assert_eq!(tally.take(report("a@2", 4, false, &[1])), Some(Verdict::Without(vec![0, 2, 4])));
    }

    #[test]
    fn nodes_that_lack_them_are_named_when_all_have_reported() {
        let mut tally = Tally::new();
        assert_eq!(tally.take(report("a@1", 2, false, &[4, 5])), None);
        assert_eq!(tally.take(report("a@1", 1, true, &[3])), None);
        let Some(Verdict::Mixed(told)) = tally.take(report("a@1", 0, true, &[])) else { panic!("they differ") };
        assert!(told.starts_with("on node 1 (h2, rank 3), node 2 (h3, ranks 4, 5) Open MPI does not open"), "{told}");
    }

    #[test]
    fn a_spawned_job_without_them_does_not_fit_one_with_them() {
        let mut tally = Tally::new();
        (0..3).for_each(|node| assert_eq!(tally.take(report("a@1", node, true, &[])), None));
        (0..2).for_each(|node| assert_eq!(tally.take(report("a@2", node, false, &[7])), None));
        assert!(matches!(tally.take(report("a@2", 2, false, &[8])), Some(Verdict::Mixed(_))));
    }
}
