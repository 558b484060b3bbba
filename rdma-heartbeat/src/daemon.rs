//! Runs the daemon's main loop: takes inputs, and carries out actions.
//!
//! | file | part |
//! |---|---|
//! | this one | the daemon's state, its loop, and time |
//! | `inputs` | inputs: packets of the plugin, datagrams, ends of processes |
//! | `loggers` | the event logger |
//! | `groups` | groups of recommended processes |
//! | `neighbours` | heartbeats that are flags |
//! | `served` | the part that another machine runs for this host |
//! | `outcome` | outcomes: facts, the end of the job, the end of this node |
//! | `report` | the status report |
//! | `replicas` | which process is which replica |
//! | `chronicle` | the history |
//! | `pause` | pauses of the job or of this daemon |
//!
//! A daemon has up to three stages: *meeting* (the addresses of the other nodes are unknown), *watching* (a member of
//! the ring) and *ending* (the other nodes may still need messages from it). All inputs are served in all stages;
//! deaths of ranks that are seen while meeting wait for the ring.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use nix::unistd::{geteuid, getppid};
use node_abi::greeting::ToolKey;
use node_abi::group_watch;
use node_abi::launch::{LAUNCH_VERSION, Startup};
use node_abi::leftovers;
use node_abi::offload_map::server_of;
use node_abi::seal::{Direction, Opener, Sealer};
use node_abi::segment::{FLAG_ALL_READY, FLAG_HELD, Segment, SegmentError};
use platform::clock;
use platform::pin::PinError;
use platform::poller::Poller;
use platform::say::host;
use propagation::{Action, EndReason, Member, Message, RankReason, Time};
use tracing::{info, warn};

use crate::detector::job::Job;
use crate::detector::lifeline::Lifelines;
use crate::detector::runtime::Runtime;
use crate::detector::suspension::Suspension;
use crate::detector::watch::{Sighting, Watch};
use crate::groups::Groups;
use crate::history::Event;
use crate::history::feed::Feed;
use crate::logger::service::Loggers;
use crate::offload::{Host, News, ToService};
use crate::process::setup::Right;
use crate::process::token::Token;
use crate::process::{logging, setup};
use crate::report::regularity::Regularity;
use crate::report::status::Server;
use crate::ring::neighbours::flags;
use crate::ring::settings::config;
use crate::session::control::{Control, Received};
use crate::session::network::Network;
use crate::session::rendezvous::{self, Rendezvous, Step};
use crate::transport::{Flags, Udp};
use chronicle::Chronicle;

mod chronicle;
mod groups;
mod inputs;
mod loggers;
mod neighbours;
mod outcome;
mod pause;
mod replicas;
mod report;
mod served;

/// Delay of a turn of the loop above which further events may have occurred that the poller has not reported.
const LATE: Duration = Duration::from_millis(1);

