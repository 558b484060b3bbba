//! Checks whether node 0 knows this node by an address that is not its own.

use std::net::SocketAddr;
use std::time::Duration;

use node_abi::launch::LaunchData;
use node_abi::refusing::send;
use node_abi::versions::Refusal;
use platform::interfaces;
use propagation::NodeId;
use tracing::error;

/// Number of reports to node 0.
const LAST_WORDS: usize = 5;
/// Interval of the reports.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether node 0 knows this node, on this host, by an address that it does not have. Then a third party that has
/// forwarded its call is between it and the other nodes, and could have it declared dead by dropping packets. Node 0 is
/// notified, which takes 50 ms.
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
