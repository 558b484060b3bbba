//! The side of the host: starts the service on the other machine, raises the host's flag there, and carries what the
//! two sides say to each other.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use propagation::{Action, Message, NodeId, RankReason, Time};
use tracing::{error, info, warn};

use super::pipe::Pipe;
use super::{Assignment, FromService, ToService, View, workshop};
use crate::control::Received;
use crate::launch::{Carrier, Startup};
use crate::poller::{Poller, Token};
use crate::rendezvous;
use crate::transport::{FlagCounters, Flags};

/// Lives of the service that the numbers of incarnations have room for, within one life of the host's daemon.
const LIVES: u32 = 256;
/// Shortest time between two starts of the service.
const RESTART: Duration = Duration::from_millis(20);

/// What the daemon of the host has to do.
pub enum News {
    /// The nodes know each other, and the service is one of them: so it is after each of its starts.
    Joined(Vec<SocketAddr>),
    /// What the member asks for.
    Act(Action),
    /// A message that the protocol only carries.
    Arrived(NodeId, Message),
    /// The service is lost, or has no contact with node 0: this node takes no further part.
    CutOff,
}

/// The machine that serves this host.
pub struct Host {
    server: String,
    /// What starts the service there.
    command: Vec<String>,
    assignment: Assignment,
    child: Option<Child>,
    pipe: Option<Pipe>,
    flags: Flags,
    peer: Option<IpAddr>,
    is_joined: bool,
    /// Whether it was in an earlier life of the service: then it must come back as fast as a daemon that is restarted.
    was_joined: bool,
    first_life: u32,
    lives: u32,
    start_at: Time,
    /// Until when the service must have been heard.
    patience: Time,
    next_beat: Time,
    view: View,
}

impl Host {
    /// A host that `server` is to serve.
    #[must_use]
    pub fn new(host: &str, server: &str, mut startup: Startup, dead: Vec<NodeId>, now: Time) -> Self {
        let (launch, me) = (&startup.launch, startup.me);
        let parameters = &launch.parameters;
        let peer = address_of(server);
        let limit = if startup.roster.is_some() { parameters.timeout } else { rendezvous::limit(parameters.timeout) };
        let insists = parameters.transport == Carrier::Verbs;
        let workshop = workshop(parameters, peer);
        let mut flags = Flags::new(workshop, insists, launch.key, me, startup.incarnation, parameters.timeout);
        flags.settle(None, Some(me));
        let port = startup.roster.as_ref().and_then(|roster| roster.get(me as usize)).map_or(0, SocketAddr::port);
        let command = command(&launch.agent, server, host);
        let first_life = startup.incarnation.saturating_mul(LIVES);
        let was_joined = startup.roster.is_some();
        // Of no use elsewhere.
        startup.runtime_pid = 0;
        Self {
            server: server.to_owned(),
            command,
            assignment: Assignment { host: host.to_owned(), startup, dead, address: peer.and_then(towards), port },
            child: None,
            pipe: None,
            flags,
            peer,
            is_joined: false,
            was_joined,
            first_life,
            lives: 0,
            start_at: now,
            patience: now + limit,
            next_beat: now,
            view: View::default(),
        }
    }

    /// Whether the service is a member of the ring.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Has a rank announced as dead.
    pub fn announce(&mut self, rank: u32, reason: RankReason) {
        self.tell(&ToService::RankDead { rank, reason });
    }

    /// Has a message sent.
    pub fn send(&mut self, to: NodeId, message: &Message) {
        self.tell(&ToService::Send { to, message: message.clone() });
    }

    /// Says something to the service; if there is none, the next one is told what it must know when it starts.
    pub fn tell(&mut self, packet: &ToService) {
        if let Some(pipe) = &mut self.pipe {
            pipe.send(packet);
        }
    }

