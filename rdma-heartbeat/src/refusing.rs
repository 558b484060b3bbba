//! Telling node 0 that a node takes no part in the job.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use propagation::NodeId;
use tracing::error;

use crate::interfaces;
use crate::launch::LaunchData;
use crate::versions::{Contact, Refusal};

/// How often and how long node 0 is told, because datagrams get lost.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// See [`INTERVAL`].
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

/// How often node 0 is told of what ends this daemon.
const LAST_WORDS: usize = 5;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether node 0 knows this node, on this host, by an address that it does not have: then somebody who sent its call on
/// stands between it and the others, and could have it declared dead by dropping what comes. Node 0 is told, which takes
/// 50 ms.
pub fn is_misplaced(launch: &LaunchData, me: NodeId, host: &str, roster: &[SocketAddr]) -> bool {
    let Some(address) = roster.get(me as usize).filter(|address| me != 0 && !interfaces::is_own(address.ip())) else {
        return false;
    };
    let problem = format!(
        "the node of mpirun knows it as {address}, an address that it does not have: address translation (NAT), or \
         somebody between them, changes where its datagrams come from"
    );
    error!("{problem}");
    let refusal = Refusal::of_problem(me, host.to_owned(), &problem);
    for _ in 0..LAST_WORDS {
        send(&launch.contact(), &refusal);
        std::thread::sleep(PAUSE);
    }
    true
}
