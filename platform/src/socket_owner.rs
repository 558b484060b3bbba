//! The user at the other end of a TCP connection within this host, by the kernel's word. What a process says of itself
//! over the connection may be a lie; this is not.

use std::io::{self, Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, getpeername, getsockname, recv, send,
    socket,
};

/// `TCP_ESTABLISHED`. A socket in another state may have no owner any more, and is root's then.
const ESTABLISHED: u8 = 1;
/// `TCP_LISTEN`. Where nothing is connected, the kernel names a socket that listens.
const LISTENS: u8 = 10;
/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;

/// What is at the other end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    /// An open socket of this network namespace, made by this user.
    User(u32),
    /// A socket of this network namespace that was closed.
    Closed,
    /// Something beyond this network namespace, that has this address.
    Elsewhere(IpAddr),
}

/// Asks the kernel for the other end of a TCP connection.
///
/// # Errors
/// If the descriptor is no connected TCP socket, or the kernel does not tell of its sockets.
pub fn other_end(connection: impl AsFd) -> io::Result<OtherEnd> {
    let descriptor = connection.as_fd().as_raw_fd();
    let (there, here) = (address(getpeername(descriptor)?)?, address(getsockname(descriptor)?)?);
    // The kernel may have no sock_diag.
    let found = ask(there, here).or_else(|_| look_up(there, here))?;
    // One that was closed may be forgotten. A host may call itself from any address of its own.
    let is_own = || Ok::<_, Error>(there.ip() == here.ip() || is_own_address(there.ip())?);
    Ok(match found {
        Some(end) => end,
        None if is_own()? => OtherEnd::Closed,
        None => OtherEnd::Elsewhere(there.ip()),
    })
}

/// Whether it is an address of this network namespace.
fn is_own_address(address: IpAddr) -> io::Result<bool> {
    let is_it = |storage: SockaddrStorage| self::address(storage).is_ok_and(|own| own.ip() == address);
    Ok(address.is_loopback() || getifaddrs()?.filter_map(|interface| interface.address).any(is_it))
}

/// What a socket in this state is, that this user has made.
fn end_in(state: u8, user: u32) -> OtherEnd {
    if state == ESTABLISHED { OtherEnd::User(user) } else { OtherEnd::Closed }
}

fn address(storage: SockaddrStorage) -> io::Result<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::from((address.ip(), address.port())));
    let v6 = storage.as_sockaddr_in6().map(|address| SocketAddr::from((address.ip().to_canonical(), address.port())));
    v4.or(v6).ok_or_else(|| Error::new(ErrorKind::Unsupported, "it is no TCP socket"))
}

// --- sock_diag(7) --------------------------------------------------------------

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Length of `struct inet_diag_msg`.
const ANSWER: usize = 72;

/// Asks for the one socket at `there` that is connected with `here`.
fn ask(there: SocketAddr, here: SocketAddr) -> io::Result<Option<OtherEnd>> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    send(netlink.as_raw_fd(), &request(there, here), MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    owner_in(&answer[..length], there.port(), here.port())
}

