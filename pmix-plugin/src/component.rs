//! Handles the launch of a fault-tolerant job, its start on a node and its end: dispatches PMIx's calls to parts of the
//! plugin.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use node_abi::components::Word;
use node_abi::greeting::Place;
use node_abi::launch::{LaunchData, Startup, Unreadable, decode};
use node_abi::offload_map::server_of;
use node_abi::parameters::{Settings, bad_order};
use node_abi::segment::{SPARE_ENTRIES, Segment};
use node_abi::versions::{RELEASE, Refusal};
use platform::pin::started;
use platform::say::{host, say};
use propagation::NodeId;
use prte_hooks::Runtime;

use crate::job::{Job, Variables, present};
use crate::link::Link;
use crate::preparation::{self, Launched, leave_crashes_alone, nodes_of};
use crate::sync::lock;
use crate::{
    components, connections, environment, job, losses, needless_messages, network, nodes, output, parameters, port,
    refusal, releases, runtimes, slurm, spawned, supervisor, unserved,
};

/// State of prterun between the launch and the start of its own ranks.
static LAUNCHED: Mutex<Option<Launched>> = Mutex::new(None);
/// Parameters of the runtime that were changed before it started the other daemons, in the user's notation.
static CHANGED: OnceLock<Vec<String>> = OnceLock::new();
/// Whether the component psensor/ringwatch is open.
static SENSOR: AtomicBool = AtomicBool::new(false);

/// Notes that the component psensor/ringwatch is open.
pub fn sensor_opens() {
    SENSOR.store(true, Ordering::Relaxed);
}

/// In prterun: whether a job is being launched.
pub fn is_launching() -> bool {
    lock(&LAUNCHED).is_some()
}

/// Whether the component psensor/ringwatch is open.
pub fn sensor_is_open() -> bool {
    SENSOR.load(Ordering::Relaxed)
}

/// Whether the settings can work on prterun's node.
///
/// # Errors
/// A sentence for the user.
pub fn check(settings: &Settings) -> Result<(), String> {
    if settings.enable {
        // The order needs all nodes to be known; they are at the launch.
        settings.order.ring(&[]).map_err(|why| bad_order(&settings.parameters.ring_order, &why).to_string())?;
        losses::check(settings)?;
        preparation::check_files(settings)?;
        releases::check(&environment::find_daemon(&settings.daemon)?)?;
        let addresses = network::addresses(&settings.parameters.interfaces)?;
        network::open(&addresses, settings.parameters.ports)?;
        if server_of(&settings.parameters, &host()).is_some() {
            return Err("psensor_ringwatch_offload names this host, the node of mpirun, which must carry its own part in the ring".into());
        }
    }
    Ok(())
}

/// Prepares the runtime before prterun starts the other daemons. Whether the job is fault-tolerant shows at its launch.
pub fn before_the_daemons(settings: &Settings) {
    // An unknown runtime is refused at the launch.
    if let (true, Ok(runtime)) = (settings.enable, runtimes::find_launcher()) {
        environment::stay_loaded();
        needless_messages::keep_quiet();
        port::keep(runtime);
        runtime.starts_shells_quietly();
        slurm::keep_step();
        runtime.tell_daemons(environment::REPORTS, c"1");
        runtime.listen();
        runtime.daemons_start_ranks_in_order();
        let _ = CHANGED.set(runtime.connect_daemons_directly(environment::most_connections()));
    }
}

/// Prepares a daemon that prterun has started for a fault-tolerant job, before PRRTE opens its port.
pub fn before_the_port() {
    // prterun refuses an unknown runtime.
    if let Ok(runtime) = runtimes::find_other() {
        environment::stay_loaded();
        needless_messages::keep_quiet();
        port::keep(runtime);
        // Of what prterun lacks it tells the user.
        let _ = output::merge(runtime);
    }
}

/// Launches the job `nspace` in prterun: returns the launch data, or `None` if ringwatch does not serve the job.
///
/// # Errors
/// A sentence for the user.
pub fn launch(nspace: &CStr) -> Result<Option<Vec<u8>>, String> {
    if !environment::is_launcher() {
        return Ok(None);
    }
    if !environment::wants_fault_tolerance() {
        return refuse_recovery("in a job without --with-ft ulfm").map(|()| None);
    }
    if let (Some(job), Some(runtime)) = (present(), runtimes::launcher()) {
        return spawned::launch(job, nspace, &nodes_of(nspace, runtime), runtime).map(Some);
    }
    let settings = parameters::settings().map_err(|invalid| invalid.to_string())?;
    let runtime = match runtimes::launcher() {
        Some(runtime) => runtime,
        None => runtimes::find_launcher()?,
    };
    if !runtime.watch_processes() {
        return Err("PRRTE's table of process states has no entry for errors".into());
    }
    if !settings.enable {
        refuse_recovery("where psensor_ringwatch_enable is off")?;
        let ranks = nodes_of(nspace, runtime).len();
        unserved::launch(nspace, ranks);
        return Ok(None);
    }
    let changed = CHANGED.get().map(Vec::as_slice).unwrap_or_default();
    let prepared = find_daemon().and_then(|_| output::merge(runtime));
    let prepared = prepared.and_then(|()| preparation::prepare(nspace, runtime, settings, changed));
    match prepared {
        Ok((launched, bytes)) => {
            port::close(runtime, launched.launch.universe);
            *lock(&LAUNCHED) = Some(launched);
            Ok(Some(bytes))
        }
        Err(problem) => {
            stop_launch(runtime, &problem);
            Ok(None)
        }
    }
}

