//! The fault-tolerant job of this runtime daemon, from its launch to its end.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock};
use std::time::Duration;

use propagation::{NodeId, RankReason};
use prte_hooks::{ProcessEvent, Runtime};
use rdma_heartbeat::greeting::Place;
use rdma_heartbeat::jobs::Jobs;
use rdma_heartbeat::launch::{LAUNCH_VERSION, LaunchData, Startup, ToDaemon, Unreadable};
use rdma_heartbeat::logging::{host, say};
use rdma_heartbeat::offload;
use rdma_heartbeat::order::{Order, table};
use rdma_heartbeat::parameters::{Settings, bad_order};
use rdma_heartbeat::pin::started;
use rdma_heartbeat::random;
use rdma_heartbeat::segment::{
    Entry, FIRST_RANK_VARIABLE, FLAG_ENDED, SEGMENT_VARIABLE, SPARE_ENTRIES, Segment, path_of,
};
use rdma_heartbeat::versions::{RELEASE, Refusal};

use crate::spawned;
use crate::supervisor::Supervisor;
use crate::{connections, environment, network, parameters, refusal, releases};

/// Exit status of prterun for a job that could not go on.
pub const JOB_ENDED: c_int = 1;

/// Variables that go into the environment of the ranks.
pub type Variables = Vec<(CString, CString)>;

/// The job, once its ranks are about to be started.
static JOB: OnceLock<Arc<Job>> = OnceLock::new();
/// What prterun keeps between the launch and the start of its own ranks.
static LAUNCHED: Mutex<Option<Launched>> = Mutex::new(None);
/// The runtime, in prterun only.
static RUNTIME: OnceLock<Box<dyn Runtime>> = OnceLock::new();
/// What was changed of it before it started the other daemons, as a user would write it.
static CHANGED: OnceLock<Vec<String>> = OnceLock::new();
/// The runtime in every other daemon, where only the ends of its own ranks are looked at.
static OWN_RANKS: OnceLock<Box<dyn Runtime>> = OnceLock::new();

/// What prterun knows of a fault-tolerant job that ringwatch does not serve.
static UNSERVED: Mutex<Option<Unserved>> = Mutex::new(None);

struct Launched {
    launch: LaunchData,
    socket: UdpSocket,
}

struct Unserved {
    nspace: CString,
    ranks: usize,
    /// Ranks that did not end by themselves.
    lost: BTreeSet<u32>,
    /// It has spawned another job.
    spawns: bool,
}

/// How long prterun waits at its end to hear why `ringwatchd` has ended the job.
const REASON_WAIT: Duration = Duration::from_secs(1);

const NOT_AT_WORK: &str = "ringwatch is not at work (psensor_ringwatch_enable is off, or it could not start)";

/// A fault-tolerant job on this node, with all that it spawns.
pub struct Job {
    /// The jobs that its ranks belong to, and who has which number.
    pub jobs: Jobs,
    /// Number of this node.
    pub me: NodeId,
    /// What prterun sent to every node.
    pub launch: LaunchData,
    /// The node's segment.
    pub segment: Segment,
    /// The link to `ringwatchd`.
    pub supervisor: Supervisor,
    /// Whether prterun has been told to end with a status other than zero.
    ended: AtomicBool,
    /// Whether the user has been told why.
    reason_told: (Mutex<bool>, Condvar),
    /// Daemons that PRRTE has been told to forget (prterun only).
    forgotten: Mutex<BTreeSet<NodeId>>,
    /// Ranks of this node that have asked PMIx to let them go, and whose connections have not ended yet.
    leaving: Mutex<BTreeSet<u32>>,
    /// Ranks whose abnormal end PRRTE has counted (prterun only).
    counted: Mutex<BTreeSet<u32>>,
    /// Ranks whose end PRRTE has counted (prterun only).
    terminated: Mutex<BTreeSet<u32>>,
    /// Ranks that were lost with their runtime daemon, whether or not `ringwatchd` has declared them (prterun only).
    lost: Mutex<BTreeSet<u32>>,
    /// Ranks that ended by themselves with a status other than zero (prterun only).
    dissatisfied: Mutex<BTreeSet<u32>>,
    /// Keeps the segment reachable under its path.
    segment_file: OwnedFd,
}

