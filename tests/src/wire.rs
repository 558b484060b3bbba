//! Datagrams as they pass the bridge.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::clock::now;

/// `ETH_P_ALL` of `linux/if_ether.h`.
const EVERYTHING: u16 = 3;
/// Lengths of the headers of Ethernet and UDP.
pub(crate) const ETHERNET: usize = 14;
const UDP: usize = 8;
/// Number of UDP in the header of IPv4.
const PROTOCOL_UDP: u8 = 17;
/// The receiver's address in the header of IPv4.
const DESTINATION: Range<usize> = 16..20;

/// Waits until so many datagrams to a port of a host have passed, and returns what they carry.
///
/// # Panics
/// If they do not come.
#[must_use]
pub fn sniff(host: &str, port: u16, count: usize) -> Vec<Vec<u8>> {
    let socket = open(&host.replace('h', "v"))
        .unwrap_or_else(|error| panic!("the link of {host} cannot be listened to: {error}"));
    let number = host.trim_start_matches('h').parse().expect("the name of a host is h and its number");
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, number), port);
    let (limit, mut found, mut frame) = (now() + Duration::from_secs(10), Vec::new(), vec![0; 65_536]);
    while found.len() < count {
        assert!(now() < limit, "{count} datagrams pass to port {port} of {host}");
        // SAFETY: writes at most the length of the buffer into it.
        let length = unsafe { libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        let Ok(length) = usize::try_from(length) else { continue };
        found.extend(payload(&frame[..length], to).map(<[u8]>::to_vec));
    }
    found
}

/// An interface, for sockets that send and receive whole frames.
pub(crate) fn address(interface: &str) -> io::Result<libc::sockaddr_ll> {
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: a system call with a terminated name; zero is a value of every field of the struct.
    let (index, mut address) =
        unsafe { (libc::if_nametoindex(name.as_ptr()), std::mem::zeroed::<libc::sockaddr_ll>()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = EVERYTHING.to_be();
    address.sll_ifindex = i32::try_from(index).unwrap_or(0);
    Ok(address)
}

/// A socket that receives every frame of an interface; it waits for one for a second.
pub(crate) fn open(interface: &str) -> io::Result<OwnedFd> {
    let address = address(interface)?;
    // SAFETY: system calls with structs whose sizes are given with them; the descriptor is fresh.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(EVERYTHING.to_be()));
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let wait = libc::timeval { tv_sec: 1, tv_usec: 0 };
        let size = |bytes: usize| u32::try_from(bytes).expect("a small struct");
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const wait).cast(), size(size_of_val(&wait)));
        if libc::bind(fd, (&raw const address).cast(), size(size_of_val(&address))) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

/// What a frame carries to a UDP port over IPv4. All nodes of a job may have the same port.
fn payload(frame: &[u8], to: SocketAddrV4) -> Option<&[u8]> {
    let packet = frame.get(ETHERNET..)?;
    let header = usize::from(packet.first()? & 15) * 4;
    let is_udp = packet[0] >> 4 == 4 && *packet.get(9)? == PROTOCOL_UDP;
    let datagram = packet.get(header..)?;
    let number = |at: usize| Some(u16::from_be_bytes([*datagram.get(at)?, *datagram.get(at + 1)?]));
    let is_meant = packet.get(DESTINATION)? == to.ip().octets() && number(2)? == to.port();
    (is_udp && is_meant).then(|| datagram.get(UDP..usize::from(number(4)?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datagrams_to_the_port_count() {
        let mut frame = vec![0; ETHERNET];
        frame.extend([0x45, 0, 0, 31, 0, 0, 0, 0, 64, PROTOCOL_UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 7, 0, 9, 0, 11, 0, 0]);
        frame.extend(b"abc\0padding");
        let at = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        assert_eq!(payload(&frame, at(2, 9)), Some(&b"abc"[..]));
        assert_eq!(payload(&frame, at(2, 7)), None);
        assert_eq!(payload(&frame, at(1, 9)), None);
        assert_eq!(payload(&frame[..30], at(2, 9)), None);
    }
}
