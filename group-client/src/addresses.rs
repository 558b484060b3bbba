//! Where the processes are, and which of their addresses work.
//!
//! A process tells all its addresses when it joins. A datagram goes to all of them until the first genuine one has come
//! back, and then to the address that this one came from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use recommended_group::units::Rank;

/// Most addresses that a process tells.
pub const MOST: usize = 6;
/// Bytes that all addresses of a process take.
pub const BYTES: usize = 128;

/// Addresses of this machine's interfaces that others may reach: of IPv4, or of IPv6 if there are none.
fn of_interfaces() -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for one in getifaddrs().into_iter().flatten() {
        let is_usable = one.flags.contains(InterfaceFlags::IFF_UP) && !one.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let Some(address) = one.address.filter(|_| is_usable) else { continue };
        let v6 = address.as_sockaddr_in6().map(|address| address.ip()).filter(|ip| !ip.is_unicast_link_local());
        found.extend(address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip())));
        found.extend(v6.map(IpAddr::V6));
    }
    let has_v4 = found.iter().any(IpAddr::is_ipv4);
    found.retain(|ip| ip.is_ipv4() == has_v4);
    found.truncate(MOST);
    if found.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { found }
}

/// A socket for the datagrams of this process, and its addresses.
///
/// # Errors
/// If the system has no sockets left.
pub fn open() -> io::Result<(UdpSocket, Vec<SocketAddr>)> {
    let ips = of_interfaces();
    let any: IpAddr = if ips.iter().any(IpAddr::is_ipv4) { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    let port = socket.local_addr()?.port();
    Ok((socket, ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()))
}

/// The addresses of a process, as it tells them.
///
/// # Panics
/// Never: [`MOST`] of them have room.
#[must_use]
pub fn write(addresses: &[SocketAddr]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    postcard::to_slice(&addresses[..addresses.len().min(MOST)], &mut bytes).expect("there is room");
    bytes
}

/// What a process has told.
#[must_use]
pub fn read(bytes: &[u8; BYTES]) -> Vec<SocketAddr> {
    postcard::take_from_bytes::<Vec<SocketAddr>>(bytes).map_or_else(|_| Vec::new(), |(all, _)| all)
}

/// The addresses of all processes.
#[derive(Debug)]
pub struct Addresses(Vec<Vec<SocketAddr>>);

impl Addresses {
    /// As all have told them, by rank.
    #[must_use]
    pub fn new(told: Vec<Vec<SocketAddr>>) -> Self {
        Self(told)
    }

    /// Where to send to.
    #[must_use]
    pub fn of(&self, rank: Rank) -> &[SocketAddr] {
        self.0.get(rank as usize).map_or(&[], Vec::as_slice)
    }

    /// A genuine datagram has come from there.
    pub fn heard(&mut self, rank: Rank, from: SocketAddr) {
        if let Some(known) = self.0.get_mut(rank as usize).filter(|known| **known != [from]) {
            *known = vec![from];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_were_told_are_read_again_and_strange_bytes_are_none() {
        let all: Vec<SocketAddr> =
            (1..=9).map(|last| SocketAddr::new([0xfd00, 1, 2, 3, 4, 5, 6, last].into(), 65_535)).collect();
        assert_eq!(read(&write(&all)), all[..MOST]);
        assert_eq!(read(&write(&[])), []);
        assert_eq!(read(&[255; BYTES]), []);
    }

    #[test]
    fn the_address_of_the_last_genuine_datagram_is_used() {
        let [one, two] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 7)));
        let mut addresses = Addresses::new(vec![vec![one, two], vec![one]]);
        assert_eq!(addresses.of(0), [one, two]);
        addresses.heard(0, two);
        addresses.heard(9, two);
        assert_eq!((addresses.of(0), addresses.of(1), addresses.of(9)), (&[two][..], &[one][..], &[][..]));
    }

    #[test]
    fn a_process_has_an_address_on_which_it_hears() {
        let (socket, addresses) = open().unwrap();
        assert!(!addresses.is_empty());
        socket.set_nonblocking(false).unwrap();
        socket.send_to(&[7], addresses[0]).unwrap();
        let mut bytes = [0; 2];
        assert_eq!(socket.recv(&mut bytes).unwrap(), 1);
    }
}