/// Whether the settings can work on prterun's node.
///
/// # Errors
/// A sentence for the user.
pub fn check(settings: &Settings) -> Result<(), String> {
    if settings.enable {
        // Whether it has all nodes is known when they are.
        settings.order.ring(&[]).map_err(|why| bad_order(&settings.parameters.ring_order, &why).to_string())?;
        releases::check(&environment::find_daemon(&settings.daemon)?)?;
        let addresses = network::addresses(&settings.parameters.interfaces)?;
        network::open(&addresses, settings.parameters.ports)?;
        if environment::is_launcher() && offload::server_of(&settings.parameters, &host()).is_some() {
            return Err("psensor_ringwatch_offload names this host, the node of mpirun, which must carry its own part in the ring".into());
        }
    }
    Ok(())
}

/// prterun is about to start the other daemons, for a job that is ours if it is launched.
pub fn before_the_daemons(settings: &Settings) {
    // A runtime that cannot be served is refused when the job is launched.
    if let (true, Ok(runtime)) = (settings.enable, RUNTIME.get_or_init_with(prte_hooks::find)) {
        runtime.daemons_start_ranks_in_order();
        let _ = CHANGED.set(runtime.connect_daemons_directly(environment::most_connections()));
    }
}

/// prterun launches the job `nspace`: makes the launch data, or `None` if the job is none of ours.
///
/// # Errors
/// A sentence for the user.
pub fn launch(nspace: &CStr) -> Result<Option<Vec<u8>>, String> {
    if !environment::is_launcher() || !environment::wants_fault_tolerance() {
        return Ok(None);
    }
    if let (Some(job), Some(runtime)) = (JOB.get(), RUNTIME.get()) {
        return spawned::launch(job, nspace, &nodes_of(nspace, runtime.as_ref()), runtime.as_ref()).map(Some);
    }
    let settings = parameters::settings().map_err(|invalid| invalid.to_string())?;
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => RUNTIME.get_or_init_with(prte_hooks::find)?,
    };
    if !runtime.watch_processes() {
        return Err("PRRTE's table of process states has no entry for errors".into());
    }
    if !settings.enable {
        let ranks = nodes_of(nspace, runtime.as_ref()).len();
        let mut unserved = lock(&UNSERVED);
        let is_first = unserved.is_none();
        let job =
            unserved.get_or_insert(Unserved { nspace: nspace.into(), ranks, lost: BTreeSet::new(), spawns: false });
        // Whoever was spawned may live on.
        job.spawns |= !is_first;
        return Ok(None);
    }
    match prepare(nspace, runtime.as_ref(), settings) {
        Ok((launched, bytes)) => {
            *lock(&LAUNCHED) = Some(launched);
            Ok(Some(bytes))
        }
        Err(problem) => {
            stop_launch(runtime.as_ref(), &problem);
            Ok(None)
        }
    }
}

/// A job that asked for fault tolerance cannot have it. PRRTE may have started ranks of its own node before it takes the
/// order.
fn stop_launch(runtime: &dyn Runtime, problem: &str) {
    say(&format!("ringwatch: {problem}; the launch is stopped"));
    runtime.end_job(environment::LAUNCH_REFUSED);
}

fn nodes_of(nspace: &CStr, runtime: &dyn Runtime) -> Vec<NodeId> {
    (0..).map_while(|rank| runtime.daemon_of(nspace, rank)).collect()
}

/// The nodes in the order of the ring.
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

/// Has UCX not handle crashes of the ranks that this daemon starts: it would wait for ever for a lock of `malloc` that the crash
/// has left taken. Returns what was changed, as a user would write it.
fn leave_crashes_alone(runtime: &dyn Runtime) -> Option<String> {
    runtime.give_ranks(c"UCX_HANDLE_ERRORS", c"none").then(|| "UCX_HANDLE_ERRORS=none".into())
}

