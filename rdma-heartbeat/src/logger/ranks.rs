//! Manages the socket on which ranks of this node call the event logger, and their connections.
//!
//! Any process of the node may call. Accepted is a process of the job's user whose number a rank has written into the
//! node's segment. After any other call, or one of a process that is connected already, the socket rests, so that many
//! calls cost one check per rest.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt, listen, recv, send,
    socket, sockopt,
};
use node_abi::event_loggers::{FromLogger, LONGEST_PACKET, ToLogger};
use platform::poller::Poller;
use propagation::Time;

use crate::process::token::Token;

/// Maximum number of callers that are checked before heartbeats are handled again.
const CALLERS_PER_TURN: usize = 8;
/// How long the socket rests.
const REST: Duration = Duration::from_millis(50);

/// The socket.
pub struct Ranks {
    socket: OwnedFd,
    rests_until: Option<Time>,
}

/// A connection.
pub struct Connection {
    socket: OwnedFd,
    /// The process at the other end.
    pub pid: i32,
    outbox: VecDeque<Vec<u8>>,
    buffer: Box<[u8]>,
    is_closed: bool,
}

/// The kind of a calling process of the job's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is a rank of this node.
    Rank,
    /// It is a rank with a connection, which the new one replaces.
    Connected,
    /// It is no rank.
    Stranger,
}

/// The result of reading a connection.
#[derive(Debug)]
pub enum Received {
    /// A packet.
    Packet(ToLogger),
    /// Nothing yet.
    Nothing,
    /// The other end is closed, or sent an invalid packet.
    Closed,
}

impl Ranks {
    /// Listens under a name of the abstract namespace.
    ///
    /// # Errors
    /// If the name is taken or the system refuses.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        listen(&socket, Backlog::MAXALLOWABLE)?;
        Ok(Self { socket, rests_until: None })
    }

    /// The descriptor that becomes readable when a process calls.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Accepts callers.
    pub fn let_in(&mut self, now: Time, poller: &Poller, known: impl Fn(i32) -> Known) -> Vec<Connection> {
        let (mut connections, mut is_calm) = (Vec::<Connection>::new(), true);
        for _ in 0..CALLERS_PER_TURN {
            let Some(socket) = self.accept() else { break };
            let caller = getsockopt(&socket, sockopt::PeerCredentials).ok();
            let caller = caller.filter(|caller| caller.uid() == nix::unistd::geteuid().as_raw());
            let Some(pid) = caller.map(|caller| caller.pid()).filter(|pid| known(*pid) != Known::Stranger) else {
                is_calm = false;
                continue;
            };
            is_calm &= known(pid) == Known::Rank && connections.iter().all(|connection| connection.pid != pid);
            connections.retain(|connection| connection.pid != pid);
            connections.push(Connection::new(socket, pid));
        }
        if !is_calm {
            poller.remove(&self.socket);
            self.rests_until = Some(now + REST);
        }
        connections
    }

    fn accept(&self) -> Option<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = accept4(self.socket.as_raw_fd(), flags).ok()?;
        // SAFETY: the kernel has just made it, without another owner.
        Some(unsafe { OwnedFd::from_raw_fd(socket) })
    }

    /// Listens again when the rest is over.
    pub fn go_on(&mut self, now: Time, poller: &Poller) {
        if self.rests_until.take_if(|until| now >= *until).is_some() && poller.add(&self.socket, Token::Logger).is_err()
        {
            self.rests_until = Some(now + REST);
        }
    }

    /// Time at which [`Ranks::go_on`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.rests_until.unwrap_or(Time::MAX)
    }
}

impl Connection {
    fn new(socket: OwnedFd, pid: i32) -> Self {
        let buffer = vec![0; LONGEST_PACKET].into_boxed_slice();
        Self { socket, pid, outbox: VecDeque::new(), buffer, is_closed: false }
    }

