//! Receives heartbeats in a socket of their own, without wakeups.
//!
//! A heartbeat contains nothing that could not wait until its observer is awake anyway, except its time of arrival; its
//! cost is the wakeup. The kernel puts datagrams that look like heartbeats into a second socket of the same address, by
//! a filter over the group of both (`SO_REUSEPORT`), and records the time of arrival.
//!
//! The filter uses the datagram's own type field; authentication comes later as for every datagram. If the second
//! socket cannot be opened, or fails, all datagrams arrive in the first.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, getsockopt, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use propagation::wire::BODY_AT;

/// `BPF_LD | BPF_B | BPF_ABS`: loads a byte of the datagram; one that is too short ends the program with 0.
const LOAD_BYTE: u16 = 0x30;
/// `BPF_JMP | BPF_JEQ | BPF_K`: compares it.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_RET | BPF_K`: the number of the socket in the group, in the order of joining.
const RETURN: u16 = 0x06;
/// From `asm-generic/socket.h`; the `libc` crate has it for Android only.
const SO_ATTACH_REUSEPORT_CBPF: libc::c_int = 51;
/// First byte of the body of a heartbeat.
const HEARTBEAT: u32 = 0;

/// The second socket.
pub struct Lane {
    socket: UdpSocket,
    control: Vec<u8>,
}

impl Lane {
    /// Opens it beside a bound socket, and makes the kernel sort datagrams from now on.
    ///
    /// # Errors
    /// If the kernel does not permit that; the first socket still gets all datagrams.
    pub fn beside(first: &UdpSocket) -> io::Result<Self> {
        let (address, family) = match first.local_addr()? {
            address @ SocketAddr::V4(_) => (address, AddressFamily::Inet),
            address @ SocketAddr::V6(_) => (address, AddressFamily::Inet6),
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let second = socket(family, SockType::Datagram, flags, None)?;
        if family == AddressFamily::Inet6 {
            setsockopt(&second, sockopt::Ipv6V6Only, &getsockopt(first, sockopt::Ipv6V6Only)?)?;
        }
        setsockopt(&second, sockopt::ReceiveTimestampns, &true)?;
        // It was bound alone, so that no other process had the port; now it may be shared.
        setsockopt(first, sockopt::ReusePort, &true)?;
        setsockopt(&second, sockopt::ReusePort, &true)?;
        bind(second.as_raw_fd(), &SockaddrStorage::from(address))?;
        sort(first)?;
        Ok(Self { socket: second.into(), control: cmsg_space!(TimeSpec) })
    }

    /// The socket itself.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Takes the next datagram: its length, its sender's address and its age. The age depends on the wall clock and is
    /// wrong by any amount if that was set meanwhile.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; other errors are no evidence of a failure.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, Duration)> {
        let mut parts = [IoSliceMut::new(buffer)];
        let message = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut self.control),
            MsgFlags::empty(),
        )?;
        let stamp = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = stamp.map_or(Duration::ZERO, |stamp| now.saturating_sub(stamp));
        let from = message.address.as_ref().and_then(address_of).ok_or(Errno::EAFNOSUPPORT)?;
        Ok((message.bytes, from, age))
    }
}

/// Makes the kernel put apparent heartbeats into the second socket of the group, and everything else into the first.
fn sort(first: &UdpSocket) -> io::Result<()> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let body = u32::try_from(BODY_AT).expect("a header is short");
    let mut program = [
        step(LOAD_BYTE, 0, 0, body),
        step(JUMP_IF_EQUAL, 0, 1, HEARTBEAT),
        step(RETURN, 0, 0, 1),
        step(RETURN, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program and the struct that points to it live for the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            first.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

fn address_of(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use platform::testing::wait_until;
    use propagation::Message;
    use propagation::wire::Sealer;

    use super::*;

    fn sealed(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        Sealer::new(1, [2; 32], 3, 0).seal(4, 0, message, &mut bytes);
        bytes
    }

    #[test]
    fn heartbeats_come_in_the_lane_and_all_else_beside_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(first) = UdpSocket::bind(address) else { continue };
            first.set_nonblocking(true).unwrap();
            let mut lane = Lane::beside(&first).unwrap();
            let sender = UdpSocket::bind(address).unwrap();
            let send = |bytes: &[u8]| sender.send_to(bytes, first.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 99];
            let (heartbeat, verdict) = (sealed(&Message::Heartbeat { count: 7 }), sealed(&Message::Verdict));
            for _ in 0..3 {
                send(&heartbeat);
                send(&verdict);
                send(b"short");
                let mut taken = None;
                wait_until(|| {
                    taken = lane.receive(&mut buffer).ok();
                    taken.is_some()
                });
                let (length, from, age) = taken.unwrap();
                assert_eq!(buffer[..length], heartbeat);
                assert_eq!(from, sender.local_addr().unwrap());
                assert!(age < Duration::from_secs(60), "{age:?}");
                for expected in [&*verdict, b"short"] {
                    wait_until(|| first.peek(&mut buffer).is_ok());
                    let length = first.recv(&mut buffer).unwrap();
                    assert_eq!(&buffer[..length], expected);
                }
                assert!(lane.receive(&mut buffer).is_err());
            }
            drop(lane);
            send(&heartbeat);
            wait_until(|| first.peek(&mut buffer).is_ok());
            // As when ringwatchd is restarted with the previous one's socket.
            first.recv(&mut buffer).unwrap();
            let mut again = Lane::beside(&first).unwrap();
            send(&heartbeat);
            wait_until(|| again.receive(&mut buffer).is_ok());
        }
    }

    #[test]
    fn an_age_is_how_long_it_has_waited() {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut lane = Lane::beside(&first).unwrap();
        let wait = Duration::from_millis(10);
        // The kernel starts to record times a moment after the request; until then ages are zero.
        wait_until(|| {
            let began = Instant::now();
            first.send_to(&sealed(&Message::Heartbeat { count: 1 }), first.local_addr().unwrap()).unwrap();
            let sent = Instant::now();
            wait_until(|| sent.elapsed() > wait);
            let (_, _, age) = lane.receive(&mut [0; 99]).unwrap();
            assert!(age <= began.elapsed(), "{age:?}");
            age >= wait
        });
    }
}
