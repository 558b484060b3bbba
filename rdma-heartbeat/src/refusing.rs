//! Telling node 0 that a node takes no part in the job.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use propagation::NodeId;
use tracing::error;

use crate::launch::LaunchData;
use crate::versions::{Contact, Refusal};
use crate::{interfaces, logging};

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
const LAST_WORDS: usize = 3;

/// Whether node 0 knows this node by an address that it does not have: then somebody has sent its call on, stands between
/// it and the others from now on, and could have it declared dead by dropping what comes. Node 0 is told.
pub fn is_misplaced(launch: &LaunchData, me: NodeId, roster: &[SocketAddr]) -> bool {
    let Some(address) = roster.get(me as usize).filter(|address| me != 0 && !interfaces::is_own(address.ip())) else {
        return false;
    };
    let problem = format!(
        "{address}, as which the node of mpirun knows it, is no address of it: somebody between them sends its datagrams on"
    );
    error!("{problem}");
    let refusal = Refusal::of_problem(me, logging::host(), &problem);
    (0..LAST_WORDS).for_each(|_| send(&launch.contact(), &refusal));
    true
}
