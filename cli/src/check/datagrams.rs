//! Whether datagrams pass between nodes: each sends to all others, and tells from whom it has heard.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// How often each address gets a datagram.
const ROUNDS: u32 = 10;
/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// How long a node listens after its last round: others may have begun later.
const LATE: Duration = Duration::from_millis(500);

/// Opens a port for the check: of the range, or any for (0, 0).
///
/// # Errors
/// If the range is taken or the system refuses.
pub fn open(range: (u16, u16)) -> io::Result<UdpSocket> {
    let mut ports = range.0..=range.1;
    ports
        .find_map(|port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok())
        .ok_or_else(|| io::Error::other(format!("no UDP port from {} to {} is free", range.0, range.1)))
}

/// Sends to the others, which are given by number and address, and returns the numbers of those that were heard.
pub fn exchange(socket: &UdpSocket, nonce: &str, me: usize, others: &[(usize, SocketAddrV4)]) -> BTreeSet<usize> {
    let mut heard = BTreeSet::new();
    let text = format!("ringwatch check {nonce} {me}");
    for _ in 0..ROUNDS {
        for (_, address) in others {
            let _ = socket.send_to(text.as_bytes(), address);
        }
        listen(socket, nonce, ROUND, &mut heard);
    }
    listen(socket, nonce, LATE, &mut heard);
    heard
}

fn listen(socket: &UdpSocket, nonce: &str, time: Duration, heard: &mut BTreeSet<usize>) {
    let until = Instant::now() + time;
    let mut bytes = [0; 256];
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
        if socket.set_read_timeout(Some(rest)).is_err() {
            return;
        }
        // An error is a time that is over, or what another host's kernel refuses.
        let Ok((length, _)) = socket.recv_from(&mut bytes) else { continue };
        let text = std::str::from_utf8(&bytes[..length]).unwrap_or_default();
        let sender = text.strip_prefix("ringwatch check ").and_then(|rest| rest.strip_prefix(nonce));
        heard.extend(sender.and_then(|number| number.trim().parse::<usize>().ok()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sockets_hear_each_other_and_nobody_with_another_nonce() {
        let sockets = [(0, 0), (0, 0)].map(|range| open(range).unwrap());
        let at = |socket: &UdpSocket| SocketAddrV4::new(Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port());
        let places = [at(&sockets[0]), at(&sockets[1])];
        let stranger = open((0, 0)).unwrap();
        stranger.send_to(b"ringwatch check other 7", places[0]).unwrap();
        let [first, second] = &sockets;
        let heard = std::thread::scope(|scope| {
            let other = scope.spawn(|| exchange(second, "n", 1, &[(0, places[0])]));
            [exchange(first, "n", 0, &[(1, places[1])]), other.join().unwrap()]
        });
        assert_eq!(heard, [[1].into(), [0].into()]);
    }
}
