//! Opens the UDP socket of a node and determines addresses under which prterun's node can be reached.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use platform::interfaces::is_meant;

/// An IPv4 address of this node.
struct Interface {
    name: String,
    address: Ipv4Addr,
}

/// Addresses of this node on the chosen interfaces.
///
/// `wanted` has names or CIDR subnets. If it is empty, PRRTE's selection applies, or all interfaces that are up except
/// loopback.
///
/// # Errors
/// A sentence if nothing matches.
pub fn addresses(wanted: &[String]) -> Result<Vec<Ipv4Addr>, String> {
    let (parameter, wanted) = match wanted {
        [] => ("prte_if_include", std::env::var("PRTE_MCA_prte_if_include").unwrap_or_default()),
        own => ("psensor_ringwatch_if_include", own.join(",")),
    };
    let list: Vec<&str> = wanted.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let is_chosen = |interface: &Interface| match list[..] {
        [] => !interface.address.is_loopback(),
        _ => list.iter().any(|one| is_meant(one, &interface.name, interface.address)),
    };
    let found: Vec<Ipv4Addr> = interfaces().into_iter().filter(is_chosen).map(|interface| interface.address).collect();
    if found.is_empty() && !list.is_empty() {
        let host = platform::say::host();
        return Err(format!("no interface of {host} matches {parameter} ({})", list.join(",")));
    }
    Ok(found)
}

fn interfaces() -> Vec<Interface> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    all.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|one| {
            let address = one.address?.as_sockaddr_in()?.ip();
            Some(Interface { name: one.interface_name, address })
        })
        .collect()
}

/// Opens the socket of a node of this job, as [`open`]. Without a range all nodes try the same port, which the job
/// decides: their addresses are then few bytes for each node.
///
/// # Errors
/// As of [`open`].
pub fn open_for_job(addresses: &[Ipv4Addr], ports: (u16, u16), job: u64) -> Result<UdpSocket, String> {
    if ports == (0, 0) {
        let port = port_of_job(job);
        if let Ok(socket) = open(addresses, (port, port)) {
            return Ok(socket);
        }
    }
    open(addresses, ports)
}

/// One of the ports that Linux gives out itself (`net.ipv4.ip_local_port_range`, its default).
fn port_of_job(job: u64) -> u16 {
    const PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;
    let count = u64::from(PORTS.end() - PORTS.start()) + 1;
    PORTS.start() + (job % count) as u16
}

/// Opens the node's socket in the port range: on the selected address if there is only one, otherwise on all.
///
/// # Errors
/// A sentence if no port is free.
pub fn open(addresses: &[Ipv4Addr], ports: (u16, u16)) -> Result<UdpSocket, String> {
    let address = match addresses {
        [only] => *only,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let mut problem = None;
    for port in ports.0..=ports.1 {
        match UdpSocket::bind(SocketAddr::new(IpAddr::V4(address), port)) {
            Ok(socket) => return Ok(socket),
            Err(error) => problem = Some(error),
        }
    }
    let problem = problem.map_or_else(|| "the range is empty".to_owned(), |error| error.to_string());
    Err(format!(
        "no UDP port from {} to {} is free on {address} ({problem}): widen psensor_ringwatch_port_range",
        ports.0, ports.1
    ))
}

/// Addresses with the socket's port, for the launch data.
///
/// # Errors
/// If the socket has no address.
pub fn reachable_at(socket: &UdpSocket, addresses: &[Ipv4Addr]) -> std::io::Result<Vec<SocketAddr>> {
    let port = socket.local_addr()?.port();
    Ok(addresses.iter().map(|address| SocketAddr::new(IpAddr::V4(*address), port)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of a job, each with an address of its own.
    #[test]
    fn nodes_of_a_job_have_the_same_port_unless_it_is_taken() {
        let (first, second) = (Ipv4Addr::new(127, 0, 0, 5), Ipv4Addr::new(127, 0, 0, 6));
        let open = |address, job| open_for_job(&[address], (0, 0), job).unwrap();
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        // Another process may have the port of one job, but not of ten.
        let same = (0..10).any(|job| {
            let (one, other) = (open(first, job * 997), open(second, job * 997));
            assert_ne!(port(&one), port(&open(first, job * 997)));
            port(&one) == port(&other)
        });
        assert!(same);
    }

    #[test]
    fn the_port_of_a_job_is_one_that_linux_gives_out() {
        assert_eq!([0, 28_231, 28_232, u64::MAX].map(port_of_job), [32_768, 60_999, 32_768, 56_551]);
    }
}