/// Refuses a job with `hook_ringwatch_recovery` where it cannot be had: its spares or replicas would be
/// ranks of the program.
fn refuse_recovery(place: &str) -> Result<(), String> {
    let asked = parameters::recovery();
    let name = match asked.as_deref() {
        Some("log") => "message logging (hook_ringwatch_recovery log)",
        Some("replicate") => "replication (hook_ringwatch_recovery replicate)",
        _ => return Ok(()),
    };
    let runtime = runtimes::launcher().map_or_else(runtimes::find_launcher, Ok)?;
    stop_launch(runtime, &format!("there is no {name} {place}"));
    Ok(())
}

/// Ends a job that asked for fault tolerance and cannot have it. PRRTE may have started ranks of its own node before it
/// acts.
fn stop_launch(runtime: &dyn Runtime, problem: &str) {
    say(&format!("ringwatch: {problem}; the launch is stopped"));
    runtime.end_job(environment::LAUNCH_REFUSED);
}

/// Reports this daemon's plugin to prterun when it has started, before PRRTE reports the daemon.
pub fn report_plugin() {
    if let Ok(runtime) = runtimes::find_other() {
        components::tell(runtime, 0, &Word::Here);
    }
}

/// Starts `ringwatchd` on this node and returns variables for the ranks.
///
/// # Errors
/// A sentence for the user.
pub fn start(nspace: &CStr, bytes: &[u8]) -> Result<Variables, String> {
    if let Some(job) = present() {
        let variables = spawned::start(job, nspace, bytes).map(|first| job.variables(first));
        job.ask_for_revival();
        connections::heard_of(nspace);
        return variables;
    }
    environment::stay_loaded();
    environment::remove_session_folder_at_exit();
    // SAFETY: PMIx is initialised when a job is set up.
    let me = unsafe { c_shims::pmix::rw_pmix_my_rank() };
    let launch = match LaunchData::from_bytes(bytes) {
        Ok(launch) => launch,
        Err(Unreadable::Release(contact)) => {
            let daemon = find_daemon().ok().and_then(|daemon| releases::of(&daemon)).unwrap_or_default();
            let refusal = Refusal::of_releases(me, host(), RELEASE, &daemon);
            return refusal::send(contact, refusal).map(|()| Vec::new());
        }
        Err(error) => return Err(error.to_string()),
    };
    match start_daemon(nspace, &launch, me) {
        Err(refusal) if me != 0 => {
            if !refusal.problem.is_empty() {
                // Node 0 may be unreachable for the same reason.
                say(&format!("ringwatch: node {me} ({}) cannot take part ({})", refusal.host, refusal.problem));
            }
            refusal::send(launch.contact(), refusal).map(|()| Vec::new())
        }
        Err(refusal) => {
            if let Some(runtime) = runtimes::launcher() {
                stop_launch(runtime, &refusal.problem);
            }
            Ok(Vec::new())
        }
        Ok(variables) => Ok(variables),
    }
}

fn find_daemon() -> Result<PathBuf, String> {
    environment::find_daemon(&own_daemon())
}

/// The parameter's value on this node.
fn own_daemon() -> String {
    parameters::settings().map(|settings| settings.daemon).unwrap_or_default()
}

fn start_daemon(nspace: &CStr, launch: &LaunchData, me: NodeId) -> Result<Variables, Refusal> {
    let problem = |problem: String| Refusal::of_problem(me, host(), &problem);
    if !sensor_is_open() {
        return Err(problem("the component psensor/ringwatch is left out there".into()));
    }
    // If mpirun's node names none, this node's own files may.
    let named = if launch.daemon.is_empty() { own_daemon() } else { launch.daemon.clone() };
    let daemon = environment::find_daemon(&named).map_err(problem)?;
    if me != 0 {
        let found = releases::of(&daemon);
        if found.as_deref() != Some(RELEASE) {
            return Err(Refusal::of_releases(me, host(), RELEASE, &found.unwrap_or_default()));
        }
    }
    supervise(nspace, launch, me, daemon).map_err(problem)
}

