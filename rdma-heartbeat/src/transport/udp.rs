//! Implements the transport over plain UDP, IPv4 or IPv6.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{SockType, getsockopt, setsockopt, sockopt};
use propagation::NodeId;
use tracing::info;

use super::Transport;
use super::lane::Lane;

/// Kernel memory for pending datagrams, in bytes: some hundred copies of a notice. The kernel may grant less.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Number of consecutive errors that one read of the socket ignores. The kernel reports each error once.
const ERRORS_PASSED_OVER: usize = 16;

/// A bound UDP socket, the one beside it for heartbeats, and the addresses of the nodes.
pub struct Udp {
    socket: UdpSocket,
    lane: Option<Lane>,
    is_v6: bool,
    roster: Vec<SocketAddr>,
}

impl Udp {
    /// Takes over a bound socket.
    ///
    /// # Errors
    /// If the descriptor is no bound UDP socket.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        if getsockopt(&socket, sockopt::SockType)? != SockType::Datagram {
            return Err(io::Error::other("the transport socket is not a datagram socket"));
        }
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        let is_v6 = socket.local_addr()?.is_ipv6();
        let lane = Lane::beside(&socket).map_err(|error| info!(%error, "heartbeats wake this daemon up")).ok();
        for socket in [&socket].into_iter().chain(lane.as_ref().map(Lane::socket)) {
            enlarge(socket);
        }
        Ok(Self { socket, lane, is_v6, roster: Vec::new() })
    }

    /// The address in the form of this socket's family.
    fn outward(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.is_v6 => {
                SocketAddr::V6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0))
            }
            other => other,
        }
    }
}

impl Transport for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn set_roster(&mut self, roster: &[SocketAddr]) {
        self.roster = roster.iter().map(|address| self.outward(*address)).collect();
    }

    fn send(&mut self, to: NodeId, datagram: &[u8]) {
        if let Some(address) = self.roster.get(to as usize) {
            let _ = self.socket.send_to(datagram, address);
        }
    }

    fn send_to(&mut self, to: SocketAddr, datagram: &[u8]) {
        let _ = self.socket.send_to(datagram, self.outward(to));
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        for _ in 0..ERRORS_PASSED_OVER {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) => return Some((length, inward(from))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => {}
            }
        }
        None
    }

    fn receive_heartbeat(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr, Duration)> {
        let lane = self.lane.as_mut()?;
        for _ in 0..ERRORS_PASSED_OVER {
            match lane.receive(buffer) {
                Ok((length, from, age)) => return Some((length, inward(from), age)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => {}
            }
        }
        None
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }
}

/// Enlarges the receive buffer. It only reduces losses in bursts, so a refusal does not matter.
fn enlarge(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
}

/// An address in the form that every other node can use: IPv4 in its own form even if it arrived through an IPv6
/// socket.
fn inward(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(address: &str) -> Option<(Udp, SocketAddr)> {
        let socket = UdpSocket::bind(address).ok()?;
        let address = socket.local_addr().ok()?;
        Some((Udp::new(socket.into()).ok()?, address))
    }

    fn receive(udp: &mut Udp) -> (Vec<u8>, SocketAddr) {
        let limit = platform::clock::now() + std::time::Duration::from_secs(10);
        let mut buffer = [0; 8];
        loop {
            if let Some((length, from)) = udp.receive(&mut buffer) {
                return (buffer[..length].to_vec(), from);
            }
            assert!(platform::clock::now() < limit, "in time");
        }
    }

    #[test]
    fn datagrams_find_their_node_and_long_ones_are_cut() {
        let (mut a, address_a) = bound("127.0.0.1:0").unwrap();
        let (mut b, address_b) = bound("127.0.0.1:0").unwrap();
        a.send(1, b"too early");
        a.set_roster(&[address_a, address_b]);
        a.send(1, b"hello");
        assert_eq!(receive(&mut b), (b"hello".to_vec(), address_a));
        a.send_to(address_b, b"more than fits");
        assert_eq!(receive(&mut b).0, b"more tha");
        a.send(7, b"nobody");
        assert!(b.receive(&mut [0; 8]).is_none());
    }

    #[test]
    fn an_ipv6_socket_speaks_with_ipv4_addresses() {
        let Some((mut six, _)) = bound("[::]:0") else { return };
        let (mut four, address) = bound("127.0.0.1:0").unwrap();
        six.send_to(address, b"6 to 4");
        let (bytes, from) = receive(&mut four);
        assert_eq!(bytes, b"6 to 4");
        four.send_to(from, b"back");
        let (bytes, from) = receive(&mut six);
        assert_eq!((bytes, from), (b"back".to_vec(), address));
    }

    #[test]
    fn a_foreign_descriptor_is_refused() {
        assert!(Udp::new(std::fs::File::open("/dev/null").unwrap().into()).is_err());
    }
}
