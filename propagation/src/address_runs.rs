//! Encodes addresses as runs. Nodes of a cluster mostly have consecutive addresses and one port: then the addresses
//! of all nodes are as long as those of two.

use std::net::{IpAddr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of addresses in a message.
const MOST: u32 = 1 << 16;

/// Addresses with one port, each the next one of that before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Run {
    first: SocketAddr,
    count: u32,
}

impl Run {
    /// The address at this place; `None` behind the last one of the family.
    fn at(&self, index: u32) -> Option<SocketAddr> {
        let ip = match self.first.ip() {
            IpAddr::V4(ip) => IpAddr::V4(ip.to_bits().checked_add(index)?.into()),
            IpAddr::V6(ip) => IpAddr::V6(ip.to_bits().checked_add(index.into())?.into()),
        };
        Some(SocketAddr::new(ip, self.first.port()))
    }
}

fn runs(addresses: &[SocketAddr]) -> Vec<Run> {
    let mut runs = Vec::<Run>::new();
    for address in addresses {
        match runs.last_mut() {
            Some(last) if last.at(last.count) == Some(*address) => last.count += 1,
            _ => runs.push(Run { first: *address, count: 1 }),
        }
    }
    runs
}

/// Splits a list into parts of at most so many runs each, for messages of limited length.
///
/// # Panics
/// If `most` is 0.
#[must_use]
pub fn split(addresses: &[SocketAddr], most: usize) -> Vec<&[SocketAddr]> {
    let mut rest = addresses;
    let runs = runs(addresses);
    let lengths = runs.chunks(most).map(|part| part.iter().map(|run| run.count as usize).sum());
    lengths
        .map(|length| {
            let (part, others) = rest.split_at(length);
            rest = others;
            part
        })
        .collect()
}

pub(crate) fn serialize<S: Serializer>(addresses: &[SocketAddr], serializer: S) -> Result<S::Ok, S::Error> {
    runs(addresses).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let runs = Vec::<Run>::deserialize(deserializer)?;
    if runs.iter().fold(0_u32, |sum, run| sum.saturating_add(run.count)) > MOST {
        return Err(D::Error::custom("too many addresses"));
    }
    let addresses = runs.iter().flat_map(|run| (0..run.count).map(|index| run.at(index)));
    addresses.collect::<Option<_>>().ok_or_else(|| D::Error::custom("no address follows the last one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct List(#[serde(with = "super")] Vec<SocketAddr>);

    fn parse(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn consecutive_addresses_with_one_port_are_one_run() {
        let addresses: Vec<SocketAddr> =
            (0..1024).map(|node: u16| ([10, 0, (node >> 8) as u8, node as u8], 7).into()).collect();
        let bytes = postcard::to_allocvec(&List(addresses.clone())).unwrap();
        assert_eq!(bytes, [1, 0, 10, 0, 0, 0, 7, 0x80, 8]);
        assert_eq!(postcard::from_bytes::<List>(&bytes).unwrap(), List(addresses));
    }

    #[test]
    fn another_port_family_or_order_begins_a_run() {
        let addresses =
            parse(&["1.2.3.4:5", "1.2.3.5:6", "1.2.3.4:6", "255.255.255.255:6", "[::1]:6", "[::2]:6", "0.0.0.0:6"]);
        let parts = split(&addresses, 1);
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [1, 1, 1, 1, 2, 1]);
        assert_eq!(parts.concat(), addresses);
        let bytes = postcard::to_allocvec(&List(addresses.clone())).unwrap();
        assert_eq!(postcard::from_bytes::<List>(&bytes).unwrap(), List(addresses));
    }

    #[test]
    fn a_run_that_is_too_long_is_refused() {
        let bytes =
            |first: &str, count| postcard::to_allocvec(&[Run { first: first.parse().unwrap(), count }]).unwrap();
        let refused = [bytes("10.0.0.0:7", MOST + 1), bytes("255.255.255.254:7", 3), bytes("10.0.0.0:7", u32::MAX)];
        for bytes in refused.map(|array| [&[1][..], &array].concat()) {
            assert!(postcard::from_bytes::<List>(&bytes).is_err(), "{bytes:?}");
        }
        let longest = [&[1][..], &bytes("10.0.0.0:7", MOST)].concat();
        assert_eq!(postcard::from_bytes::<List>(&longest).unwrap().0.len(), MOST as usize);
    }
}