/// What prterun keeps, and what goes to every node.
fn prepare(nspace: &CStr, runtime: &dyn Runtime, settings: Settings) -> Result<(Launched, Vec<u8>), String> {
    let ring = ring(runtime, &settings)?;
    let rank_nodes = nodes_of(nspace, runtime);
    let universe = runtime.daemons().max(rank_nodes.iter().copied().max().unwrap_or(0) + 1);
    let addresses = network::addresses(&settings.parameters.interfaces)?;
    let socket = network::open(&addresses, settings.parameters.ports)?;
    let rendezvous = network::reachable_at(&socket, &addresses).map_err(|error| error.to_string())?;
    let no_random = |error| format!("the system has no random numbers: {error}");
    let launch = LaunchData {
        version: LAUNCH_VERSION,
        job: u64::from_le_bytes(random::bytes().map_err(no_random)?),
        key: random::bytes().map_err(no_random)?,
        nspace: nspace.to_string_lossy().into_owned(),
        universe,
        ring,
        rank_nodes,
        rendezvous,
        daemon: settings.daemon,
        agent: environment::remote_shell(),
        rank_environment: environment::component_path().into_iter().collect(),
        // Like the first job, what it spawns.
        changes: runtime
            .survive_failures()
            .into_iter()
            .chain(runtime.starts_ranks_in_order())
            .chain(leave_crashes_alone(runtime))
            .chain(CHANGED.get().into_iter().flatten().cloned())
            .collect(),
        ranks_register: environment::ranks_have_component(),
        ranks_start_stopped: environment::starts_ranks_stopped(),
        parameters: settings.parameters,
    };
    find_daemon()?;
    let bytes = launch.to_bytes().map_err(|error| error.to_string())?;
    Ok((Launched { launch, socket }, bytes))
}

/// Starts `ringwatchd` on this node and returns what the ranks need to know.
///
/// # Errors
/// A sentence for the user.
pub fn start(nspace: &CStr, bytes: &[u8]) -> Result<Variables, String> {
    if let Some(job) = JOB.get() {
        let variables = spawned::start(job, nspace, bytes).map(|first| job.variables(first));
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
                // Node 0 may be out of reach for the same reason.
                say(&format!("ringwatch: node {me} ({}) cannot take part ({})", refusal.host, refusal.problem));
            }
            refusal::send(launch.contact(), refusal).map(|()| Vec::new())
        }
        Err(refusal) => {
            if let Some(runtime) = RUNTIME.get() {
                stop_launch(runtime.as_ref(), &refusal.problem);
            }
            Ok(Vec::new())
        }
        Ok(variables) => Ok(variables),
    }
}

fn find_daemon() -> Result<PathBuf, String> {
    environment::find_daemon(&own_daemon())
}

/// What the parameter says on this node.
fn own_daemon() -> String {
    parameters::settings().map(|settings| settings.daemon).unwrap_or_default()
}

fn start_daemon(nspace: &CStr, launch: &LaunchData, me: NodeId) -> Result<Variables, Refusal> {
    let problem = |problem: String| Refusal::of_problem(me, host(), &problem);
    if !crate::sensor_is_open() {
        return Err(problem("the component psensor/ringwatch is left out there".into()));
    }
    // Where mpirun's node names none, this node's own files may.
    let named = if launch.daemon.is_empty() { own_daemon() } else { launch.daemon.clone() };
    let daemon = environment::find_daemon(&named).map_err(problem)?;
    if me != 0 {
        let found = releases::of(&daemon);
        if found.as_deref() != Some(RELEASE) {
            return Err(Refusal::of_releases(me, host(), RELEASE, &found.unwrap_or_default()));
        }
    }
    watch(nspace, launch, me, daemon).map_err(problem)
}

