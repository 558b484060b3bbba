//! Finds the RDMA port of an address of this node, from the kernel's `/sys/class/infiniband`.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use nix::ifaddrs::getifaddrs;

/// Where the kernel lists RDMA devices.
pub const DEVICES: &str = "/sys/class/infiniband";

/// A port of an RDMA device, with one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name of the device.
    pub device: String,
    /// Number of the port.
    pub number: u8,
    /// Its address: for RoCE v2 the IP address, IPv4 mapped into IPv6.
    pub gid: [u8; 16],
    /// Number of this address in the table of the port.
    pub gid_index: u8,
}

/// The GID of a RoCE v2 port on an interface with this IP address.
#[must_use]
pub fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The active RoCE v2 port with this IP address, if there is one below `devices` (normally [`DEVICES`]).
#[must_use]
pub fn find(devices: &Path, address: IpAddr) -> Option<Port> {
    let gid = gid_of(address);
    for (device, folder) in entries(devices) {
        for (number, port) in entries(&folder.join("ports")) {
            let is_active = read(&port.join("state")).is_some_and(|state| state.contains("ACTIVE"));
            for (index, file) in entries(&port.join("gids")).into_iter().filter(|_| is_active) {
                let kind = read(&port.join("gid_attrs/types").join(&index));
                if kind.is_none_or(|kind| kind != "RoCE v2") || read(&file).and_then(|text| parse(&text)) != Some(gid) {
                    continue;
                }
                if let (Ok(number), Ok(gid_index)) = (number.parse(), index.parse()) {
                    return Some(Port { device, number, gid, gid_index });
                }
            }
        }
    }
    None
}

/// The address of this node from which datagrams are sent to a peer, if no router is in between.
#[must_use]
pub fn address_towards(peer: SocketAddr) -> Option<IpAddr> {
    let unspecified: SocketAddr = if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    // Nothing is sent: the kernel only selects a route.
    let socket = UdpSocket::bind(unspecified).ok()?;
    socket.connect(peer).ok()?;
    let own = socket.local_addr().ok()?.ip();
    is_beside(own, peer.ip()).then_some(own)
}

/// Whether a peer is in the subnet of this node's address.
fn is_beside(own: IpAddr, peer: IpAddr) -> bool {
    let ip = |storage: Option<nix::sys::socket::SockaddrStorage>| {
        let storage = storage?;
        let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    let mut interfaces = getifaddrs().into_iter().flatten();
    let Some(mask) =
        interfaces.find(|interface| ip(interface.address) == Some(own)).and_then(|found| ip(found.netmask))
    else {
        return false;
    };
    let bits = |address| u128::from_be_bytes(gid_of(address));
    own.is_ipv4() == peer.is_ipv4() && (bits(own) ^ bits(peer)) & bits(mask) & u128_mask(own) == 0
}

/// The mask of the bits in which addresses of a family can differ.
fn u128_mask(family: IpAddr) -> u128 {
    if family.is_ipv4() { u128::from(u32::MAX) } else { u128::MAX }
}

fn entries(folder: &Path) -> Vec<(String, std::path::PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
    entries.sort();
    entries
}

fn read(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// Reads the address of a port as the kernel writes it, `fe80:0000:...`.
#[must_use]
pub fn parse(text: &str) -> Option<[u8; 16]> {
    text.parse::<std::net::Ipv6Addr>().ok().map(|address| address.octets())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder like the kernel's, with one device.
    fn devices(name: &str, state: &str, gids: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("ringwatch-ports-{}-{name}", std::process::id()));
        let port = root.join("mlx5_0/ports/1");
        fs::create_dir_all(port.join("gids")).unwrap();
        fs::create_dir_all(port.join("gid_attrs/types")).unwrap();
        fs::write(port.join("state"), format!("{state}\n")).unwrap();
        for (index, (gid, kind)) in gids.iter().enumerate() {
            fs::write(port.join(format!("gids/{index}")), format!("{gid}\n")).unwrap();
            fs::write(port.join(format!("gid_attrs/types/{index}")), format!("{kind}\n")).unwrap();
        }
        root
    }

    #[test]
    fn a_port_is_found_by_its_address_if_it_is_active_and_speaks_roce_v2() {
        let gids = [
            ("fe80:0000:0000:0000:5054:00ff:fe00:0001", "RoCE v2"),
            ("0000:0000:0000:0000:0000:ffff:0a4e:0001", "IB/RoCE v1"),
            ("0000:0000:0000:0000:0000:ffff:0a4e:0001", "RoCE v2"),
        ];
        let root = devices("active", "4: ACTIVE", &gids);
        let address = IpAddr::from([10, 78, 0, 1]);
        let port = Port { device: "mlx5_0".into(), number: 1, gid: gid_of(address), gid_index: 2 };
        assert_eq!(find(&root, address), Some(port));
        assert_eq!(find(&root, IpAddr::from([10, 78, 0, 2])), None);
        fs::remove_dir_all(&root).unwrap();
        let root = devices("down", "1: DOWN", &gids);
        assert_eq!(find(&root, address), None);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(find(&root, address), None, "there are no devices");
    }

    #[test]
    fn neighbours_are_reached_without_a_router() {
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(address_towards(([127, 0, 0, 1], 9).into()), Some(local));
        assert!(is_beside(local, IpAddr::from([127, 9, 9, 9])));
        assert!(!is_beside(local, IpAddr::from([10, 0, 0, 1])));
        assert!(!is_beside(local, IpAddr::from([0u16; 8])));
        assert!(!is_beside(IpAddr::from([192, 0, 2, 77]), IpAddr::from([192, 0, 2, 77])), "not ours");
    }
}
