//! Prepares a job that `prterun` launches.

use std::ffi::CStr;
use std::net::UdpSocket;
use std::path::Path;

use node_abi::launch::{LAUNCH_VERSION, LaunchData, Origin};
use node_abi::order::{Order, table};
use node_abi::parameters::{Settings, bad_order, unwritable};
use platform::random;
use platform::say::host;
use platform::sink::{Places, Sink, expand};
use propagation::NodeId;
use prte_hooks::Runtime;

use crate::{environment, network, nodes, parameters};

/// State of prterun between the launch and the start of its own ranks.
pub struct Launched {
    /// The data for every node.
    pub launch: LaunchData,
    /// The socket for the greetings of other nodes.
    pub socket: UdpSocket,
}

/// The nodes of the ranks of a job.
pub fn nodes_of(nspace: &CStr, runtime: &dyn Runtime) -> Vec<NodeId> {
    (0..).map_while(|rank| runtime.daemon_of(nspace, rank)).collect()
}

/// The nodes in ring order.
fn ring(runtime: &dyn Runtime, settings: &Settings) -> Result<Vec<NodeId>, String> {
    if settings.order == Order::Ids {
        return Ok(Vec::new());
    }
    // SAFETY: PMIx is initialised while a job is launched.
    let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
    let name =
        |node| runtime.host_of(own, node).ok_or_else(|| format!("PRRTE does not tell the host of its daemon {node}"));
    let names = (0..runtime.daemons()).map(name).collect::<Result<Vec<String>, String>>();
    let order = names.and_then(|names| settings.order.ring(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    let order = order.map_err(|why| bad_order(&settings.parameters.ring_order, &why).to_string())?;
    Ok(table(&order))
}

/// Disables UCX's crash handler in ranks of this daemon: it would wait for ever for a lock of `malloc` that the crash
/// has left locked. Returns the change, in the user's notation.
pub fn leave_crashes_alone(runtime: &dyn Runtime) -> Option<String> {
    runtime.give_ranks(c"UCX_HANDLE_ERRORS", c"none").then(|| "UCX_HANDLE_ERRORS=none".into())
}

/// The C library's cache of small blocks is off: what it leaves in them differs between replicas, and no setting of a
/// running process changes that.
const NO_CACHE: &str = "glibc.malloc.tcache_count=0";

/// Variables of ranks with replicas: what the user has them load first, to which each node adds its own
/// ([`environment::preloaded`]), and settings of the C library.
fn for_replicas(nspace: &CStr, runtime: &dyn Runtime) -> Vec<(String, String)> {
    if parameters::recovery().as_deref() != Some("replicate") {
        return Vec::new();
    }
    let of_user = |name: &CStr| runtime.job_variable(nspace, name).unwrap_or_default();
    let tunables = of_user(c"GLIBC_TUNABLES");
    let tunables = match &*tunables {
        "" => NO_CACHE.to_owned(),
        chosen if chosen.contains("tcache_count") => tunables,
        _ => format!("{tunables}:{NO_CACHE}"),
    };
    vec![(environment::PRELOAD.to_owned(), of_user(c"LD_PRELOAD")), ("GLIBC_TUNABLES".to_owned(), tunables)]
}

/// The data for prterun and for every node; `changed` has earlier changes of the runtime.
///
/// # Errors
/// A sentence for the user.
pub fn prepare(
    nspace: &CStr,
    runtime: &dyn Runtime,
    settings: Settings,
    changed: &[String],
) -> Result<(Launched, Vec<u8>), String> {
    let ring = ring(runtime, &settings)?;
    let rank_nodes = nodes_of(nspace, runtime);
    let universe = runtime.daemons().max(rank_nodes.iter().copied().max().unwrap_or(0) + 1);
    let hosts = nodes::hosts(runtime, universe);
    nodes::require_plugins(&hosts, universe)?;
    let addresses = network::addresses(&settings.parameters.interfaces)?;
    let socket = network::open(&addresses, settings.parameters.ports)?;
    let rendezvous = network::reachable_at(&socket, &addresses).map_err(|error| error.to_string())?;
    let no_random = |error| format!("the system has no random numbers: {error}");
    let launch = LaunchData {
        version: LAUNCH_VERSION,
        job: u64::from_le_bytes(random::bytes().map_err(no_random)?),
        key: random::bytes().map_err(no_random)?,
        nspace: nspace.to_string_lossy().into_owned(),
        origin: Origin { mpirun_pid: std::process::id(), slurm_job: environment::slurm_job() },
        universe,
        hosts,
        ring,
        rank_nodes,
        rendezvous,
        daemon: settings.daemon,
        agent: environment::remote_shell(),
        rank_environment: environment::component_path().into_iter().chain(for_replicas(nspace, runtime)).collect(),
        // Spawned jobs get the same as the first.
        changes: runtime
            .survive_failures()
            .into_iter()
            .chain(runtime.starts_ranks_in_order())
            .chain(leave_crashes_alone(runtime))
            .chain(changed.iter().cloned())
            .collect(),
        ranks_register: environment::ranks_have_component(),
        ranks_start_stopped: environment::starts_ranks_stopped(),
        parameters: settings.parameters,
    };
    let bytes = launch.to_bytes().map_err(|error| error.to_string())?;
    Ok((Launched { launch, socket }, bytes))
}

/// Refuses a log or a history that cannot be written on this node, before any launch.
///
/// # Errors
/// A sentence for the user.
pub fn check_files(settings: &Settings) -> Result<(), String> {
    let (host, slurm_job) = (host(), environment::slurm_job());
    // SAFETY: PMIx knows the name of prterun's own job before it opens its components.
    let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) }.to_string_lossy();
    // PRRTE numbers the jobs of prterun; its own has the number 0.
    let job = own.replace("@0", "@1");
    let places =
        Places { host: &host, job: &job, node: 0, mpirun_pid: std::process::id(), slurm_job: slurm_job.as_deref() };
    let files = [("log", &settings.parameters.log), ("events", &settings.parameters.events)];
    for (name, value) in files.into_iter().filter(|(_, value)| value.starts_with('/')) {
        let path = expand(value, places);
        Sink::check(Path::new(&path)).map_err(|why| unwritable(name, value, &path, &why).to_string())?;
    }
    Ok(())
}
