//! Runs the side of the machine that serves a host: `ringwatchd --for HOST`. It is the host's node in the ring.
//!
//! It ends with its input. Without an end of the job to forward it sends nothing then, because the host's daemon may
//! only have been restarted and will start another service. If the host falls silent instead, this node has itself
//! declared dead when the host's last flag is one timeout old.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use node_abi::launch::{Carrier, LAUNCH_VERSION};
use node_abi::refusing;
use node_abi::seal::{Direction, Opener, Sealer};
use node_abi::versions::{Call, RELEASE, Refusal};
use platform::clock;
use platform::poller::Poller;
use platform::say;
use propagation::{Action, Config, Member, Message, StopReason, Time};
use serde::de::DeserializeOwned;
use tracing::{error, info, warn};

use super::pipe::Pipe;
use super::{Assignment, FromService, View, port, workshop};
use crate::process::token::Token;
use crate::process::{logging, setup};
use crate::ring::{neighbours, settings};
use crate::session::control::Received;
use crate::session::network::Network;
use crate::session::rendezvous::{self, Rendezvous, Step};
use crate::transport::{Flags, Udp};

mod inputs;

/// Number of heartbeats of the service to the host in a timeout.
const BEATS: u32 = 4;
/// Additional time of a service for a host that does not close the connection: it may have records to send.
const LINGER: Duration = Duration::from_secs(2);