fn watch(nspace: &CStr, launch: &LaunchData, me: NodeId, daemon: PathBuf) -> Result<Variables, String> {
    let socket = match lock(&LAUNCHED).take() {
        Some(launched) if me == 0 && launched.launch == *launch => launched.socket,
        // Nobody ever sends to or from a host that another machine serves.
        _ if me != 0 && offload::server_of(&launch.parameters, &host()).is_some() => network::open(&[], (0, 0))?,
        _ => network::open(&network::addresses(&launch.parameters.interfaces)?, launch.parameters.ports)?,
    };
    let ranks: Vec<u32> = launch.ranks_of(me).collect();
    // Each rank and each node once as dead, each node once as ready.
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
    let supervisor = Supervisor::new(daemon, startup, socket, &file).map_err(|error| error.to_string())?;
    let job = Arc::new(Job {
        jobs: Jobs::new(nspace, launch.rank_nodes.len()),
        me,
        launch: launch.clone(),
        segment,
        supervisor,
        ended: AtomicBool::new(false),
        reason_told: Default::default(),
        forgotten: Mutex::default(),
        leaving: Mutex::default(),
        counted: Mutex::default(),
        terminated: Mutex::default(),
        lost: Mutex::default(),
        dissatisfied: Mutex::default(),
        segment_file: file,
    });
    let _ = JOB.set(Arc::clone(&job));
    // PRRTE 3.0.8's own way destroys what lies behind its array of one (`pmix_server_dyn.c`, connect_release).
    // SAFETY: PMIx calls this function in its own thread.
    unsafe { c_shims::pmix::rw_pmix_watch_clients() };
    if me != 0 {
        // Without it nothing is lost but the news of ranks that end before MPI_Init.
        if let Ok(runtime) = OWN_RANKS.get_or_init_with(prte_hooks::find) {
            runtime.watch_processes();
            runtime.answer_for_the_ended();
            leave_crashes_alone(runtime.as_ref());
        }
    } else if let Some(runtime) = RUNTIME.get() {
        runtime.answer_for_the_ended();
    }
    Supervisor::run(Arc::clone(&job))?;
    Ok(job.variables(0))
}

/// Every process of the job has ended.
pub fn finished(nspace: &CStr) {
    let Some(job) = JOB.get() else { return tell_if_nobody_was_left(nspace) };
    if job.jobs.finish(nspace) {
        job.wait_for_the_reason();
        job.tell_if_nobody_is_left(nspace);
        job.pass_on_statuses();
        // PRRTE says so in prterun when the whole job has ended, elsewhere when this node's part has.
        if job.me == 0 { job.supervisor.finish() } else { job.supervisor.leave() }
    }
}

/// At the end of a job that ringwatch does not serve: PRRTE's own status would be zero.
fn tell_if_nobody_was_left(nspace: &CStr) {
    let (Some(runtime), Some(job)) = (RUNTIME.get(), &*lock(&UNSERVED)) else { return };
    if *job.nspace == *nspace && !job.spawns && job.lost.len() == job.ranks && runtime.exit_status() == 0 {
        say(&format!("ringwatch: every rank of this fault-tolerant job is dead, and {NOT_AT_WORK}; the job is ended"));
        runtime.set_exit_status(JOB_ENDED);
    }
}

/// This runtime daemon ends.
pub fn runtime_ends() {
    if let Some(job) = JOB.get() {
        job.supervisor.finish();
    }
}

/// A rank of this job, or of one that it has spawned, by its number.
fn numbered(nspace: &CStr, rank: u32) -> Option<(&'static Arc<Job>, u32)> {
    let job = JOB.get()?;
    Some((job, job.jobs.number(nspace, rank)?))
}

/// Somebody may wait in the runtime for a process that is dead.
pub fn look_at_connections() {
    if let Some(job) = JOB.get() {
        connections::look(job);
    }
}

/// Who is to publish something under this key, if that is known.
pub fn publisher(key: &CStr) -> Vec<connections::Process> {
    let publisher = || JOB.get()?.jobs.owner_of_port(key.to_str().ok()?);
    publisher().map(|(nspace, rank)| connections::Process::new(&nspace, rank)).into_iter().collect()
}

