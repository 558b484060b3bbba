//! Runs the side of the host: starts the service on the other machine, raises the host's flag there, and exchanges
//! packets with it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use node_abi::launch::{Carrier, Startup};
use node_abi::seal::{Direction, Opener, Sealer};
use node_abi::versions::Call;
use platform::bell::Bell;
use platform::inquiry::{Inquiries, STACK};
use platform::poller::Poller;
use propagation::{Action, Message, NodeId, RankReason, Time};
use tracing::{error, info, warn};

use super::machine::{command, resolve, towards};
use super::pipe::Pipe;
use super::{Assignment, FromService, ToService, View, workshop};
use crate::process::token::Token;
use crate::session::control::Received;
use crate::session::rendezvous;
use crate::transport::{FlagCounters, Flags};

/// Maximum number of services within one incarnation of the host's daemon, from the range of incarnation numbers.
const LIVES: u32 = 256;
/// Delay before a service that was a member of the ring is replaced.
const RESTART: Duration = Duration::from_millis(5);
/// Time between two starts of the service before there was one.
const RETRY: Duration = Duration::from_millis(500);
/// Time limit to resolve the other machine's name; without an address there are no flags.
const RESOLUTION: Duration = Duration::from_millis(300);

/// News for the daemon of the host.
pub enum News {
    /// The nodes know each other, and the service is one of them. Sent after each of its starts.
    Joined(Vec<SocketAddr>),
    /// An action of the member.
    Act(Action),
    /// A message that the protocol only forwards.
    Arrived(NodeId, Message),
    /// The service is lost, or has no contact with node 0: this node takes no further part.
    CutOff,
}

/// The machine that serves this host.
pub struct Host {
    server: String,
    /// The command that starts the service there.
    command: Vec<String>,
    assignment: Assignment,
    /// The thread that starts the remote shell, whose program may have to come from a disk.
    starts: Inquiries<Vec<String>, io::Result<Child>>,
    bell: Bell,
    child: Option<Child>,
    pipe: Option<Pipe>,
    flags: Flags,
    /// The source of the other machine's address.
    resolution: Option<Receiver<IpAddr>>,
    peer: Option<IpAddr>,
    is_joined: bool,
    /// Whether an earlier service was a member: then a replacement must be as fast as that of a restarted daemon.
    was_joined: bool,
    first_life: u32,
    lives: u32,
    start_at: Time,
    /// Time until which the service must have sent something.
    patience: Time,
    next_beat: Time,
    view: View,
}

impl Host {
    /// A host to be served by `server`.
    ///
    /// # Errors
    /// If the process has no threads or descriptors left.
    pub fn new(host: &str, server: &str, mut startup: Startup, dead: Vec<NodeId>, now: Time) -> io::Result<Self> {
        let (launch, me) = (&startup.launch, startup.me);
        let parameters = &launch.parameters;
        let limit = if startup.roster.is_some() { parameters.timeout } else { rendezvous::limit(parameters.timeout) };
        // Until the other machine's address is known.
        let flags = Flags::new(None, false, launch.key, me, startup.incarnation, parameters.timeout);
        let port = startup.roster.as_ref().and_then(|roster| roster.get(me as usize)).map_or(0, SocketAddr::port);
        let command = command(&launch.agent, server, host);
        let first_life = startup.incarnation.saturating_mul(LIVES);
        let was_joined = startup.roster.is_some();
        // Useless elsewhere.
        startup.runtime_pid = 0;
        let bell = Bell::new()?;
        Ok(Self {
            starts: Inquiries::start(&bell, |command: Vec<String>| start_shell(&command))?,
            bell,
            server: server.to_owned(),
            command,
            assignment: Assignment { host: host.to_owned(), startup, dead, held: false, address: None, port },
            child: None,
            pipe: None,
            flags,
            resolution: Some(resolve(server)),
            peer: None,
            is_joined: false,
            was_joined,
            first_life,
            lives: 0,
            start_at: now,
            patience: now + limit,
            next_beat: now,
            view: View::default(),
        })
    }