/// How long a runtime daemon may be stopped, if ranks may be stopped without limit and the job is not suspended.
const STOPPED_RUNTIME: Duration = Duration::from_secs(2);
/// Interval of checks for defaults that a rank has changed since `MPI_Init`.
const DEFAULTS_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a daemon could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The first packet is malformed, or has another version.
    #[error("ringwatchd {} and the plugin that started it are of different versions", node_abi::versions::RELEASE)]
    Version,
    /// The job's settings cannot work.
    #[error("{0}")]
    Settings(#[from] propagation::ConfigError),
    /// The node segment cannot be used.
    #[error("{0}")]
    Segment(#[from] SegmentError),
    /// The runtime daemon cannot be watched.
    #[error("process {0}, the runtime daemon, cannot be watched: {1}")]
    Runtime(i32, PinError),
    /// There is no usable network socket.
    #[error("the socket to the other nodes cannot be used: {0}")]
    Transport(io::Error),
    /// The operating system refused a required operation.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Whether the daemon knows the other nodes.
enum Link {
    Meeting(Rendezvous),
    Ring(Box<Member>),
    /// Another machine knows them on behalf of this host.
    Offloaded(Box<Host>),
}

impl Link {
    fn is_ring(&self) -> bool {
        match self {
            Self::Meeting(_) => false,
            Self::Ring(_) => true,
            Self::Offloaded(host) => host.is_joined(),
        }
    }
}

/// The last stage.
struct Ending {
    exit_by: Time,
    /// Earliest exit of the daemon: records for the history may still arrive.
    settled_at: Time,
    /// Time by which the runtime daemon must have ended; none if other nodes, or it itself, will end it.
    runtime_ends_by: Option<Time>,
    /// Whether it is killed at that time in any case. Otherwise it is killed only if it is stopped, because it then
    /// receives no order.
    kills_runtime: bool,
    /// Whether ranks that register only now are killed, too.
    fences: bool,
}

/// One node's daemon.
pub struct Daemon {
    startup: Startup,
    host: String,
    poller: Poller,
    control: Control,
    network: Option<Network>,
    flags: Flags,
    segment: Segment,
    watch: Watch,
    lifelines: Option<Lifelines>,
    runtime: Runtime,
    job: Job,
    link: Link,
    /// At node 0: the answer for late callers.
    roster: Vec<SocketAddr>,
    /// Deaths of ranks that wait for the ring.
    waiting: Vec<(u32, RankReason)>,
    /// Ranks of this node that the runtime has lost but whose processes live, and the time at which they are killed.
    hung_up: Vec<(u32, Time)>,
    /// Whether the plugin has reported the end of the job.
    finished: bool,
    /// Time at which this node leaves. Its runtime daemon has left after the end of its ranks, and no other node has
    /// given a reason so far.
    leaves_at: Option<Time>,
    ready_told: bool,
    /// Time of the next check for changed defaults.
    defaults_due: Time,
    /// Whether the runtime daemon is lost, and the other nodes are being notified.
    resigned: bool,
    /// Whether an earlier incarnation died while it held the ranks.
    held_before: bool,
    /// At node 0: the sentence for the user, once it has ended the job.
    sentence: Option<String>,
    ending: Option<Ending>,
    status: Option<Server>,
    chronicle: Chronicle,
    loggers: Option<Loggers>,
    groups: Option<Groups>,
    suspension: Suspension,
    regularity: Regularity,
    actions: Vec<Action>,
    sightings: Vec<Sighting>,
    steps: Vec<Step>,
    news: Vec<News>,
    /// For the status report.
    refused: Vec<Right>,
}

/// Waits for the first packet and serves until the job ends on this node.
///
/// # Errors
/// If the daemon cannot start or go on; in every other case the node's part in the job is over.
pub fn run(
    mut control: Control,
    socket: Option<OwnedFd>,
    segment: &OwnedFd,
    logger: Option<OwnedFd>,
) -> Result<(), Failure> {
    // A user other than root has at most the rights of a file capability, and none remains when the first bytes are
    // read.
    let refused = setup::prepare();
    let lifelines = Lifelines::start(segment);
    if !geteuid().is_root() {
        setup::give_up_capabilities(Some(getppid().as_raw()), false);
    }
    let startup: Startup = match control.receive_first() {
        Received::Packet(startup) => startup,
        // The runtime daemon gave up before it began.
        Received::Closed => return Ok(()),
        Received::Unknown | Received::Nothing => return Err(Failure::Version),
    };
    if startup.launch.version != LAUNCH_VERSION {
        return Err(Failure::Version);
    }
    control.authenticate(Sealer::new(&startup, Direction::FromDaemon), Opener::new(&startup, Direction::ToDaemon));
    logging::start(&startup.launch, startup.me);
    let lifelines = lifelines.map_err(|error| warn!(%error, "deaths are seen at their end only")).ok();
    // The destination of other nodes' standard error is unknown, and one line for each job is enough.
    let loud = startup.me == 0 || logging::has_file();
    let mut daemon = Daemon::new(startup, control, socket, (segment, logger), lifelines, refused)?;
    setup::lock_the_rest(&mut daemon.refused);
    setup::complain(&daemon.refused, loud);
    daemon.serve()
}

impl Daemon {
    fn new(
        startup: Startup,
        control: Control,
        socket: Option<OwnedFd>,
        (segment, logger): (&OwnedFd, Option<OwnedFd>),
        lifelines: Option<Lifelines>,
        refused: Vec<Right>,
    ) -> Result<Self, Failure> {
        let (launch, me, now) = (&startup.launch, startup.me, clock::now());
        let parameters = &launch.parameters;
        config(&startup).validate()?;
        let segment = Segment::open(segment)?;
        segment.call_all();
        // A user who stops mpirun itself, for example with Ctrl-Z, wants the job to wait. No debugger stops the other
        // daemons.
        let stop_limit = parameters.stop_timeout.unwrap_or(STOPPED_RUNTIME);
        let runtime = Runtime::new(startup.runtime_pid, startup.runtime_started, (me != 0).then_some(stop_limit), now)
            .map_err(|error| Failure::Runtime(startup.runtime_pid, error))?;
        let host = host();
        let server = server_of(parameters, &host).filter(|_| me != 0 && launch.universe > 1);
        let (network, port) = if launch.universe > 1 && server.is_none() {
            let socket = socket.ok_or_else(|| Failure::Transport(io::Error::other("there is none")))?;
            let socket = UdpSocket::from(socket);
            let port = socket.local_addr().map_err(Failure::Transport)?.port();
            let transport = Udp::new(socket.into()).map_err(Failure::Transport)?;
            (Some(Network::new(Box::new(transport), launch, me, startup.incarnation)), port)
        } else {
            (None, 0)
        };
        let chronicle = Chronicle::new(&startup, &host);
        // Before the RDMA device is opened, which serves only threads with the opener's rights. A remote shell starts
        // the service of this host, and the site may have configured it to need root's capabilities.
        setup::give_up_capabilities(Some(startup.runtime_pid), server.is_some());
        let flags = flags(launch, me, startup.incarnation, network.is_some());
        let limit = rendezvous::limit(parameters.timeout);
        let status = Server::new(&launch.nspace, me, ToolKey::of(&launch.key), startup.tools)
            .map_err(|error| warn!(%error, "ringwatch status will not find this daemon"))
            .ok();
        let job = Job::new(launch, &startup.spawned, &startup.known, &segment, now);
        let link = match server {
            Some(server) => {
                Link::Offloaded(Box::new(Host::new(&host, server, startup.clone(), job.dead_nodes().collect(), now)?))
            }
            None => Link::Meeting(Rendezvous::new(me, launch.universe, port, &launch.rendezvous, now, limit)),
        };
        let mut watch = Watch::new(
            &segment,
            |rank| startup.name_of(rank),
            parameters.period,
            parameters.stop_timeout,
            parameters.fence,
            startup.runtime_pid,
        )?;
        if launch.ranks_start_stopped {
            watch.let_start_stopped();
        }
        if parameters.stop_timeout.is_none() {
            watch.let_be_stopped(stop_limit);
        }
        let held_before = segment.flags() & FLAG_HELD != 0;
        if held_before {
            watch.hold(&segment);
        }
        watch.doubt((0..segment.slots()).map(|slot| segment.rank(slot)).filter(|rank| job.is_dead(*rank)));
        let mut loggers = Loggers::new(&startup, logger);
        loggers.iter_mut().for_each(|loggers| job.dead_nodes().for_each(|node| loggers.node_is_dead(node)));
        let groups = Groups::open(&group_watch::socket_name(geteuid().as_raw(), launch.job, me))
            .map_err(|error| warn!(%error, "ringwatch group will find no rank of this node"));
        let groups = groups.ok();
        Ok(Self {
            loggers,
            groups,
            suspension: Suspension::new(stop_limit),
            chronicle,
            host,
            poller: Poller::new()?,
            control,
            network,
            flags,
            watch,
            lifelines,
            runtime,
            job,
            link,
            segment,
            roster: Vec::new(),
            waiting: Vec::new(),
            hung_up: Vec::new(),
            finished: false,
            leaves_at: None,
            ready_told: false,
            defaults_due: Time::MAX,
            resigned: false,
            held_before,
            sentence: None,
            ending: None,
            status,
            regularity: Regularity::default(),
            actions: Vec::new(),
            sightings: Vec::new(),
            steps: Vec::new(),
            news: Vec::new(),
            refused,
            startup,
        })
    }

    fn serve(mut self) -> Result<(), Failure> {
        let Startup { me, incarnation, runtime_pid, ref launch, .. } = self.startup;
        let (pid, universe, job) = (std::process::id(), launch.universe, launch.nspace.as_str());
        info!(job, node = me, universe, pid, incarnation, runtime_pid, "started");
        if me == 0 && incarnation == 0 {
            let variables = launch.rank_environment.iter().map(|(name, value)| format!("{name}={value}"));
            for changed in launch.changes.iter().cloned().chain(variables) {
                info!(changed, "default of the runtime set for fault tolerance");
            }
        }
        self.poller.add(&self.control, Token::Control)?;
        for descriptor in self.network.iter().flat_map(Network::descriptors) {
            self.poller.add(descriptor, Token::Network)?;
        }
        if let Some(descriptor) = self.runtime.descriptor() {
            self.poller.add(descriptor, Token::Runtime)?;
        }
        if let Some(lifelines) = &self.lifelines {
            self.poller.add(lifelines.bell(), Token::Lifelines)?;
        }
        self.poller.add(self.watch.bell(), Token::Inquiry)?;
        if let Link::Offloaded(host) = &self.link {
            self.poller.add(host.bell(), Token::Offload)?;
        }
        if let Some(descriptor) = self.status.as_ref().and_then(Server::descriptor) {
            self.poller.add(descriptor, Token::Status)?;
        }
        if let Some(descriptor) = self.chronicle.feed.as_ref().and_then(Feed::descriptor) {
            self.poller.add(descriptor, Token::Feed)?;
        }
        if let Some(descriptor) = self.loggers.as_ref().and_then(Loggers::descriptor) {
            self.poller.add(descriptor, Token::Logger)?;
        }
        if let Some(groups) = &self.groups {
            self.poller.add(groups.descriptor(), Token::Group)?;
        }
        let now = clock::now();
        self.chronicle.note(now, Event::Started { pid, incarnation });
        if matches!(self.link, Link::Offloaded(_)) {
            // The service joins.
        } else if let Some(roster) = self.startup.roster.take() {
            self.join(roster, now);
        } else if self.network.is_none() {
            self.join(Vec::new(), now);
        }
        let mut ready = Vec::with_capacity(32);
        let mut planned = Time::MAX;
        loop {
            let now = clock::now();
            self.note_lateness(planned, now);
            self.segment.beat(clock::awake());
            self.take_heartbeats(now);
            for token in &ready {
                self.take(*token, now);
            }
            self.flush();
            self.elapse(now);
            self.flush();
            if self.is_done(now) {
                self.watch.log_defaults(&self.segment);
                leftovers::remove(Path::new(leftovers::FOLDER), &self.startup.launch.nspace, &self.host);
                info!("ended");
                return Ok(());
            }
            planned = self.deadline(now);
            self.poller.wait(planned, &mut ready)?;
        }
    }

    /// Joins the ring, and announces earlier observations.
    fn join(&mut self, roster: Vec<SocketAddr>, now: Time) {
        if let Some(network) = &mut self.network {
            network.set_roster(&roster);
        }
        self.roster = roster;
        let mut member = Member::new(config(&self.startup), self.job.dead_nodes(), now);
        if self.held_before {
            member.keep_holding(&mut self.actions);
        }
        // An earlier incarnation may have died before it announced entries of the log.
        for rank in self.startup.own_ranks().filter(|rank| self.job.is_dead(*rank)) {
            member.announce_rank(now, rank, RankReason::Reported, &mut self.actions);
        }
        for (rank, reason) in self.waiting.drain(..) {
            member.announce_rank(now, rank, reason, &mut self.actions);
        }
        let (emitter, observer) = (member.emitter(), member.observer());
        info!(?emitter, ?observer, "watching");
        self.chronicle.note(now, Event::Watching { emitter, observer });
        self.segment.let_ranks_in();
        self.link = Link::Ring(Box::new(member));
        self.perform(now);
        if self.startup.me == 0 && self.startup.incarnation > 0 {
            // Other nodes have sent their records to the previous daemon.
            let dead: Vec<_> = self.job.dead_nodes().collect();
            let living = (1..self.startup.launch.universe).filter(|node| !dead.contains(node));
            living.for_each(|node| self.send(node, &Message::NewLife));
        }
    }

    /// Sends queued copies and answers; those for the same node share a packet.
    fn flush(&mut self) {
        self.flush_loggers();
        if let Some(network) = &mut self.network {
            network.flush();
        }
    }

    /// Does all work that is due.
    fn elapse(&mut self, now: Time) {
        let mut sightings = std::mem::take(&mut self.sightings);
        self.look_for_suspension(now);
        self.watch.look(now, &self.segment, &mut sightings);
        for sighting in sightings.drain(..) {
            self.saw(sighting, now);
        }
        self.sightings = sightings;
        self.end_hanging(now);
        if let Some(loss) = self.runtime.look(now, self.startup.me == 0 || self.watch.has_living(&self.segment)) {
            self.runtime_lost(loss, now);
        }
        if self.ending.is_none() && self.leaves_at.is_some_and(|at| now >= at) {
            self.leave(now);
        }
        // This process was delayed: it has handled inputs that arrived meanwhile first.
        if now >= self.link_deadline().saturating_add(LATE) {
            self.take_datagrams(now);
        }
        self.look_at_flag(now);
        match &mut self.link {
            Link::Meeting(rendezvous) if self.ending.is_none() => {
                if now >= rendezvous.deadline() {
                    rendezvous.tick(now, &mut self.steps);
                    self.follow_steps(now);
                }
            }
            Link::Meeting(_) => {}
            Link::Offloaded(_) => self.continue_with_service(now),
            Link::Ring(member) => {
                if now >= member.next_deadline() {
                    member.tick(now, &mut self.actions);
                }
            }
        }
        self.look_for_readiness(now);
        if now >= self.defaults_due {
            self.watch.log_defaults(&self.segment);
            self.defaults_due = now + DEFAULTS_INTERVAL;
        }
        self.perform(now);
        if self.startup.me != 0 && self.watch.has_registered(&self.segment) {
            // The rank ended before MPI_Init, where the other ranks of this node wait for it.
            if let Some(rank) = self.job.take_ended() {
                self.rank_is_dead(rank, RankReason::Exited { status: 0 }, now);
            }
        }
        self.judge(now);
        self.continue_loggers(now);
        self.continue_groups(now);
        self.continue_chronicle(now);
        self.control.flush();
        self.go_on_with_questions(now);
        if let Some(ending) = &mut self.ending {
            let has_ended = self.runtime.has_ended();
            let is_due = ending.runtime_ends_by.take_if(|at| has_ended || now >= *at).is_some();
            if is_due && (ending.kills_runtime || self.runtime.is_stopped()) {
                self.fence_runtime(now);
            }
        }
    }

    /// Reports once to node 0 when every rank of this node has left `MPI_Init`.
    fn look_for_readiness(&mut self, now: Time) {
        let registers = self.startup.launch.ranks_register;
        let waits = self.link.is_ring() && !self.ready_told;
        let are_initialised = || self.watch.all_initialised(&self.segment, |rank| !self.startup.is_program(rank));
        if !waits || (registers && !are_initialised()) {
            return;
        }
        self.ready_told = true;
        if !self.refused.contains(&setup::Right::Memory) {
            setup::read_memory();
        }
        self.watch.log_unserved(&self.segment);
        self.defaults_due = now;
        match &mut self.link {
            Link::Meeting(_) => {}
            Link::Ring(member) => member.ready(now, &mut self.actions),
            Link::Offloaded(host) => host.tell(&ToService::Ready),
        }
    }

    /// At node 0: ends the job if it cannot continue.
    fn judge(&mut self, now: Time) {
        // Deaths that follow from prterun's end say nothing about the job, and no process remains to tell the user.
        if !self.judges() || self.runtime.is_leaving() {
            return;
        }
        if self.job.all_ready() && self.segment.flags() & FLAG_ALL_READY == 0 {
            info!("every rank has left MPI_Init");
            self.segment.set_flags(FLAG_ALL_READY);
        }
        // A rank in MPI_Init waits for all ranks; but a job need not use MPI.
        if self.watch.has_registered(&self.segment) || self.job.has_ready_nodes() {
            self.job.miss_who_ended(now);
        }
        if let Some((reason, sentence)) = self.job.verdict(now) {
            self.end_job(reason, sentence, now);
        }
    }

    fn judges(&self) -> bool {
        self.startup.me == 0 && self.ending.is_none() && self.link.is_ring()
    }

    /// Time of the next turn without an event: about once a period, which also serves as heartbeat for the plugin.
    fn deadline(&self, now: Time) -> Time {
        let ending = self.ending.as_ref().map_or(Time::MAX, |ending| {
            let settled_at = if now < ending.settled_at { ending.settled_at } else { Time::MAX };
            ending.exit_by.min(settled_at).min(ending.runtime_ends_by.unwrap_or(Time::MAX))
        });
        let network = self.network.as_ref().map_or(Time::MAX, |network| network.deadline(now));
        let hurry = self.control.has_backlog() || self.status.as_ref().is_some_and(Server::is_busy);
        let unfinished = if hurry { now + Duration::from_millis(1) } else { Time::MAX };
        let hanging = self.hung_up.iter().map(|(_, until)| *until).min().unwrap_or(Time::MAX);
        let judgement = if self.judges() { self.job.deadline() } else { Time::MAX };
        [
            self.link_deadline(),
            ending,
            network,
            unfinished,
            hanging,
            judgement,
            self.watch.deadline(),
            self.runtime.deadline(),
            self.status.as_ref().map_or(Time::MAX, Server::deadline),
        ]
        .into_iter()
        .chain([self.chronicle.deadline(now, self.link.is_ring())])
        .chain(self.loggers.as_ref().map(|loggers| loggers.deadline(now)))
        .chain(self.groups.as_ref().map(Groups::deadline))
        // Later than a slightly late heartbeat, which would otherwise cause two wakeups.
        .fold(now + self.period() * 5 / 4, Time::min)
        // A lower bound, so that no module can make the loop occupy a processor.
        .max(now + Duration::from_micros(50))
    }

    /// The time between two heartbeats of this node.
    fn period(&self) -> Duration {
        match &self.link {
            Link::Ring(member) => member.period(),
            Link::Meeting(_) | Link::Offloaded(_) => self.startup.launch.parameters.period,
        }
    }

    fn link_deadline(&self) -> Time {
        match &self.link {
            Link::Meeting(_) | Link::Offloaded(_) if self.ending.is_some() => Time::MAX,
            Link::Meeting(rendezvous) => rendezvous.deadline(),
            Link::Ring(member) => member.next_deadline(),
            Link::Offloaded(host) => host.deadline(),
        }
    }

    fn is_done(&self, now: Time) -> bool {
        let Some(ending) = &self.ending else { return false };
        let told = match &self.link {
            Link::Meeting(_) | Link::Offloaded(_) => true,
            Link::Ring(member) => member.drained(),
        };
        let patience = now < ending.exit_by;
        let settled = self.has_settled(ending, now);
        // A process that turns out to be a rank may have to be killed, too.
        let busy = self.control.has_backlog() || self.watch.is_asking();
        ending.runtime_ends_by.is_none() && (!patience || (told && settled && !busy))
    }

    fn fence_is_on(&self) -> bool {
        self.startup.launch.parameters.fence
    }

    fn end_job(&mut self, reason: EndReason, sentence: String, now: Time) {
        self.sentence = Some(sentence);
        match &mut self.link {
            Link::Ring(member) => {
                member.end(now, reason, &mut self.actions);
                self.perform(now);
            }
            // Only node 0 ends a job, and it runs its own part.
            Link::Meeting(_) | Link::Offloaded(_) => self.stop(propagation::StopReason::Ended(reason), now),
        }
    }
}
