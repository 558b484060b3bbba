//! Datagrams as they pass the bridge.

use std::io;
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

/// Waits until so many datagrams to a port of a host have passed, and returns what they carry.
///
/// # Panics
/// If they do not come.
#[must_use]
pub fn sniff(host: &str, port: u16, count: usize) -> Vec<Vec<u8>> {
    let socket = open(&host.replace('h', "v"))
        .unwrap_or_else(|error| panic!("the link of {host} cannot be listened to: {error}"));
    let (limit, mut found, mut frame) = (now() + Duration::from_secs(10), Vec::new(), vec![0; 65_536]);
    while found.len() < count {
        assert!(now() < limit, "{count} datagrams pass to port {port} of {host}");
        // SAFETY: writes at most the length of the buffer into it.
        let length = unsafe { libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        let Ok(length) = usize::try_from(length) else { continue };
        found.extend(payload(&frame[..length], port).map(<[u8]>::to_vec));
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

/// What a frame carries to a UDP port over IPv4.
fn payload(frame: &[u8], port: u16) -> Option<&[u8]> {
    let packet = frame.get(ETHERNET..)?;
    let header = usize::from(packet.first()? & 15) * 4;
    let is_udp = packet[0] >> 4 == 4 && *packet.get(9)? == PROTOCOL_UDP;
    let datagram = packet.get(header..)?;
    let number = |at: usize| Some(u16::from_be_bytes([*datagram.get(at)?, *datagram.get(at + 1)?]));
    (is_udp && number(2)? == port).then(|| datagram.get(UDP..usize::from(number(4)?))).flatten()
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
        assert_eq!(payload(&frame, 9), Some(&b"abc"[..]));
        assert_eq!(payload(&frame, 7), None);
        assert_eq!(payload(&frame[..30], 9), None);
    }
}
