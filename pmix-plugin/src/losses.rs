//! Reports each loss to the user, on prterun's standard error.

use std::collections::BTreeSet;
use std::sync::Mutex;

use node_abi::losses::{After, Limits, of_node, of_rank};
use node_abi::segment::FLAG_ALL_READY;
use platform::say::say;
use propagation::{Fact, NodeId, Subject};

use crate::job::Job;
use crate::sync::lock;

/// Ranks that are lost.
static LOST: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Handles a death that `ringwatchd` has reported, in prterun. Deaths caused by the job's end are no losses.
pub fn tell(job: &Job, fact: &Fact) {
    if job.runtime().is_none() || job.is_being_ended() || job.launch.parameters.log_level == "error" {
        return;
    }
    let mut lost = lock(&LOST);
    let parameters = &job.launch.parameters;
    let limits = Limits { timeout: parameters.timeout, stop_timeout: parameters.stop_timeout };
    let line = match fact.subject {
        Subject::Rank { rank, node, reason } if lost.insert(rank) => {
            Some(of_rank(&job.jobs.title_of(rank), &host(job, node), reason, limits, after(job, &lost)))
        }
        Subject::Node { node, reason } => {
            let on_node = job.launch.ranks_of(node).chain(job.jobs.spawned_ranks_of(node));
            let ranks: Vec<u32> = on_node.filter(|rank| !job.has_ended_in_order(*rank) && lost.insert(*rank)).collect();
            let titles: Vec<_> = ranks.iter().map(u32::to_string).collect();
            of_node(&host(job, node), &titles, reason, limits, after(job, &lost))
        }
        _ => None,
    };
    drop(lost);
    line.into_iter().for_each(|line| say(&format!("ringwatch: {line}")));
}

fn host(job: &Job, node: NodeId) -> String {
    job.launch.hosts.get(node).map_or_else(|| format!("node {node}"), ToOwned::to_owned)
}

fn after(job: &Job, lost: &BTreeSet<u32>) -> After {
    if job.segment.flags() & FLAG_ALL_READY == 0 {
        return After::InInit;
    }
    After::GoOn(job.jobs.ranks().into_iter().filter(|rank| !lost.contains(rank) && !job.has_ended(*rank)).count())
}