fn supervise(nspace: &CStr, launch: &LaunchData, me: NodeId, daemon: PathBuf) -> Result<Variables, String> {
    let socket = match lock(&LAUNCHED).take() {
        Some(launched) if me == 0 && launched.launch == *launch => launched.socket,
        // No process sends to or from a host that another machine serves.
        _ if me != 0 && server_of(&launch.parameters, &host()).is_some() => network::open(&[], (0, 0))?,
        _ => {
            let addresses = network::addresses(&launch.parameters.interfaces)?;
            network::open_for_job(&addresses, launch.parameters.ports, launch.job)?
        }
    };
    let ranks: Vec<u32> = launch.ranks_of(me).collect();
    // Each rank and each node may be logged as dead once, and each node once as ready.
    let capacity = u32::try_from(launch.rank_nodes.len()).unwrap_or(u32::MAX / 2) + 2 * launch.universe;
    let (segment, file) =
        Segment::create(&ranks, capacity.saturating_add(SPARE_ENTRIES)).map_err(|error| error.to_string())?;
    let runtime_pid = i32::try_from(std::process::id()).unwrap_or(0);
    let startup = Startup {
        launch: launch.clone(),
        me,
        incarnation: 0,
        roster: None,
        runtime_pid,
        runtime_started: started(runtime_pid).ok_or("its own file /proc/self/stat cannot be read")?,
        tools: Place::default(),
        spawned: Vec::new(),
        known: Vec::new(),
    };
    let link = Link::new(daemon, startup, socket, &file).map_err(|error| error.to_string())?;
    let job = Arc::new(Job::new(nspace, launch.clone(), me, segment, link, file));
    job::set(Arc::clone(&job));
    // PRRTE 3.0.8's own handler destroys memory behind its array of one (`pmix_server_dyn.c`, connect_release).
    // SAFETY: PMIx calls this function in its own thread.
    unsafe { c_shims::pmix::rw_pmix_watch_clients() };
    if me != 0 {
        // Without it only reports of ranks that end before MPI_Init are missing.
        if let Ok(runtime) = runtimes::find_other() {
            runtime.watch_processes();
            runtime.answer_for_the_ended();
            runtime.keep_jobs();
            // For jobs that a rank of this node spawns.
            runtime.survive_failures();
            leave_crashes_alone(runtime);
        }
    } else if let Some(runtime) = runtimes::launcher() {
        runtime.answer_for_the_ended();
    }
    if let Some(runtime) = runtimes::other() {
        runtime.listen();
    }
    supervisor::run(Arc::clone(&job))?;
    Ok(job.variables(0))
}

/// Handles a fence of the runtime that all processes of this node have entered; returns whether it must wait.
pub fn holds_fence(id: usize, processes: &[connections::Process]) -> bool {
    present().zip(runtimes::own()).is_some_and(|(job, runtime)| components::hold_fence(job, runtime, id, processes))
}

/// Handles a message of a plugin, on another node or this one. In PRRTE's own thread.
pub fn told(from: NodeId, bytes: &[u8]) {
    match (decode(bytes), present().zip(runtimes::own())) {
        (Ok(Word::Here), _) => nodes::is_here(from),
        (Ok(word), Some((job, runtime))) => components::hear(job, runtime, from, word),
        _ => {}
    }
}

/// Handles the end of all processes of a job.
pub fn finished(nspace: &CStr) {
    let Some(job) = present() else { return unserved::finished(nspace) };
    if job.jobs.finish(nspace) {
        job.wait_for_the_reason();
        job.tell_if_nobody_is_left();
        job.pass_on_statuses();
        // PRRTE reports this in prterun when the whole job has ended, elsewhere when this node's part has.
        if job.me == 0 { job.link.finish() } else { job.link.leave() }
    } else {
        job.ask_for_revival();
    }
}

/// Handles the end of this runtime daemon.
pub fn runtime_ends() {
    if let Some(job) = present() {
        job.link.finish();
    }
}

/// Ends waits in the runtime for dead processes.
pub fn look_at_connections() {
    if let Some(job) = present() {
        connections::look(job);
    }
}

/// The process that is to publish under this key, if known.
pub fn publisher(key: &CStr) -> Vec<connections::Process> {
    let publisher = || present()?.jobs.owner_of_port(key.to_str().ok()?);
    publisher().map(|(nspace, rank)| connections::Process::new(&nspace, rank)).into_iter().collect()
}

/// Whether a connection of these processes must wait until this node knows their jobs.
pub fn postpones(id: usize, processes: &[connections::Process]) -> bool {
    present().is_some_and(|job| connections::postpones(job, id, processes))
}

/// Whether one of these processes is known to be dead.
pub fn has_dead(processes: &[connections::Process]) -> bool {
    present().is_some_and(|job| connections::has_dead(job, processes))
}