/// Whether a connection of these processes has to wait until this node has heard of their jobs.
pub fn postpones(id: usize, processes: &[connections::Process]) -> bool {
    JOB.get().is_some_and(|job| connections::postpones(job, id, processes))
}

/// Whether one of these processes is known to be dead.
pub fn has_dead(processes: &[connections::Process]) -> bool {
    JOB.get().is_some_and(|job| connections::has_dead(job, processes))
}

/// Whether this node has nothing of a process any more, neither PMIx nor PRRTE: it has ended, or all of its job that were
/// here have.
pub fn has_ended(nspace: &CStr, rank: u32) -> bool {
    let Some(job) = JOB.get() else { return false };
    let terminated = |number| lock(&job.terminated).contains(&number);
    job.jobs.is_over(nspace) || job.jobs.number(nspace, rank).is_some_and(terminated)
}

/// A local client leaves in order, and waits for the runtime to let it go.
pub fn client_finalizes(nspace: &CStr, rank: u32) {
    if let Some((job, rank)) = numbered(nspace, rank) {
        lock(&job.leaving).insert(rank);
    }
}

/// A local client has left, with or without finalizing as far as PMIx knows, which may be late.
pub fn client_gone(nspace: &CStr, rank: u32, finalized: bool) {
    let Some((job, number)) = numbered(nspace, rank) else { return };
    if lock(&job.leaving).remove(&number) || finalized {
        client_is_known(nspace, rank);
    } else {
        job.supervisor.report(ToDaemon::RankLost { rank: number, reason: RankReason::Reported });
    }
}

/// A local client has told the others how to be reached, or has left in order.
pub fn client_is_known(nspace: &CStr, rank: u32) {
    if let Some((job, rank)) = numbered(nspace, rank).filter(|(job, _)| job.launch.ranks_register) {
        if let Some(slot) = job.segment.slot_of(rank) {
            job.segment.pass_by(slot);
        }
    }
}

/// PRRTE is about to act on the error of a process, in its own thread. Returns whether that is all dealt with.
pub fn process_state(nspace: &CStr, rank: u32, state: u32) -> bool {
    let Some(runtime) = RUNTIME.get() else {
        own_rank_state(nspace, rank, state);
        return false;
    };
    // SAFETY: PMIx is initialised while PRRTE runs.
    let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
    let kind = runtime.classify(state);
    if nspace == own {
        let lost = kind == ProcessEvent::DaemonLost && rank != 0 && !runtime.ending();
        if lost {
            daemon_lost(runtime.as_ref(), rank);
        }
        return lost;
    }
    let Some((job, number)) = numbered(nspace, rank) else {
        if kind == ProcessEvent::Abnormal {
            if let Some(job) = lock(&UNSERVED).as_mut().filter(|job| *job.nspace == *nspace) {
                job.lost.insert(rank);
            }
        }
        return false;
    };
    match kind {
        ProcessEvent::Other | ProcessEvent::DaemonLost => false,
        ProcessEvent::Ended => {
            job.supervisor.report(ToDaemon::RankEnded(number));
            // Whoever was reported dead may be reported as ended again with the last of its node.
            !lock(&job.terminated).insert(number)
        }
        // Which ranks it was meant for PRRTE does not say; its own answer and the standard's usual one is: all.
        ProcessEvent::Abort => {
            job.end(&format!("rank {number} called MPI_Abort; the job is ended"));
            true
        }
        // PRRTE would end the whole job: for the survivors it is a death like any other.
        ProcessEvent::NonZeroExit => {
            lock(&job.dissatisfied).insert(number);
            job.supervisor.report(ToDaemon::RankLost { rank: number, reason: RankReason::Reported });
            runtime.report_rank_lost(nspace, rank);
            true
        }
        // PRRTE counts every report as one more process that has ended, and ends the job when the count is full.
        ProcessEvent::Abnormal => {
            job.supervisor.report(ToDaemon::RankLost { rank: number, reason: RankReason::Reported });
            !lock(&job.counted).insert(number)
        }
    }
}