    /// Takes what the service says.
    pub fn take(&mut self, now: Time, poller: &Poller, out: &mut Vec<News>) {
        let timeout = self.assignment.startup.launch.parameters.timeout;
        while let Some(pipe) = &mut self.pipe {
            let packet = match pipe.receive() {
                Received::Packet(packet) => packet,
                Received::Nothing => return,
                Received::Closed | Received::Unknown => {
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

    /// Does what is due: the flag, and another start of a service that has ended.
    pub fn tick(&mut self, now: Time, dead: impl Fn() -> Vec<NodeId>, poller: &Poller, out: &mut Vec<News>) {
        let timeout = self.assignment.startup.launch.parameters.timeout;
        if now > self.deadline().saturating_add(timeout / 2) {
            // This process was paused, and the other one perhaps with it.
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
        if self.pipe.is_none() && now >= self.start_at && self.lives < LIVES {
            self.assignment.dead = dead();
            self.start(now, poller);
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
        let start = if self.pipe.is_none() && self.lives < LIVES { self.start_at } else { Time::MAX };
        self.next_beat.min(self.patience).min(start)
    }

    fn start(&mut self, now: Time, poller: &Poller) {
        self.assignment.startup.incarnation = self.first_life + self.lives;
        self.lives += 1;
        self.start_at = now + RESTART;
        match self.spawn(poller) {
            Ok(pid) => {
                info!(server = %self.server, pid, life = self.lives, "the service of this host is started");
                let assignment = self.assignment.clone();
                if let Some(pipe) = &mut self.pipe {
                    pipe.send(&assignment);
                }
            }
            Err(error) => warn!(command = ?self.command, %error, "the service of this host cannot be started"),
        }
    }

    fn spawn(&mut self, poller: &Poller) -> std::io::Result<u32> {
        let (program, arguments) = self.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let ends = child.stdout.take().zip(child.stdin.take()).ok_or(std::io::ErrorKind::BrokenPipe)?;
        let pipe = Pipe::new(ends.0.into(), ends.1.into())?;
        poller.add(pipe.descriptor(), Token::Offload)?;
        let pid = child.id();
        (self.child, self.pipe) = (Some(child), Some(pipe));
        Ok(pid)
    }

    /// The service has ended, or the way to it is broken.
    fn lose(&mut self, now: Time, poller: &Poller) {
        warn!(server = %self.server, "the service of this host has ended; it is started again");
        let timeout = self.assignment.startup.launch.parameters.timeout;
        self.close(poller);
        self.flags.asked(self.assignment.startup.me);
        self.is_joined = false;
        if self.was_joined {
            // What the others allow it, too.
            self.patience = self.patience.min(now + timeout);
        }
    }

    fn close(&mut self, poller: &Poller) {
        if let Some(pipe) = self.pipe.take() {
            poller.remove(pipe.descriptor());
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
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

    /// How the host's flags go there, if not as packets.
    #[must_use]
    pub fn means(&self) -> Option<&'static str> {
        self.flags.outgoing()
    }

    /// What became of them.
    #[must_use]
    pub fn counters(&self) -> &FlagCounters {
        self.flags.counters()
    }

    /// How the service sees the ring.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The service ends with its input, once it has passed on the end of the job; so does the remote shell.
        self.pipe = None;
    }
}

/// What starts the service: the remote shell hands the last word to a shell there.
fn command(agent: &str, server: &str, host: &str) -> Vec<String> {
    let daemon = std::env::current_exe().map_or_else(|_| "ringwatchd".into(), |path| path.display().to_string());
    let quoted = daemon.replace('\'', r"'\''");
    let remote = format!("exec '{quoted}' --for {host}");
    agent.split_whitespace().map(str::to_owned).chain([server.to_owned(), remote]).collect()
}

/// The address behind a name such as `user@machine`.
fn address_of(server: &str) -> Option<IpAddr> {
    let name = server.rsplit('@').next()?;
    (name, 0).to_socket_addrs().ok()?.next().map(|address| address.ip())
}

/// The address of this machine from which packets go to a peer.
fn towards(peer: IpAddr) -> Option<IpAddr> {
    let unspecified: SocketAddr = if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(unspecified).ok()?;
    // Nothing is sent: the kernel only decides on the way.
    socket.connect((peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_started_by_the_remote_shell() {
        let words = command("rsh -x", "user@dpu1", "n1");
        assert_eq!(words[..3], ["rsh", "-x", "user@dpu1"]);
        assert!(words[3].starts_with("exec '/") && words[3].ends_with("' --for n1"), "{}", words[3]);
    }

    #[test]
    fn addresses_are_known_for_names_with_a_user() {
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!((address_of("somebody@127.0.0.1"), towards(local)), (Some(local), Some(local)));
    }
}
