//! The loop that joins all the others: inputs in, actions out.
//!
//! | file | part |
//! |---|---|
//! | this one | what the daemon consists of, its loop, and time |
//! | `inputs` | what arrives: packets of the plugin, datagrams, ends of processes |
//! | `neighbours` | heartbeats that are flags |
//! | `served` | what another machine carries for this host |
//! | `outcome` | what follows: facts, the end of the job, the end of this node |
//! | `report` | the status report |
//! | `chronicle` | the history |
//! | `pause` | the job or this daemon is kept from running |
//!
//! A daemon lives through up to three stages: *meeting* (the addresses of the other nodes are not known), *watching*
//! (a member of the ring) and *ending* (the others may still need to hear from it). All inputs are served in all
//! stages; deaths of ranks that are seen while meeting wait for the ring.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use propagation::{Action, Config, EndReason, Member, Message, RankReason, RingOrder, Time};
use tracing::{info, warn};

use crate::control::{Control, Received};
use crate::greeting::ToolKey;
use crate::history::Event;
use crate::job::Job;
use crate::launch::{LAUNCH_VERSION, Startup};
use crate::lifeline::Lifelines;
use crate::network::Network;
use crate::offload::{self, Host, News, ToService};
use crate::pin::PinError;
use crate::poller::{Poller, Token};
use crate::regularity::Regularity;
use crate::rendezvous::{self, Rendezvous, Step};
use crate::runtime::Runtime;
use crate::seal::{Direction, Opener, Sealer};
use crate::segment::{FLAG_ALL_READY, FLAG_HELD, Segment, SegmentError};
use crate::setup::Right;
use crate::status::Server;
use crate::suspension::Suspension;
use crate::transport::{Flags, Udp};
use crate::watch::{Sighting, Watch};
use crate::{clock, leftovers, logging, setup};
use chronicle::Chronicle;

mod chronicle;
mod inputs;
pub(crate) mod neighbours;
mod outcome;
mod pause;
mod report;
mod served;

/// Delay of a turn of the loop from which on more may have happened than the poller had told.
const LATE: Duration = Duration::from_millis(1);

/// How long a runtime daemon may be stopped where ranks may be for ever, if the job is not suspended.
const STOPPED_RUNTIME: Duration = Duration::from_secs(2);
/// How often it is looked for defaults that a rank has changed since `MPI_Init`.
const DEFAULTS_INTERVAL: Duration = Duration::from_secs(1);

/// Why a daemon could not start, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The first packet is none, or none of this version.
    #[error("ringwatchd {} and the plugin that started it are of different versions", crate::versions::RELEASE)]
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
    /// The operating system refused something that has to work.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Whether the daemon knows the other nodes.
