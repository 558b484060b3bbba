//! Keeps the UDP port under which other nodes know a host's node, from one service to the next.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use platform::clock;

/// Time limit for an earlier service to release its port, and interval of attempts.
const LIMIT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);

/// A UDP socket under the port that other nodes know for this node, if any; an earlier service may still hold it.
pub fn bind(known: u16, range: (u16, u16)) -> io::Result<UdpSocket> {
    let limit = clock::now() + LIMIT;
    loop {
        let (first, last) = if known == 0 { range } else { (known, known) };
        let attempt = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
        let free = (first..last).find_map(|port| attempt(port).ok());
        match free.map_or_else(|| attempt(last), Ok) {
            Err(error) if known != 0 && error.kind() == io::ErrorKind::AddrInUse && clock::now() < limit => {
                std::thread::sleep(LOOK);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_about_to_be_given_back_is_waited_for() {
        let earlier = bind(0, (0, 0)).unwrap();
        let port = earlier.local_addr().unwrap().port();
        let later = std::thread::spawn(move || bind(port, (0, 0)).unwrap());
        std::thread::sleep(LOOK);
        drop(earlier);
        assert_eq!(later.join().unwrap().local_addr().unwrap().port(), port);
    }
}