/// The reason why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input does not come from a host's `ringwatchd`.
    #[error(
        "ringwatchd --for {0} is started by ringwatchd of that host, of the same version, and hears it on its standard input"
    )]
    Stranger(String),
    /// The host has another release.
    #[error(
        "{host} has ringwatch {release}, and this machine, which is to serve it, {RELEASE}: install the same release on both"
    )]
    Release {
        /// The host that called.
        host: String,
        /// Its release.
        release: String,
    },
    /// Another host has called.
    #[error("ringwatchd --for {expected} was called by host {caller}")]
    Caller {
        /// The host that is served.
        expected: String,
        /// The host that called.
        caller: String,
    },
    /// The job's settings cannot work.
    #[error("{0}")]
    Settings(#[from] propagation::ConfigError),
    /// There is no usable network socket.
    #[error("no UDP socket can be opened for the host: {0}")]
    Socket(io::Error),
    /// The operating system refused a required operation.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Waits for the next packet without limit; `None` if there is none, or another kind.
fn next<T: DeserializeOwned>(pipe: &mut Pipe) -> Option<T> {
    loop {
        match pipe.receive() {
            Received::Packet(packet) => return Some(packet),
            Received::Nothing => {
                let _ = poll(&mut [PollFd::new(pipe.descriptor(), PollFlags::POLLIN)], PollTimeout::NONE);
            }
            Received::Closed | Received::Unknown => return None,
        }
    }
}

/// This machine and the host that it serves, for messages.
fn serving(host: &str) -> String {
    format!("{}, which is to serve {host}", say::host())
}

/// Reports to node 0 that this machine does not serve the host, until the host has disconnected.
fn refuse(call: &Call, pipe: &mut Pipe) {
    let refusal = Refusal::of_releases(call.node, serving(&call.host), RELEASE, RELEASE);
    let until = clock::now() + refusing::LIMIT;
    // This release cannot understand further packets of the host.
    while clock::now() < until && !pipe.discard() {
        refusing::send(&call.contact, &refusal);
        std::thread::sleep(refusing::INTERVAL);
    }
}

/// Serves a host until its part in the job is over.
///
/// # Errors
/// If it cannot start.
pub fn run(host: &str, input: OwnedFd, output: OwnedFd) -> Result<(), Failure> {
    let mut pipe = Pipe::new(input, output)?;
    let stranger = || Failure::Stranger(host.to_owned());
    let call: Call = next(&mut pipe).ok_or_else(stranger)?;
    if (call.contact.version, call.contact.release.as_str()) != (LAUNCH_VERSION, RELEASE) {
        refuse(&call, &mut pipe);
        return Err(Failure::Release { host: call.host, release: call.contact.release });
    }
    let assignment: Assignment = next(&mut pipe).ok_or_else(stranger)?;
    if assignment.host != host {
        return Err(Failure::Caller { expected: host.to_owned(), caller: assignment.host });
    }
    let startup = &assignment.startup;
    pipe.authenticate(Sealer::new(startup, Direction::FromService), Opener::new(startup, Direction::ToService));
    logging::start(&assignment.startup.launch, assignment.startup.me);
    let mut refused = setup::prepare();
    let service = Service::new(assignment, pipe)?;
    setup::lock_the_rest(&mut refused);
    setup::read_memory();
    setup::complain(&refused, logging::has_file());
    service.serve()
}

enum Link {
    Meeting(Rendezvous),
    Ring(Box<Member>),
}

struct Service {
    assignment: Assignment,
    config: Config,
    pipe: Pipe,
    is_closed: bool,
    network: Network,
    /// Between this node and its neighbours.
    flags: Flags,
    /// From the host.
    host_flags: Flags,
    host_address: SocketAddr,
    /// When the host was last known to be alive.
    host_seen: Time,
    is_silent: bool,
    next_beat: Time,
    link: Link,
    exit_by: Time,
    poller: Poller,
    actions: Vec<Action>,
    steps: Vec<Step>,
}

impl Service {
    fn new(mut assignment: Assignment, mut pipe: Pipe) -> Result<Self, Failure> {
        let (startup, now) = (&mut assignment.startup, clock::now());
        let roster = startup.roster.take();
        let (launch, me, incarnation) = (&startup.launch, startup.me, startup.incarnation);
        let parameters = &launch.parameters;
        let config = settings::config(startup);
        config.validate()?;
        let socket = port::bind(assignment.port, parameters.ports).map_err(Failure::Socket)?;
        let port = socket.local_addr()?.port();
        pipe.send(&FromService::Bound(port));
        let transport = Udp::new(socket.into()).map_err(Failure::Socket)?;
        let network = Network::new(Box::new(transport), launch, me, incarnation);
        let insists = parameters.transport == Carrier::Verbs;
        // Before the RDMA device is opened, which serves only threads with the opener's rights.
        setup::give_up_capabilities(None, false);
        let own = workshop(parameters, assignment.address);
        let mut host_flags = Flags::new(own, insists, launch.key, me, incarnation, parameters.timeout);
        host_flags.settle(Some(me), None);
        let limit = rendezvous::limit(parameters.timeout);
        let host_address = SocketAddr::new(assignment.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0);
        let mut service = Self {
            config,
            pipe,
            is_closed: false,
            network,
            flags: neighbours::flags(launch, me, incarnation, launch.universe > 1),
            host_flags,
            host_address,
            host_seen: now,
            is_silent: false,
            next_beat: now,
            link: Link::Meeting(Rendezvous::new(me, launch.universe, port, &launch.rendezvous, now, limit)),
            exit_by: Time::MAX,
            poller: Poller::new()?,
            actions: Vec::new(),
            steps: Vec::new(),
            assignment,
        };
        if let Some(roster) = roster {
            service.join(roster, now);
        }
        Ok(service)
    }

    fn serve(mut self) -> Result<(), Failure> {
        let (host, node) = (self.assignment.host.as_str(), self.assignment.startup.me);
        let (incarnation, pid) = (self.assignment.startup.incarnation, std::process::id());
        info!(host, node, incarnation, pid, "serves");
        self.poller.add(self.pipe.descriptor(), Token::Offload)?;
        for descriptor in self.network.descriptors() {
            self.poller.add(descriptor, Token::Network)?;
        }
        let (mut ready, mut planned) = (Vec::new(), Time::MAX);
        loop {
            let now = clock::now();
            if now > planned.saturating_add(self.config.timeout / 2) {
                warn!("was kept from running, and gives the host another timeout");
                self.host_seen = now;
            }
            self.take_heartbeats(now);
            for token in &ready {
                match token {
                    Token::Offload => self.take_packets(now),
                    _ => self.take_datagrams(now),
                }
            }
            self.network.flush();
            self.elapse(now);
            self.network.flush();
            if self.is_done(now) {
                info!(host = self.assignment.host.as_str(), "ended");
                return Ok(());
            }
            planned = self.deadline(now);
            self.poller.wait(planned, &mut ready)?;
        }
    }

    fn join(&mut self, roster: Vec<SocketAddr>, now: Time) {
        self.network.set_roster(&roster);
        let dead = self.assignment.dead.iter().copied();
        let mut member = Member::new(self.config.clone(), dead, now);
        if self.assignment.held {
            member.keep_holding(&mut self.actions);
        }
        self.link = Link::Ring(Box::new(member));
        let view = self.view(now);
        self.pipe.send(&FromService::Beat(view));
        self.pipe.send(&FromService::Roster(roster));
    }

    fn elapse(&mut self, now: Time) {
        self.look_at_host(now);
        match &mut self.link {
            Link::Meeting(rendezvous) => {
                if now >= rendezvous.deadline() {
                    rendezvous.tick(now, &mut self.steps);
                    self.follow_steps(now);
                }
            }
            Link::Ring(member) => {
                neighbours::look(member, &mut self.flags, &mut self.network, now, &mut self.actions);
                member.tick(now, &mut self.actions);
                self.perform(now);
            }
        }
        if now >= self.next_beat {
            self.next_beat = now + self.config.timeout / BEATS;
            let view = self.view(now);
            self.pipe.send(&FromService::Beat(view));
        }
        self.pipe.flush();
    }

    /// Checks the host's flag, and handles a flag that was not raised for too long.
    fn look_at_host(&mut self, now: Time) {
        while let Some((_, word)) = self.host_flags.tend(now) {
            self.pipe.send(&FromService::Word(word));
        }
        if self.host_flags.look(now).is_some() {
            self.host_seen = now;
        }
        if now < self.host_seen + self.config.timeout || self.is_silent || self.is_closed {
            return;
        }
        self.take_packets(now);
        if now >= self.host_seen + self.config.timeout && !self.is_closed {
            self.is_silent = true;
            let host = self.assignment.host.as_str();
            error!(host, silence = ?self.config.timeout, "the host is silent: this node has itself declared dead");
            if matches!(self.link, Link::Meeting(_)) {
                // Then node 0 detects its absence.
                self.exit_by = now;
            }
            self.with_member(now, |member, out| member.resign(now, out));
        }
    }

    fn perform(&mut self, now: Time) {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Send { to, message: Message::Heartbeat { .. } } if self.flags.raise(to) => {}
                    Action::Send { to, message } => self.network.post(to, message),
                    action => {
                        if let Action::Stop(reason) = action {
                            self.stop(reason, now);
                        }
                        self.pipe.send(&FromService::Act(action));
                    }
                }
            }
        }
    }

    fn stop(&mut self, reason: StopReason, now: Time) {
        info!(%reason, "this node takes no further part");
        self.exit_by = self.exit_by.min(now + self.config.timeout * 2 + LINGER);
    }

    fn is_done(&self, now: Time) -> bool {
        let drained = match &self.link {
            Link::Meeting(_) => true,
            Link::Ring(member) => member.drained() || !member.is_stopped(),
        };
        now >= self.exit_by || (self.is_closed && drained)
    }

    fn deadline(&self, now: Time) -> Time {
        let link = match &self.link {
            Link::Meeting(rendezvous) => rendezvous.deadline(),
            Link::Ring(member) => member.next_deadline(),
        };
        let silence = if self.is_silent { Time::MAX } else { self.host_seen + self.config.timeout };
        let backlog = if self.pipe.has_backlog() { now + Duration::from_millis(1) } else { Time::MAX };
        [link, silence, backlog, self.network.deadline(now), self.next_beat, self.exit_by]
            .into_iter()
            .fold(now + self.config.period * 5 / 4, Time::min)
            .max(now + Duration::from_micros(50))
    }

    /// Always with the means: the host has none of its own.
    fn view(&self, now: Time) -> View {
        let Link::Ring(member) = &self.link else { return View::default() };
        let mut view = View::of(member, &self.flags, now);
        for means in [&mut view.emitter_means, &mut view.observer_means] {
            means.get_or_insert_with(|| self.network.name().into());
        }
        view
    }
}