    /// Readable when [`Host::tick`] has work before its deadline.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Whether the service is a member of the ring.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Announces the death of a rank.
    pub fn announce(&mut self, rank: u32, reason: RankReason) {
        self.tell(&ToService::RankDead { rank, reason });
    }

    /// Sends a message.
    pub fn send(&mut self, to: NodeId, message: &Message) {
        self.tell(&ToService::Send { to, message: message.clone() });
    }

    /// Sends a packet to the service. If there is none, the next one gets all that it needs when it starts.
    pub fn tell(&mut self, packet: &ToService) {
        if let Some(pipe) = &mut self.pipe {
            pipe.send(packet);
        }
    }

    /// Handles packets of the service.
    pub fn take(&mut self, now: Time, poller: &Poller, out: &mut Vec<News>) {
        self.bell.clear();
        let timeout = self.assignment.startup.launch.parameters.timeout;
        while let Some(pipe) = &mut self.pipe {
            let packet = match pipe.receive() {
                Received::Packet(packet) => packet,
                Received::Nothing => return,
                Received::Closed => {
                    warn!(server = %self.server, "the service of this host has ended; it is started again");
                    self.lose(now, poller);
                    return;
                }
                Received::Unknown => {
                    warn!(server = %self.server, "what comes from the remote shell is not from ringwatchd of this version: does the login there print something? The service is started again");
                    self.lose(now, poller);
                    return;
                }
            };
            self.patience = self.patience.max(now + timeout);
            match packet {
                FromService::Bound(port) => self.assignment.port = port,
                FromService::Beat(view) => self.view = view,
                FromService::Word(word) => {
                    let (me, place) = (self.assignment.startup.me, self.place());
                    if let Some(answer) = self.flags.take(now, me, place, &word) {
                        self.tell(&ToService::Word(answer));
                    }
                }
                FromService::Roster(roster) => {
                    (self.is_joined, self.was_joined) = (true, true);
                    // No longer than a timeout from here on.
                    self.patience = now + timeout;
                    self.assignment.startup.roster = Some(roster.clone());
                    out.push(News::Joined(roster));
                }
                FromService::NoAnswer => out.push(News::CutOff),
                FromService::Act(action) => out.push(News::Act(action)),
                FromService::Arrived { from, message } => out.push(News::Arrived(from, message)),
            }
        }
    }

    /// Does all work that is due: the flag, and the replacement of an ended service. `known` returns the dead nodes,
    /// and whether the ranks are held.
    pub fn tick(&mut self, now: Time, known: impl Fn() -> (Vec<NodeId>, bool), poller: &Poller, out: &mut Vec<News>) {
        let timeout = self.assignment.startup.launch.parameters.timeout;
        if now > self.deadline().saturating_add(timeout / 2) {
            // This process was paused, and the other one possibly with it.
            self.patience = self.patience.max(now + timeout);
        } else if now >= self.patience {
            self.take(now, poller, out);
        }
        if now >= self.patience {
            error!(server = %self.server, "no contact with the machine that serves this host");
            self.patience = Time::MAX;
            out.push(News::CutOff);
            return;
        }
        self.look_for_peer(now);
        self.take_started(poller);
        if self.is_to_start() && now >= self.start_at {
            (self.assignment.dead, self.assignment.held) = known();
            self.start(now);
        }
        let me = self.assignment.startup.me;
        while let Some((_, word)) = self.flags.tend(now) {
            self.tell(&ToService::Word(word));
        }
        if now >= self.next_beat {
            self.next_beat = now + self.assignment.startup.launch.parameters.period;
            if !self.flags.raise(me) {
                self.tell(&ToService::Beat);
            }
        }
        if let Some(pipe) = &mut self.pipe {
            pipe.flush();
        }
    }

