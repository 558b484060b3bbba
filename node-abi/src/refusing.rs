//! Reports to node 0 that a node takes no part in the job.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::versions::{Contact, Refusal};

/// Interval of the reports; they are repeated because datagrams get lost.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// Duration of the reports.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Sends a refusal once, to every address of node 0.
pub fn send(contact: &Contact, refusal: &Refusal) {
    let datagram = refusal.seal(contact.job, &contact.key);
    for address in &contact.rendezvous {
        let own = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let _ = UdpSocket::bind(own).and_then(|socket| socket.send_to(&datagram, address));
    }
}
