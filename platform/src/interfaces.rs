//! Which interfaces are meant by a name, an address or a subnet, as in `psensor_ringwatch_if_include`.

use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::getifaddrs;

/// Whether `wanted` means the interface with this name and address: its name, its address, or a subnet in CIDR notation
/// that contains the address. What is none of these means no interface.
#[must_use]
pub fn is_meant(wanted: &str, name: &str, address: Ipv4Addr) -> bool {
    let Some((net, bits)) = wanted.split_once('/') else {
        return wanted == name || wanted.parse() == Ok(address);
    };
    let (Ok(net), Ok(bits)) = (net.parse::<Ipv4Addr>(), bits.parse::<u32>()) else { return false };
    // A shift by all 32 bits, for which there is no instruction, leaves nothing to compare.
    let mask = 32_u32.checked_sub(bits).map(|rest| u32::MAX.checked_shl(rest).unwrap_or(0));
    mask.is_some_and(|mask| net.to_bits() & mask == address.to_bits() & mask)
}

/// Whether an interface of this machine has the address; true where the kernel does not tell.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    let Ok(mut all) = getifaddrs() else { return true };
    all.any(|one| {
        let Some(found) = one.address else { return false };
        let v4 = found.as_sockaddr_in().map(|found| IpAddr::V4(found.ip()));
        v4.or_else(|| found.as_sockaddr_in6().map(|found| IpAddr::V6(found.ip()))) == Some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_subnets_are_understood() {
        let meant = |wanted| is_meant(wanted, "eth0", Ipv4Addr::new(10, 77, 0, 3));
        for wanted in
            ["eth0", "10.77.0.3", "10.77.0.3/32", "10.77.0.0/24", "10.77.0.99/24", "0.0.0.0/0", "10.77.0.2/31"]
        {
            assert!(meant(wanted), "{wanted}");
        }
        for other in ["", "eth", "eth00", "10.77.0.2", "10.77.0.2/32", "10.78.0.0/16", "11.0.0.0/8", "10.77.0.0/33"] {
            assert!(!meant(other), "{other}");
        }
        for none in
            ["/", "10.77.0.3/", "/24", "10.77.0/24", "10.77.0.3/-1", "10.77.0.3/4294967296", "10.77.0.3/24/8", "::1/0"]
        {
            assert!(!meant(none), "{none}");
        }
    }

    #[test]
    fn own_addresses_are_those_of_interfaces() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(127, 0, 0, 9).into()), "it would answer there, but it is nobody's");
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
