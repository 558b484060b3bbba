//! Packets to and from `ringwatchd`, without waiting.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, recv, send, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use node_abi::event_loggers::{FromLogger, LONGEST_PACKET, ToLogger};

/// An open connection.
pub struct Connection {
    socket: OwnedFd,
}

/// What a look found.
pub enum Received {
    /// A packet.
    Packet(FromLogger),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Closed,
}

impl Connection {
    /// Connects to the socket of this name in the abstract namespace.
    ///
    /// # Errors
    /// If nobody listens there, or another user does.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        if getsockopt(&socket, sockopt::PeerCredentials)?.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the event logger's socket is another user's"));
        }
        Ok(Self { socket })
    }

    /// Sends a packet if there is room. Returns whether there was.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&self, packet: &ToLogger) -> io::Result<bool> {
        let bytes = postcard::to_stdvec(packet).map_err(io::Error::other)?;
        loop {
            match send(self.socket.as_raw_fd(), &bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return Ok(false),
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(true),
            }
        }
    }

    /// Takes the next packet.
    pub fn receive(&self, buffer: &mut Vec<u8>) -> Received {
        buffer.resize(LONGEST_PACKET, 0);
        loop {
            return match recv(self.socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => Received::Nothing,
                Err(_) | Ok(0) => Received::Closed,
                // Whoever says something else is no logger of this release.
                Ok(length) => postcard::from_bytes(&buffer[..length]).map_or(Received::Closed, Received::Packet),
            };
        }
    }

    /// Waits for a packet, at most so long.
    pub fn wait(&self, most: Duration) {
        let mut waiting = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        // A signal only ends the wait early.
        let _ = ppoll(&mut waiting, Some(TimeSpec::from_duration(most)), None);
    }
}