fn request(there: SocketAddr, here: SocketAddr) -> [u8; HEADER + REQUEST] {
    let mut bytes = [0; HEADER + REQUEST];
    bytes[..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    let body = &mut bytes[HEADER..];
    body[0] = if there.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    body[1] = libc::IPPROTO_TCP as u8;
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    body[8..10].copy_from_slice(&there.port().to_be_bytes());
    body[10..12].copy_from_slice(&here.port().to_be_bytes());
    for (at, address) in [(12, there.ip()), (28, here.ip())] {
        match address {
            IpAddr::V4(address) => body[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => body[at..at + 16].copy_from_slice(&address.octets()),
        }
    }
    // INET_DIAG_NOCOOKIE
    body[48..56].fill(0xff);
    bytes
}

fn owner_in(answer: &[u8], there: u16, here: u16) -> io::Result<Option<OtherEnd>> {
    let unknown = || Error::new(ErrorKind::InvalidData, "the kernel's answer about a socket is none");
    let kind = u16::from_ne_bytes(answer.get(4..6).and_then(|kind| kind.try_into().ok()).ok_or_else(unknown)?);
    let body = &answer[HEADER.min(answer.len())..];
    if i32::from(kind) == libc::NLMSG_ERROR {
        let error = i32::from_ne_bytes(body.get(..4).and_then(|error| error.try_into().ok()).ok_or_else(unknown)?);
        return if -error == Errno::ENOENT as i32 { Ok(None) } else { Err(Error::from_raw_os_error(-error)) };
    }
    if kind != BY_FAMILY || body.len() < ANSWER {
        return Err(unknown());
    }
    let is_it = body[1] != LISTENS && body[4..6] == there.to_be_bytes() && body[6..8] == here.to_be_bytes();
    Ok(is_it.then(|| end_in(body[1], u32::from_ne_bytes(body[64..68].try_into().expect("four bytes")))))
}

// --- /proc/net/tcp, proc_net(5) --------------------------------------------------

fn look_up(there: SocketAddr, here: SocketAddr) -> io::Result<Option<OtherEnd>> {
    let list = std::fs::read_to_string(if there.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" })?;
    Ok(owner_in_list(&list, there, here))
}

fn owner_in_list(list: &str, there: SocketAddr, here: SocketAddr) -> Option<OtherEnd> {
    let (there, here) = (as_listed(there), as_listed(here));
    list.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let is_it = fields.get(1..3) == Some(&[there.as_str(), here.as_str()]);
        is_it.then(|| Some(end_in(u8::from_str_radix(fields.get(3)?, 16).ok()?, fields.get(7)?.parse().ok()?)))?
    })
}

fn as_listed(address: SocketAddr) -> String {
    let word = |bytes: &[u8]| format!("{:08X}", u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
    let words: String = match address.ip() {
        IpAddr::V4(address) => word(&address.octets()),
        IpAddr::V6(address) => address.octets().chunks(4).map(word).collect(),
    };
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use nix::sys::socket::{SockaddrIn, bind, connect};

    use crate::testing::as_user;

    #[test]
    fn the_user_at_the_other_end_is_the_one_who_made_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let own = nix::unistd::geteuid().as_raw();
        let mut callers = vec![(own, TcpStream::connect(place).unwrap())];
        callers.extend(as_user(65534, || TcpStream::connect(place).unwrap()).map(|caller| (65534, caller)));
        for (user, caller) in callers {
            let (connection, there) = listener.accept().unwrap();
            assert_eq!(other_end(&connection).unwrap(), OtherEnd::User(user));
            assert_eq!(look_up(there, place).unwrap(), Some(OtherEnd::User(user)));
            // What is closed has no owner, which must not be taken for root.
            drop(caller);
            assert_eq!(other_end(&connection).unwrap(), OtherEnd::Closed);
            assert_eq!(look_up(there, place).unwrap(), Some(OtherEnd::Closed));
        }
    }

    /// A process of this host is not taken for one of another host, whichever address it calls from.
    #[test]
    fn what_calls_from_another_address_of_this_host_is_here() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        for (half, length) in [(true, 1), (false, 1), (false, 8 << 20)] {
            let mut caller = connect_from([127, 0, 0, 2], place);
            let (connection, there) = listener.accept().unwrap();
            assert_eq!(other_end(&connection).unwrap(), OtherEnd::User(nix::unistd::geteuid().as_raw()));
            // More than fits is sent after the end, of which this side does not know yet.
            caller.set_nonblocking(true).unwrap();
            let _ = caller.write(&vec![0; length]);
            if half {
                caller.shutdown(Shutdown::Write).unwrap();
            }
            // Else it is closed here.
            let _open = half.then_some(caller);
            assert_eq!(other_end(&connection).unwrap(), OtherEnd::Closed);
            assert_eq!(look_up(there, place).unwrap(), Some(OtherEnd::Closed));
        }
        assert!(is_own_address("127.0.0.77".parse().unwrap()).unwrap());
        assert!(!is_own_address("192.0.2.1".parse().unwrap()).unwrap());
    }

    fn connect_from(address: [u8; 4], place: SocketAddr) -> TcpStream {
        let SocketAddr::V4(place) = place else { panic!("{place} is of IPv4") };
        let caller: OwnedFd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(caller.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address.into(), 0))).unwrap();
        connect(caller.as_raw_fd(), &SockaddrIn::from(place)).unwrap();
        caller.into()
    }

    #[test]
    fn a_connection_over_ipv6_has_an_owner_too() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return eprintln!("skipped: no IPv6 here") };
        let place = listener.local_addr().unwrap();
        let _caller = TcpStream::connect(place).unwrap();
        let (connection, there) = listener.accept().unwrap();
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(other_end(&connection).unwrap(), OtherEnd::User(own));
        assert_eq!(look_up(there, place).unwrap(), Some(OtherEnd::User(own)));
    }

    #[test]
    fn what_is_no_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(other_end(&listener).is_err());
        assert!(other_end(std::fs::File::open("/dev/null").unwrap()).is_err());
        assert!(owner_in(&[0; 20], 1, 2).is_err());
        assert!(owner_in(&[], 1, 2).is_err());
    }
}