    /// Takes the next packet.
    pub fn receive(&mut self) -> Received {
        if self.is_closed {
            return Received::Closed;
        }
        loop {
            return match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => Received::Nothing,
                Err(_) | Ok(0) => Received::Closed,
                Ok(length) => postcard::from_bytes(&self.buffer[..length]).map_or(Received::Closed, Received::Packet),
            };
        }
    }

    /// Sends a packet now or, if the rank is slow, with a later [`Connection::flush`].
    pub fn send(&mut self, packet: &FromLogger) {
        if let Ok(bytes) = postcard::to_stdvec(packet) {
            // A newer message of this kind replaces a pending one.
            if matches!(packet, FromLogger::Stable { .. }) && self.outbox.back().is_some_and(|last| last[0] == bytes[0])
            {
                self.outbox.pop_back();
            }
            self.outbox.push_back(bytes);
            self.flush();
        }
    }

    /// Sends pending packets.
    pub fn flush(&mut self) {
        while let Some(bytes) = self.outbox.front() {
            match send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return,
                Err(_) => {
                    self.is_closed = true;
                    self.outbox.clear();
                    return;
                }
                Ok(_) => drop(self.outbox.pop_front()),
            }
        }
    }

    /// Whether packets are pending.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.outbox.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use platform::testing::as_stranger;

    use super::*;

    fn caller(name: &str) -> OwnedFd {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        nix::sys::socket::connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
        socket
    }

    fn open(test: &str) -> (String, Ranks, Poller) {
        let name = format!("{test}-{}", std::process::id());
        let (ranks, poller) = (Ranks::open(&name).unwrap(), Poller::new().unwrap());
        poller.add(ranks.descriptor(), Token::Logger).unwrap();
        (name, ranks, poller)
    }

    fn is_heard(poller: &mut Poller) -> bool {
        let mut ready = Vec::<Token>::new();
        poller.wait(Time::ZERO, &mut ready).unwrap();
        !ready.is_empty()
    }

    #[test]
    fn who_is_no_rank_is_turned_away_and_a_storm_of_calls_is_looked_at_once_in_a_rest() {
        let (name, mut ranks, mut poller) = open("ranks-test");
        let now = Time::from_secs(1);
        let _strange = caller(&name);
        assert!(ranks.let_in(now, &poller, |_| Known::Stranger).is_empty());
        let _first = caller(&name);
        assert!(!is_heard(&mut poller));
        ranks.go_on(ranks.deadline() - Duration::from_nanos(1), &poller);
        assert!(!is_heard(&mut poller));
        ranks.go_on(ranks.deadline(), &poller);
        assert!(is_heard(&mut poller));
        assert_eq!(ranks.let_in(now, &poller, |_| Known::Rank).len(), 1);
        assert_eq!(ranks.deadline(), Time::MAX);
        // One process has one connection.
        let _both = (caller(&name), caller(&name));
        assert_eq!(ranks.let_in(now, &poller, |_| Known::Rank).len(), 1);
        assert!(ranks.deadline() < Time::MAX);
    }

    #[test]
    fn another_user_is_turned_away() {
        let (name, mut ranks, poller) = open("rank-stranger-test");
        let Some(_strange) = as_stranger(|| caller(&name)) else { return };
        assert!(ranks.let_in(Time::from_secs(1), &poller, |_| Known::Rank).is_empty());
        assert!(ranks.deadline() < Time::MAX);
    }

    #[test]
    fn what_is_stable_waits_once_for_a_rank_that_does_not_read() {
        let (name, mut ranks, poller) = open("rank-slow-test");
        let other = caller(&name);
        let mut connection = ranks.let_in(Time::from_secs(1), &poller, |_| Known::Rank).remove(0);
        for id in 1..10_000 {
            let position = event_log::logger::round::Position { id, ..Default::default() };
            connection.send(&FromLogger::Stable { position, output: 0 });
        }
        assert_eq!(connection.outbox.len(), 1);
        let (mut buffer, mut last) = ([0; 64], 0);
        loop {
            connection.flush();
            let Ok(length) = recv(other.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) else { break };
            let Ok(FromLogger::Stable { position, .. }) = postcard::from_bytes(&buffer[..length]) else { panic!() };
            assert!(position.id > last);
            last = position.id;
        }
        assert_eq!(last, 9999);
        drop(other);
        assert!(matches!(connection.receive(), Received::Closed));
    }
}