enum Link {
    Meeting(Rendezvous),
    Ring(Box<Member>),
    /// Another machine knows them for it.
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
    /// Not before this may the daemon exit: it may yet hear something for the history.
    settled_at: Time,
    /// When the runtime daemon must have ended, unless the others, or it itself, are left to end it.
    runtime_ends_by: Option<Time>,
    /// Whether it is killed then whatever it does. If not, only one that is stopped is: it hears of nothing.
    kills_runtime: bool,
    /// Whether ranks that appear only now are to be ended, too.
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
    /// At node 0: what a late caller is told.
    roster: Vec<SocketAddr>,
    /// Deaths of ranks that wait for the ring.
    waiting: Vec<(u32, RankReason)>,
    /// Ranks of this node that the runtime has lost but whose processes live, and when they are ended.
    hung_up: Vec<(u32, Time)>,
    /// The plugin said that the job is over.
    finished: bool,
    /// When this node leaves, whose runtime daemon has left after the end of its ranks, unless somebody says why before.
    leaves_at: Option<Time>,
    ready_told: bool,
    /// When it is looked again for changed defaults.
    defaults_due: Time,
    /// The runtime daemon is lost, and the others are being told.
    resigned: bool,
    /// An earlier incarnation died while it held the ranks.
    held_before: bool,
    /// At node 0: the sentence for the user, once it has ended the job.
    sentence: Option<String>,
    ending: Option<Ending>,
    status: Option<Server>,
    chronicle: Chronicle,
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
pub fn run(mut control: Control, socket: Option<OwnedFd>, segment: &OwnedFd) -> Result<(), Failure> {
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
    let refused = setup::prepare();
    // Of the others' standard error nobody knows where it goes, and one line for each job is enough.
    let loud = startup.me == 0 || logging::has_file();
    let mut daemon = Daemon::new(startup, control, socket, segment, refused)?;
    setup::lock_the_rest(&mut daemon.refused);
    setup::complain(&daemon.refused, loud);
    daemon.serve()
}

impl Daemon {
    fn new(
        startup: Startup,
        control: Control,
        socket: Option<OwnedFd>,
        segment: &OwnedFd,
        refused: Vec<Right>,
    ) -> Result<Self, Failure> {
        let (launch, me, now) = (&startup.launch, startup.me, clock::now());
        let parameters = &launch.parameters;
        config(&startup).validate()?;
        let lifelines =
            Lifelines::start(segment).map_err(|error| warn!(%error, "deaths are seen at their end only")).ok();
        let segment = Segment::open(segment)?;
        segment.call_all();
        // Whoever stops mpirun itself, with Ctrl-Z say, means the job to wait. The other daemons no debugger stops.
        let stop_limit = parameters.stop_timeout.unwrap_or(STOPPED_RUNTIME);
        let runtime = Runtime::new(startup.runtime_pid, startup.runtime_started, (me != 0).then_some(stop_limit), now)
            .map_err(|error| Failure::Runtime(startup.runtime_pid, error))?;
        let host = logging::host();
        let server = offload::server_of(parameters, &host).filter(|_| me != 0 && launch.universe > 1);
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
        // Before the RDMA device is opened, which serves only threads with the rights of the one that did. What serves this
        // host is started by a remote shell, which the site may have made to need what root has.
        setup::give_up_capabilities(Some(startup.runtime_pid), server.is_some());
        let flags = neighbours::flags(launch, me, startup.incarnation, network.is_some());
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
        Ok(Self {
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
        if let Some(server) = &self.status {
            self.poller.add(server.descriptor(), Token::Status)?;
        }
        if let Some(feed) = &self.chronicle.feed {
            self.poller.add(feed.descriptor(), Token::Feed)?;
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
            self.segment.beat();
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

    /// Becomes a member of the ring; what was seen before is announced.
    fn join(&mut self, roster: Vec<SocketAddr>, now: Time) {
        if let Some(network) = &mut self.network {
            network.set_roster(&roster);
        }
        self.roster = roster;
        let mut member = Member::new(config(&self.startup), self.job.dead_nodes(), now);
        if self.held_before {
            member.keep_holding(&mut self.actions);
        }
        // Nobody knows whether an earlier incarnation came to announce what it had written into the log.
        for rank in self.startup.own_ranks().filter(|rank| self.job.is_dead(*rank)) {
            member.announce_rank(now, rank, RankReason::Reported, &mut self.actions);
        }
        for (rank, reason) in self.waiting.drain(..) {
            member.announce_rank(now, rank, reason, &mut self.actions);
        }
        let (emitter, observer) = (member.emitter(), member.observer());
        info!(?emitter, ?observer, "watching");
        self.chronicle.note(now, Event::Watching { emitter, observer });
        self.link = Link::Ring(Box::new(member));
        self.perform(now);
        if self.startup.me == 0 && self.startup.incarnation > 0 {
            // What the others have recorded, they have told the daemon before this one.
            let dead: Vec<_> = self.job.dead_nodes().collect();
            let living = (1..self.startup.launch.universe).filter(|node| !dead.contains(node));
            living.for_each(|node| self.send(node, &Message::NewLife));
        }
    }

    /// Sends the copies and answers that came up since the last time, those for the same node together.
    fn flush(&mut self) {
        if let Some(network) = &mut self.network {
            network.flush();
        }
    }

    /// Does what time asks for.
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
        // This process was kept waiting, and what has arrived meanwhile came first.
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
            // It never came to MPI_Init, where the others of this node wait for it.
            if let Some(rank) = self.job.take_ended() {
                self.rank_is_dead(rank, RankReason::Exited { status: 0 }, now);
            }
        }
        self.judge(now);
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

    /// Tells node 0, once, when every rank of this node has left `MPI_Init`.
    fn look_for_readiness(&mut self, now: Time) {
        let registers = self.startup.launch.ranks_register;
        let waits = self.link.is_ring() && !self.ready_told;
        let are_initialised = || self.watch.all_initialised(&self.segment, |rank| !self.startup.is_program(rank));
        if !waits || (registers && !are_initialised()) {
            return;
        }
        self.ready_told = true;
        self.watch.log_unserved(&self.segment);
        self.defaults_due = now;
        match &mut self.link {
            Link::Meeting(_) => {}
            Link::Ring(member) => member.ready(now, &mut self.actions),
            Link::Offloaded(host) => host.tell(&ToService::Ready),
        }
    }

    /// At node 0: ends the job if it cannot go on.
    fn judge(&mut self, now: Time) {
        // What dies with prterun says nothing about the job, and nobody would tell the user.
        if !self.judges() || self.runtime.is_leaving() {
            return;
        }
        if self.job.all_ready() && self.segment.flags() & FLAG_ALL_READY == 0 {
            info!("every rank has left MPI_Init");
            self.segment.set_flags(FLAG_ALL_READY);
        }
        // Whoever is in MPI_Init waits for everybody; but a job need not use MPI at all.
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

    /// When to turn next although nothing happens: about once a period, which is also the sign of life for the plugin.
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
        ]
        .into_iter()
        .chain([self.chronicle.deadline(now, self.link.is_ring())])
        // Later than a heartbeat that is a little late, or it would wake up twice for it.
        .fold(now + self.startup.launch.parameters.period * 5 / 4, Time::min)
        // Whatever a module asks for: never a loop that keeps the processor from everybody else.
        .max(now + Duration::from_micros(50))
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
        // Who turns out to be a rank may have to be ended, too.
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
            // Only node 0 ends a job, and it carries its own part.
            Link::Meeting(_) | Link::Offloaded(_) => self.stop(propagation::StopReason::Ended(reason), now),
        }
    }
}

/// The settings of this node's member.
pub(crate) fn config(startup: &Startup) -> Config {
    let parameters = &startup.launch.parameters;
    let config = Config::new(startup.me, startup.launch.universe, parameters.period, parameters.timeout);
    let order = match startup.launch.ring.as_slice() {
        [] => RingOrder::default(),
        // The same at every node, so that all would do without it alike.
        ring => RingOrder::new(ring.to_vec()).unwrap_or_default(),
    };
    Config { incarnation: startup.incarnation, order, strategy: parameters.strategy, ..config }
}