/// In a daemon other than prterun: PRRTE tells prterun of an end in order only when all ranks of the node have ended.
fn own_rank_state(nspace: &CStr, rank: u32, state: u32) {
    if let (Some((job, rank)), Some(runtime)) = (numbered(nspace, rank), OWN_RANKS.get()) {
        match runtime.classify(state) {
            ProcessEvent::Ended => job.supervisor.report(ToDaemon::RankEnded(rank)),
            // Of a rank that never came to MPI only its own node can say so.
            ProcessEvent::Abnormal | ProcessEvent::NonZeroExit => {
                job.supervisor.report(ToDaemon::RankLost { rank, reason: RankReason::Reported });
            }
            _ => {}
        }
    }
}

/// A message of PRRTE could not be sent, for which it would end everything. Returns whether that is dealt with: in a
/// fault-tolerant job the daemon at the other end is lost, which the end of its connection is about to tell.
pub fn send_failed() -> bool {
    JOB.get().is_some() && RUNTIME.get().is_some_and(|runtime| !runtime.ending())
}

/// A daemon's connection is broken.
fn daemon_lost(runtime: &dyn Runtime, daemon: NodeId) {
    let Some(job) = JOB.get() else {
        // The others are lost on the way to the end.
        static FIRST: Once = Once::new();
        runtime.forget_daemon(daemon);
        FIRST.call_once(|| {
            let when = if lock(&LAUNCHED).is_some() { "the job was being launched" } else { NOT_AT_WORK };
            say(&format!("ringwatch: a node of this fault-tolerant job was lost while {when}; the job is ended"));
            runtime.end_job(JOB_ENDED);
        });
        return;
    };
    job.supervisor.tell(&ToDaemon::ConnectionLost(daemon));
    job.forget_daemon(runtime, daemon);
    // The launcher's ssh to the lost node leaves its own status, which says nothing about the job.
    if !job.ended.load(Ordering::SeqCst) {
        runtime.set_exit_status(0);
    }
}

impl Job {
    /// A node was declared dead: prterun gives up its daemon.
    pub fn node_dead(&self, node: NodeId) {
        if let Some(runtime) = RUNTIME.get() {
            if !lock(&self.forgotten).contains(&node) && !runtime.ending() {
                // SAFETY: PMIx is initialised while a job runs.
                let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
                runtime.report_daemon_lost(own, node);
            }
        }
    }

