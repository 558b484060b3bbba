//! Reports each loss to the user, on prterun's standard error, and to the user's program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex};

use node_abi::loss_program::{self, Loss, Runner};
use node_abi::losses::{After, Limits, node_reason, of_node, of_rank, rank_reason};
use node_abi::parameters::{Settings, bad_program};
use node_abi::segment::FLAG_ALL_READY;
use node_abi::segment::replicas::ReplicaOf;
use platform::clock;
use platform::say::say;
use propagation::{Fact, NodeId, Subject};

use crate::job::Job;
use crate::parameters;
use crate::sync::lock;

/// Ranks and nodes that are lost.
static LOST: Mutex<(BTreeSet<u32>, BTreeSet<NodeId>)> = Mutex::new((BTreeSet::new(), BTreeSet::new()));

/// Which processes are which replicas.
static REPLICAS: Mutex<BTreeMap<u32, ReplicaOf>> = Mutex::new(BTreeMap::new());

/// The thread that runs programs; none if the system has none left.
static RUNNER: LazyLock<Option<Runner>> = LazyLock::new(|| Runner::start().ok());

/// Refuses a program that cannot be run.
///
/// # Errors
/// A sentence for the user.
pub fn check(settings: &Settings) -> Result<(), String> {
    match settings.loss_program.as_str() {
        "" => Ok(()),
        path => loss_program::check(path).map(drop).map_err(|why| bad_program(path, &why).to_string()),
    }
}

/// Sentences name these processes as replicas.
pub fn note_replicas(replicas: Vec<(u32, ReplicaOf)>) {
    lock(&REPLICAS).extend(replicas);
}

/// Handles a death that `ringwatchd` has reported, in prterun. Deaths caused by the job's end are no losses.
pub fn tell(job: &Job, fact: &Fact) {
    if job.runtime().is_none() || job.is_being_ended() {
        return;
    }
    let Some(loss) = loss_of(job, fact) else { return };
    if job.launch.parameters.log_level != "error" {
        say(&format!("ringwatch: {}", loss.message));
    }
    run_program(loss);
}

fn loss_of(job: &Job, fact: &Fact) -> Option<Loss> {
    let mut lost = lock(&LOST);
    let (ranks_lost, nodes_lost) = &mut *lost;
    let parameters = &job.launch.parameters;
    let limits = Limits { timeout: parameters.timeout, stop_timeout: parameters.stop_timeout };
    let loss = |kind, node, ranks, reason, message, after| {
        let left = if let After::GoOn(count) = after { Some(count) } else { None };
        let (job, host, time) = (job.launch.nspace.clone(), host(job, node), clock::utc_now());
        Loss { kind, host, node, ranks, reason, message, left, job, time }
    };
    match fact.subject {
        Subject::Rank { rank, node, reason } if ranks_lost.insert(rank) => {
            let after = after(job, ranks_lost);
            let replica = lock(&REPLICAS).get(&rank).copied();
            let message = of_rank(&job.jobs.title_of(rank), replica, &host(job, node), reason, limits, after);
            Some(loss("rank", node, vec![rank], rank_reason(reason), message, after))
        }
        Subject::Node { node, reason } if nodes_lost.insert(node) => {
            let on_node = job.launch.ranks_of(node).chain(job.jobs.spawned_ranks_of(node));
            let ranks: Vec<u32> =
                on_node.filter(|rank| !job.has_ended_in_order(*rank) && ranks_lost.insert(*rank)).collect();
            let replicas = lock(&REPLICAS);
            let title = |rank: &u32| match replicas.get(rank) {
                Some(replica) => format!("{rank} = {replica}"),
                None => rank.to_string(),
            };
            let titles: Vec<_> = ranks.iter().map(title).collect();
            let after = after(job, ranks_lost);
            let message = of_node(&host(job, node), &titles, reason, limits, after)?;
            Some(loss("node", node, ranks, node_reason(reason).to_owned(), message, after))
        }
        _ => None,
    }
}

fn run_program(loss: Loss) {
    let program = parameters::settings().map(|settings| settings.loss_program).unwrap_or_default();
    if program.is_empty() {
        return;
    }
    let what = loss.message.clone();
    if !RUNNER.as_ref().is_some_and(|runner| runner.tell(program.into(), loss)) {
        say(&format!("ringwatch: psensor_ringwatch_loss_program is not run, since too many of it wait: {what}"));
    }
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