    /// When to call [`Host::tick`] next.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let start = if self.is_to_start() { self.start_at } else { Time::MAX };
        self.next_beat.min(self.patience).min(start)
    }

    /// Whether another service must be started.
    fn is_to_start(&self) -> bool {
        self.pipe.is_none() && self.starts.open() == 0 && self.resolution.is_none() && self.lives < LIVES
    }

    /// Takes the address of the other machine when it is known, or cannot be resolved.
    fn look_for_peer(&mut self, now: Time) {
        let Some(resolution) = &self.resolution else { return };
        match resolution.try_recv() {
            Ok(peer) => {
                let Startup { launch, me, incarnation, .. } = &self.assignment.startup;
                let parameters = &launch.parameters;
                let (insists, workshop) = (parameters.transport == Carrier::Verbs, workshop(parameters, Some(peer)));
                self.flags = Flags::new(workshop, insists, launch.key, *me, *incarnation, parameters.timeout);
                self.flags.settle(None, Some(*me));
                self.peer = Some(peer);
                self.assignment.address = towards(peer);
            }
            Err(TryRecvError::Empty) if now < self.start_at + RESOLUTION => return,
            Err(_) => {
                info!(server = %self.server, "has no address that is known here: the flag of this host goes as packets");
            }
        }
        self.resolution = None;
    }

    fn start(&mut self, now: Time) {
        self.assignment.startup.incarnation = self.first_life + self.lives;
        self.lives += 1;
        self.start_at = now + RETRY;
        self.starts.ask(self.command.clone());
    }

    /// Takes over started remote shells.
    fn take_started(&mut self, poller: &Poller) {
        while let Some(started) = self.starts.collect() {
            match started.and_then(|child| self.speak_with(child, poller)) {
                Ok(pid) => info!(server = %self.server, pid, life = self.lives, "the service of this host is started"),
                Err(error) => warn!(command = ?self.command, %error, "the service of this host cannot be started"),
            }
        }
    }

    fn speak_with(&mut self, mut child: Child, poller: &Poller) -> io::Result<u32> {
        let ends = child.stdout.take().zip(child.stdin.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let mut pipe = Pipe::new(ends.0.into(), ends.1.into())?;
        poller.add(pipe.descriptor(), Token::Offload)?;
        let Assignment { host, startup, .. } = &self.assignment;
        pipe.send(&Call { contact: startup.launch.contact(), node: startup.me, host: host.clone() });
        pipe.send(&self.assignment);
        pipe.authenticate(Sealer::new(startup, Direction::ToService), Opener::new(startup, Direction::FromService));
        let pid = child.id();
        (self.child, self.pipe) = (Some(child), Some(pipe));
        Ok(pid)
    }

    /// Handles a service that has ended, or a broken connection to it.
    fn lose(&mut self, now: Time, poller: &Poller) {
        let timeout = self.assignment.startup.launch.parameters.timeout;
        self.close(poller);
        self.flags.asked(self.assignment.startup.me);
        self.is_joined = false;
        if self.was_joined {
            // Delayed: the last one's requests are handled first.
            self.start_at = now + RESTART;
            // The other nodes allow it this time, too.
            self.patience = self.patience.min(now + timeout);
        }
    }

    fn close(&mut self, poller: &Poller) {
        if let Some(pipe) = self.pipe.take() {
            poller.remove(pipe.descriptor());
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            // It may hang in a system call, so there is no wait for it.
            let _ = thread::Builder::new().name("reaper".into()).stack_size(STACK).spawn(move || child.wait());
        }
    }

    fn place(&self) -> SocketAddr {
        SocketAddr::new(self.peer.unwrap_or(IpAddr::from([0, 0, 0, 0])), 0)
    }

    /// Name of the other machine.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Means of the host's flags, if they are not packets.
    #[must_use]
    pub fn means(&self) -> Option<&'static str> {
        self.flags.outgoing()
    }

    /// Counters of the flags.
    #[must_use]
    pub fn counters(&self) -> &FlagCounters {
        self.flags.counters()
    }

    /// The service's view of the ring.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }
}

fn start_shell(command: &[String]) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

impl Drop for Host {
    fn drop(&mut self) {
        // The service ends with its input, once it has forwarded the end of the job; so does the remote shell.
        self.pipe = None;
    }
}
