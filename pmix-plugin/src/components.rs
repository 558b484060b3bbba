//! Ensures that the ranks of all nodes have ringwatch's components, or none: see [`node_abi::components`].

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

use node_abi::components::{Report, Tally, Verdict, Word};
use node_abi::launch::encode;
use node_abi::segment::Phase;
use platform::say::host;
use propagation::NodeId;
use prte_hooks::Runtime;

use crate::connections::Process;
use crate::job::Job;
use crate::sync::lock;

/// Jobs on which this node has reported, with fences that wait for the answer.
static REPORTED: Mutex<BTreeMap<String, Vec<usize>>> = Mutex::new(BTreeMap::new());
/// Used in prterun.
static TALLY: Mutex<Tally> = Mutex::new(Tally::new());

/// Handles a fence that all processes of this node have entered; returns whether it is held and continued later. In
/// PMIx's own thread.
pub fn hold_fence(job: &Job, runtime: &dyn Runtime, id: usize, processes: &[Process]) -> bool {
    let [whole] = processes else { return false };
    let Some(nspace) = whole.whole_namespace().filter(|_| job.launch.ranks_register) else { return false };
    let mut reported = lock(&REPORTED);
    if reported.contains_key(nspace) {
        return false;
    }
    let Some(report) = report(job, nspace) else { return false };
    let holds = !report.without.is_empty();
    reported.insert(nspace.to_owned(), if holds { vec![id] } else { Vec::new() });
    drop(reported);
    // Before the runtime learns of the fence.
    tell(runtime, 0, &Word::Report(report));
    holds
}

/// The components of a job's ranks on this node; `None` if a rank has not opened them yet, or the program has no MPI.
fn report(job: &Job, nspace: &str) -> Option<Report> {
    let rank_nodes = job.rank_nodes_of(nspace)?;
    let (mut nodes, ranks) = (rank_nodes.iter().map(|(_, node)| *node).collect::<Vec<NodeId>>(), rank_nodes.iter());
    nodes.sort_unstable();
    nodes.dedup();
    let (mut has_served, mut without) = (false, Vec::new());
    for (rank, _) in ranks.filter(|(_, node)| *node == job.me) {
        match job.segment.occupant(job.segment.slot_of(*rank)?).1 {
            Phase::Unknown => return None,
            Phase::Unserved => without.push(*rank),
            _ => has_served = true,
        }
    }
    let nodes = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    Some(Report { nspace: nspace.to_owned(), node: job.me, host: host(), nodes, has_served, without })
}

/// Handles a message of a plugin, on another node or this one. In PRRTE's own thread.
pub fn hear(job: &Job, runtime: &dyn Runtime, from: NodeId, word: Word) {
    match word {
        Word::Report(report) if job.me == 0 && report.node == from => {
            let nspace = report.nspace.clone();
            match lock(&TALLY).take(report) {
                Some(Verdict::Mixed(sentence)) => job.end(&sentence),
                Some(Verdict::Without(nodes)) => {
                    nodes.into_iter().for_each(|node| tell(runtime, node, &Word::CarryOn(nspace.clone())));
                }
                None => {}
            }
        }
        Word::CarryOn(nspace) if from == 0 => {
            let held = lock(&REPORTED).get_mut(&nspace).map(std::mem::take).unwrap_or_default();
            for id in held {
                // SAFETY: a held fence, continued once.
                unsafe { c_shims::pmix::rw_pmix_fence(id as *mut c_void) };
            }
        }
        _ => {}
    }
}

/// Sends a message to the plugin of a node.
pub fn tell(runtime: &dyn Runtime, node: NodeId, word: &Word) {
    if let Ok(bytes) = encode(word) {
        runtime.tell(node, &bytes);
    }
}
