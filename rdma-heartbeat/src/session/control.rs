//! Manages the socket between the plugin and `ringwatchd`: whole packets, nonblocking, sealed once both ends have the
//! key.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockType, getsockopt, recv, send, sockopt};
use node_abi::launch::{self, MAX_PACKET};
use node_abi::seal::{Opener, Sealer, Seals};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::{error, warn};

/// The result of reading the socket.
#[derive(Debug)]
pub enum Received<T> {
    /// A packet.
    Packet(T),
    /// A packet of another version, or not sealed by the other end; it is dropped.
    Unknown,
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// One end of the control socket.
pub struct Control {
    socket: OwnedFd,
    seals: Seals,
    outbox: VecDeque<Vec<u8>>,
    outbox_bytes: usize,
    closed: bool,
}

impl Control {
    /// Takes over one end of a `SOCK_SEQPACKET` socket pair that a process of this user has made.
    ///
    /// # Errors
    /// If the descriptor is anything else.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        if getsockopt(&socket, sockopt::SockType)? != SockType::SeqPacket {
            return Err(io::Error::other("the control socket is not a packet socket"));
        }
        if getsockopt(&socket, sockopt::PeerCredentials)?.uid() != nix::unistd::getuid().as_raw() {
            return Err(io::Error::other("the control socket belongs to another user"));
        }
        Ok(Self { socket, seals: Seals::default(), outbox: VecDeque::new(), outbox_bytes: 0, closed: false })
    }

    /// Seals all packets from now on, and rejects unsealed ones.
    pub fn authenticate(&mut self, sealer: Sealer, opener: Opener) {
        self.seals = Seals::new(sealer, opener);
    }

    /// Takes the next packet.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Received<T> {
        if self.closed {
            return Received::Closed;
        }
        let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
        // No packet of this protocol is empty, so length 0 is the end.
        let length = match self.receive_bytes(&mut [], peek) {
            Err(Errno::EAGAIN) => return Received::Nothing,
            Err(_) | Ok(0) => return self.hang_up(),
            Ok(length) => length,
        };
        let mut bytes = vec![0; length.min(MAX_PACKET)];
        match self.receive_bytes(&mut bytes, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EAGAIN) => Received::Nothing,
            Err(_) | Ok(0) => self.hang_up(),
            Ok(_) => self.seals.read(&bytes).map_or(Received::Unknown, Received::Packet),
        }
    }

    /// Waits for one packet without limit.
    pub fn receive_first<T: DeserializeOwned>(&mut self) -> Received<T> {
        loop {
            let mut waiting = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                Err(_) => return Received::Closed,
                Ok(_) => {}
            }
            match self.receive() {
                Received::Nothing => {}
                other => return other,
            }
        }
    }

    fn receive_bytes(&self, buffer: &mut [u8], flags: MsgFlags) -> Result<usize, Errno> {
        loop {
            match recv(self.socket.as_raw_fd(), buffer, flags) {
                Err(Errno::EINTR) => {}
                other => return other,
            }
        }
    }

    fn hang_up<T>(&mut self) -> Received<T> {
        self.closed = true;
        self.outbox.clear();
        self.outbox_bytes = 0;
        Received::Closed
    }

    /// Sends a packet now or, if the other end is slow, with a later [`Control::flush`].
    pub fn send<T: Serialize>(&mut self, packet: &T) {
        if self.closed {
            return;
        }
        let Ok(mut bytes) = launch::encode(packet) else {
            error!("a packet to the plugin cannot be encoded");
            return;
        };
        if self.outbox_bytes + bytes.len() > MAX_PACKET {
            warn!("the plugin does not read; a packet to it is dropped");
            return;
        }
        self.seals.seal(&mut bytes);
        self.outbox_bytes += bytes.len();
        self.outbox.push_back(bytes);
        self.flush();
    }

    /// Sends pending packets as far as the other end has room.
    pub fn flush(&mut self) {
        while let Some(bytes) = self.outbox.front() {
            match send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return,
                Err(Errno::EMSGSIZE) => {
                    warn!(bytes = bytes.len(), "a packet to the plugin is too large and is dropped")
                }
                Err(_) => {
                    self.hang_up::<()>();
                    return;
                }
                Ok(_) => {}
            }
            self.outbox_bytes -= bytes.len();
            self.outbox.pop_front();
        }
    }

    /// Whether packets are pending for a later [`Control::flush`].
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.outbox.is_empty()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use node_abi::launch::{FromDaemon, Startup, ToDaemon};
    use node_abi::seal::Direction;
    use node_abi::testing::startup;
    use platform::testing::as_stranger;

    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, socketpair};

    fn pair(kind: SockType) -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    #[test]
    fn packets_arrive_whole_and_the_end_is_seen() {
        let (a, b) = pair(SockType::SeqPacket);
        let (mut a, mut b) = (Control::new(a).unwrap(), Control::new(b).unwrap());
        assert!(matches!(b.receive::<ToDaemon>(), Received::Nothing));
        a.send(&ToDaemon::ConnectionLost(3));
        a.send(&ToDaemon::Finished);
        assert!(matches!(b.receive(), Received::Packet(ToDaemon::ConnectionLost(3))));
        assert!(matches!(b.receive(), Received::Packet(ToDaemon::Finished)));
        drop(a);
        assert!(matches!(b.receive::<ToDaemon>(), Received::Closed));
        assert!(matches!(b.receive::<ToDaemon>(), Received::Closed));
    }

    #[test]
    fn what_the_other_end_does_not_read_waits_and_keeps_its_order() {
        let (a, b) = pair(SockType::SeqPacket);
        let (mut a, mut b) = (Control::new(a).unwrap(), Control::new(b).unwrap());
        let mut sent = 0u32;
        while !a.has_backlog() {
            a.send(&ToDaemon::ConnectionLost(sent));
            sent += 1;
        }
        for expected in 0..sent {
            assert!(matches!(b.receive(), Received::Packet(ToDaemon::ConnectionLost(n)) if n == expected));
            a.flush();
        }
        assert!(!a.has_backlog());
    }

    #[test]
    fn packets_that_the_other_end_has_not_sealed_are_refused() {
        let (a, b) = pair(SockType::SeqPacket);
        let stranger = a.try_clone().unwrap();
        let (mut a, mut b) = (Control::new(a).unwrap(), Control::new(b).unwrap());
        let startup = startup();
        let (to, from) = (Direction::ToDaemon, Direction::FromDaemon);
        a.send(&startup);
        assert!(matches!(b.receive(), Received::Packet(Startup { me: 1, .. })));
        a.authenticate(Sealer::new(&startup, to), Opener::new(&startup, from));
        b.authenticate(Sealer::new(&startup, from), Opener::new(&startup, to));
        let forged = launch::encode(&ToDaemon::Finished).unwrap();
        send(stranger.as_raw_fd(), &forged, MsgFlags::empty()).unwrap();
        a.send(&ToDaemon::ConnectionLost(3));
        b.send(&FromDaemon::Roster(Vec::new()));
        assert!(matches!(b.receive::<ToDaemon>(), Received::Unknown));
        assert!(matches!(b.receive(), Received::Packet(ToDaemon::ConnectionLost(3))));
        assert!(matches!(a.receive(), Received::Packet(FromDaemon::Roster(_))));
    }

    #[test]
    fn an_unknown_packet_and_a_foreign_socket_are_refused() {
        let (a, b) = pair(SockType::SeqPacket);
        send(a.as_raw_fd(), &[0xff; 40], MsgFlags::empty()).unwrap();
        assert!(matches!(Control::new(b).unwrap().receive::<ToDaemon>(), Received::Unknown));
        assert!(Control::new(pair(SockType::Stream).0).is_err());
        let Some((strangers, _)) = as_stranger(|| pair(SockType::SeqPacket)) else { return };
        assert!(Control::new(strangers).is_err());
    }
}
