//! Authenticates packets with the key of the job: those between the plugin and `ringwatchd`, and between a host and the
//! machine that serves it. The first packets of a connection bring the key; all later ones are sealed.
//!
//! A packet is followed by a counter (8 bytes, little endian) and BLAKE3 of both (32 bytes). The hash key is derived
//! from that of the job, the node, the incarnation of its `ringwatchd`, and the direction. So a packet that was sealed
//! for another connection, incarnation or direction is rejected.

use serde::Deserialize;

use crate::launch::{self, Startup};

const PURPOSE: &str = "ringwatch packets of a connection";
const MAC: usize = 32;
const COUNTER: usize = 8;

/// The direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the plugin to `ringwatchd`.
    ToDaemon,
    /// From `ringwatchd` to the plugin.
    FromDaemon,
    /// From a host to the machine that serves it.
    ToService,
    /// From there to the host.
    FromService,
}

fn key(startup: &Startup, direction: Direction) -> [u8; 32] {
    let key = blake3::derive_key(PURPOSE, &startup.launch.key);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(&startup.launch.job.to_le_bytes());
    hasher.update(&startup.me.to_le_bytes()).update(&startup.incarnation.to_le_bytes());
    *hasher.update(&[direction as u8]).finalize().as_bytes()
}

/// Seals packets of one direction.
pub struct Sealer {
    key: [u8; 32],
    next: u64,
}

impl Sealer {
    /// For what this end sends.
    #[must_use]
    pub fn new(startup: &Startup, direction: Direction) -> Self {
        Self { key: key(startup, direction), next: 0 }
    }

    /// Seals the next packet.
    pub fn seal(&mut self, packet: &mut Vec<u8>) {
        packet.extend_from_slice(&self.next.to_le_bytes());
        let mac = blake3::keyed_hash(&self.key, packet);
        packet.extend_from_slice(mac.as_bytes());
        self.next += 1;
    }
}

/// Opens packets of the other direction.
pub struct Opener {
    key: [u8; 32],
    next: u64,
}

impl Opener {
    /// For what the other end sends.
    #[must_use]
    pub fn new(startup: &Startup, direction: Direction) -> Self {
        Self { key: key(startup, direction), next: 0 }
    }

    /// The packet; `None` if the other end has not sealed it, or has sealed it before one that was opened already.
    /// Packets may be missing: a sender does not wait for a receiver.
    pub fn open<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (sealed, mac) = bytes.split_last_chunk::<MAC>()?;
        let (packet, counter) = sealed.split_last_chunk::<COUNTER>()?;
        // Comparison in constant time.
        if blake3::keyed_hash(&self.key, sealed) != *mac {
            return None;
        }
        let counter = u64::from_le_bytes(*counter);
        if counter < self.next {
            return None;
        }
        self.next = counter + 1;
        Some(packet)
    }
}

/// The sealing state of one end of a connection: packets are unsealed before both ends have the key.
#[derive(Default)]
pub struct Seals(Option<(Sealer, Opener)>);

impl Seals {
    /// After both ends have the key.
    #[must_use]
    pub fn new(sealer: Sealer, opener: Opener) -> Self {
        Self(Some((sealer, opener)))
    }

    /// Prepares the next packet for sending.
    pub fn seal(&mut self, packet: &mut Vec<u8>) {
        if let Some((sealer, _)) = &mut self.0 {
            sealer.seal(packet);
        }
    }

    /// The content of a packet; `None` if the other end has not sealed it, or it is malformed.
    pub fn read<'a, T: Deserialize<'a>>(&mut self, bytes: &'a [u8]) -> Option<T> {
        let packet = match &mut self.0 {
            Some((_, opener)) => opener.open(bytes)?,
            None => bytes,
        };
        launch::decode(packet).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::startup;

    fn sealed(sealer: &mut Sealer, text: &str) -> Vec<u8> {
        let mut packet = text.as_bytes().to_vec();
        sealer.seal(&mut packet);
        packet
    }

    #[test]
    fn what_was_sealed_opens_once_and_in_its_order() {
        let startup = startup();
        let mut sealer = Sealer::new(&startup, Direction::ToDaemon);
        let mut opener = Opener::new(&startup, Direction::ToDaemon);
        let packets = ["a", "b", "", "d"].map(|text| sealed(&mut sealer, text));
        assert_eq!(opener.open(&packets[0]), Some(&b"a"[..]));
        assert_eq!(opener.open(&packets[0]), None, "repeated");
        assert_eq!(opener.open(&packets[2]), Some(&b""[..]), "one was dropped");
        assert_eq!(opener.open(&packets[1]), None, "too late");
        assert_eq!(opener.open(&packets[3]), Some(&b"d"[..]));
    }

    #[test]
    fn what_is_damaged_or_sealed_for_another_connection_does_not_open() {
        let startup = startup();
        let packet = sealed(&mut Sealer::new(&startup, Direction::ToDaemon), "packet");
        for at in 0..packet.len() {
            let mut damaged = packet.clone();
            damaged[at] ^= 1;
            assert_eq!(Opener::new(&startup, Direction::ToDaemon).open(&damaged), None, "byte {at}");
            assert_eq!(Opener::new(&startup, Direction::ToDaemon).open(&packet[..at]), None, "{at} bytes");
        }
        let change = |change: &dyn Fn(&mut Startup)| {
            let mut other = startup.clone();
            change(&mut other);
            other
        };
        let others = [
            change(&|other| other.launch.key[0] ^= 1),
            change(&|other| other.launch.job ^= 1),
            change(&|other| other.me += 1),
            change(&|other| other.incarnation += 1),
        ];
        for other in &others {
            assert_eq!(Opener::new(other, Direction::ToDaemon).open(&packet), None);
        }
        for direction in [Direction::FromDaemon, Direction::ToService, Direction::FromService] {
            assert_eq!(Opener::new(&startup, direction).open(&packet), None, "{direction:?}");
        }
        assert!(Opener::new(&startup, Direction::ToDaemon).open(&packet).is_some());
    }
}
