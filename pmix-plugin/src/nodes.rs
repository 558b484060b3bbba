//! Records the nodes that have a plugin, and the names of their hosts.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::Mutex;

use node_abi::hosts::Hosts;
use node_abi::versions::RELEASE;
use propagation::NodeId;
use prte_hooks::Runtime;

use crate::sync::lock;

/// Daemons whose plugin has reported to prterun.
static HERE: Mutex<BTreeSet<NodeId>> = Mutex::new(BTreeSet::new());

/// Notes in prterun that a daemon has a plugin.
pub fn is_here(daemon: NodeId) {
    lock(&HERE).insert(daemon);
}

/// Refuses a job on nodes without a plugin for their PMIx: their ranks would have different defaults.
///
/// # Errors
/// A sentence for the user.
pub fn require_plugins(hosts: &Hosts, universe: u32) -> Result<(), String> {
    let here = lock(&HERE);
    let lacking: Vec<NodeId> = (1..universe).filter(|node| !here.contains(node)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let (named, verb) = (hosts.nodes(&lacking), if lacking.len() == 1 { "has" } else { "have" });
    Err(format!(
        "{named} {verb} no ringwatch that fits its PMIx and PRRTE, or a runtime daemon that is not called prted: install release {RELEASE} on every node"
    ))
}

/// The hosts of the runtime daemons. In PRRTE's own thread, or while it waits.
pub fn hosts(runtime: &dyn Runtime, universe: u32) -> Hosts {
    // SAFETY: PMIx is initialised while a job is launched.
    let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
    Hosts::new((0..universe).map(|node| runtime.host_of(own, node).unwrap_or_default()).collect())
}