    /// The runtime, in prterun.
    pub fn runtime(&self) -> Option<&'static dyn Runtime> {
        RUNTIME.get().map(Box::as_ref).filter(|_| self.me == 0)
    }

    /// Daemons that prterun has given up and `ringwatchd` has not declared dead.
    pub fn lost_daemons(&self) -> BTreeSet<NodeId> {
        let mut lost = lock(&self.forgotten).clone();
        for entry in (0..self.segment.len()).filter_map(|index| self.segment.entry(index)) {
            if let Entry::Node(node) = entry {
                lost.remove(&node);
            }
        }
        lost
    }

    /// No daemon is awaited any more (prterun only).
    pub fn forget_everybody(&self) {
        if let Some(runtime) = self.runtime() {
            // SAFETY: PMIx is initialised while prterun runs.
            let own = unsafe { CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()) };
            (1..self.launch.universe).for_each(|daemon| runtime.report_daemon_lost(own, daemon));
        }
    }

    /// The job cannot go on: says why and has prterun end with a status other than zero. If that is what the user has
    /// told prterun to bring about, it needs no reason, and the status is prterun's own.
    pub fn end(&self, sentence: &str) {
        // Only the first reason: what follows from it is no news.
        let Some(runtime) = RUNTIME.get().filter(|_| !self.ended.swap(true, Ordering::SeqCst)) else { return };
        if runtime.ended_by_user() {
            runtime.end_job(runtime.exit_status());
        } else {
            // First the status: PRRTE may be about to exit with it.
            runtime.set_exit_status(JOB_ENDED);
            say(&format!("ringwatch: {sentence}"));
            runtime.end_job(JOB_ENDED);
        }
        *lock(&self.reason_told.0) = true;
        self.reason_told.1.notify_all();
    }

    /// When all have ended, in PRRTE's thread: if that is because `ringwatchd` has ended them, why and prterun's status are on
    /// their way, and prterun must not be gone before.
    fn wait_for_the_reason(&self) {
        if self.runtime().is_none() || self.segment.flags() & FLAG_ENDED == 0 {
            return;
        }
        let (told, changed) = &self.reason_told;
        drop(changed.wait_timeout_while(lock(told), REASON_WAIT, |told| !*told));
        self.end("the job was ended, and the reason is in the log of the node of mpirun");
    }

    /// Variables for the environment of the ranks of the job that begins with this number.
    fn variables(&self, first: u32) -> Variables {
        let own = [
            (SEGMENT_VARIABLE.to_owned(), path_of(&self.segment_file)),
            (FIRST_RANK_VARIABLE.to_owned(), first.to_string()),
        ];
        let all = self.launch.rank_environment.iter().cloned().chain(own);
        all.filter_map(|(name, value)| Some((CString::new(name).ok()?, CString::new(value).ok()?))).collect()
    }

    /// At the end of the last job: if no rank came to its end in order, neither of it nor of the first, prterun's status
    /// must say so, even if `ringwatchd` has not come to say so yet. What PRRTE has counted proves nothing: a rank whose
    /// `MPI_Finalize` a failure has cut short leaves without a word to PRRTE.
    fn tell_if_nobody_is_left(&self, last: &CStr) {
        let Some(runtime) = RUNTIME.get() else { return };
        let entries = (0..self.segment.len()).filter_map(|index| self.segment.entry(index));
        let mut dead: BTreeSet<u32> =
            entries.filter_map(|entry| if let Entry::Rank(rank) = entry { Some(rank) } else { None }).collect();
        dead.extend(lock(&self.lost).iter());
        let own = 0..u32::try_from(self.launch.rank_nodes.len()).unwrap_or(u32::MAX);
        let nobody = own.chain(self.jobs.spawned_ranks(last)).all(|rank| dead.contains(&rank));
        if nobody && runtime.exit_status() == 0 && !self.ended.swap(true, Ordering::SeqCst) {
            say("ringwatch: every rank of the job is dead; the job is ended");
            runtime.set_exit_status(JOB_ENDED);
        }
    }

    /// At the end of the job: what a rank returned after `MPI_Finalize` is no failure of a process, but the program's own
    /// word about the job, which prterun's status must not hide. Whoever is dead has no say.
    fn pass_on_statuses(&self) {
        let Some(runtime) = RUNTIME.get() else { return };
        let mut dissatisfied = lock(&self.dissatisfied).clone();
        for entry in (0..self.segment.len()).filter_map(|index| self.segment.entry(index)) {
            if let Entry::Rank(rank) = entry {
                dissatisfied.remove(&rank);
            }
        }
        if !dissatisfied.is_empty() && runtime.exit_status() == 0 {
            runtime.set_exit_status(JOB_ENDED);
        }
    }

    fn forget_daemon(&self, runtime: &dyn Runtime, daemon: NodeId) {
        if lock(&self.forgotten).insert(daemon) {
            runtime.forget_daemon(daemon);
            for rank in self.launch.ranks_of(daemon).chain(self.jobs.spawned_ranks_of(daemon)) {
                if !lock(&self.terminated).contains(&rank) {
                    lock(&self.lost).insert(rank);
                }
                if let Some((nspace, rank)) = self.jobs.name_of(rank) {
                    runtime.report_rank_lost(&nspace, rank);
                }
            }
        }
    }
}

/// Fallible initialisation of a [`OnceLock`], which the standard library does not offer yet.
trait GetOrInitWith<T> {
    fn get_or_init_with<E: std::fmt::Display>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, String>;
}

impl<T> GetOrInitWith<T> for OnceLock<T> {
    fn get_or_init_with<E: std::fmt::Display>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, String> {
        let value = make().map_err(|error| error.to_string())?;
        Ok(self.get_or_init(|| value))
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
