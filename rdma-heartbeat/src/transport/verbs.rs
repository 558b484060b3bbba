//! Raises flags by RDMA writes: reliable connections between RoCE v2 ports of the same subnet.
//!
//! Each slot has its own connection and protection domain, so a key is valid for one peer and eight bytes. The library
//! is loaded at run time: existing bindings either lack one-sided writes in their safe part (`ibverbs`), or build the
//! whole of rdma-core with cmake and libclang (`ibverbs-sys`), and would require libibverbs on every node.
//!
//! | file | part |
//! |---|---|
//! | this one | offered and written slots, and the meaning of errors |
//! | `words` | offers and answers |
//! | `port` | the RDMA port of an address |
//! | `slot` | memory that one peer can write |
//! | `pair` | reliable connections |
//! | `library` | libibverbs and the devices |
//! | `layout` | its structs |
//!
//! Only `library`, `pair` and `slot` call libibverbs; their interface is safe.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::means::{Inlet, Means, Outlet};
use library::Device;
use pair::{Completion, Far, Pair};
use port::{DEVICES, Port};
use slot::Slot;
use words::{Answer, Offer, understand};

mod layout;
mod library;
mod pair;
pub mod port;
mod slot;
pub mod words;

/// Maximum number of pending writes. If a peer does not answer, the first of them fails long before the limit is
/// reached, unless the heartbeat period is shorter than the device's repetition interval.
const DEPTH: u32 = 64;
/// The device reports completion once per this number of writes.
const SIGNAL_EVERY: u64 = 2;
/// Maximum number of unreported writes with flags alone. With more, the fifth or sixth heartbeat after the last one
/// that arrived is a datagram; a timeout has ten periods by default.
const UNREPORTED: u64 = 4;
/// Number of repetitions of an unacknowledged write: the maximum, as soft-RoCE treats 7 as unlimited.
const REPETITIONS: u8 = 6;

/// The RDMA devices of this node.
pub struct Verbs {
    devices: BTreeMap<String, Arc<Device>>,
    patience: u8,
}

impl Verbs {
    /// For heartbeats of this period; `None` if the node has no RDMA device.
    #[must_use]
    pub fn new(period: Duration) -> Option<Self> {
        let is_there = std::fs::read_dir(DEVICES).is_ok_and(|mut devices| devices.next().is_some());
        is_there.then(|| Self { devices: BTreeMap::new(), patience: patience(period) })
    }

    /// One end of a connection, at the port on the route to this peer.
    fn pair(&mut self, peer: SocketAddr) -> Result<Pair, String> {
        let own =
            port::address_towards(peer).ok_or_else(|| format!("{} is not in a subnet of this node", peer.ip()))?;
        let port = port::find(Path::new(DEVICES), own)
            .ok_or_else(|| format!("no active RDMA port (RoCE v2) of this node has the address {own}"))?;
        self.pair_at(&port).map_err(|error| {
            // A device may have been removed and have returned under its name.
            self.devices.remove(&port.device);
            format!("RDMA device {}: {error}", port.device)
        })
    }

    fn pair_at(&mut self, port: &Port) -> io::Result<Pair> {
        let device = match self.devices.get(&port.device) {
            Some(device) => Arc::clone(device),
            None => {
                let device = Device::open(&port.device)?;
                self.devices.insert(port.device.clone(), Arc::clone(&device));
                device
            }
        };
        Pair::new(&device, port, DEPTH)
    }
}

/// Time before the device repeats a write, as the power of two of 4.096 µs, so that all repetitions together take about
/// a period. Devices may wait longer (soft-RoCE counts in kernel ticks). The return to datagrams before a suspicion
/// does not depend on it ([`UNREPORTED`]).
fn patience(period: Duration) -> u8 {
    let share = period.as_nanos() / (u128::from(REPETITIONS) + 1) / 4096;
    // The maximum is 31; 0 would be unlimited.
    u8::try_from(share.max(2).ilog2().min(31)).unwrap_or(31)
}

impl Means for Verbs {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn open(&mut self, peer: SocketAddr, first_packet: u32) -> Result<Box<dyn Inlet>, String> {
        let slot = Slot::new(self.pair(peer)?).map_err(|error| format!("no slot can be registered: {error}"))?;
        Ok(Box::new(VerbsInlet { slot, first_packet }))
    }

    fn attach(&mut self, peer: SocketAddr, offer: &[u8], first_packet: u32) -> Result<Box<dyn Outlet>, String> {
        let Offer { gid, pair: far, address, key } = understand(offer)?;
        let pair = self.pair(peer)?;
        pair.receive_from(Far { gid, pair: far }, first_packet)
            .and_then(|()| pair.send(first_packet, self.patience, REPETITIONS))
            .map_err(|error| format!("no connection over RDMA device {}: {error}", pair.device_name()))?;
        Ok(Box::new(VerbsOutlet { pair, address, key, written: 0, acknowledged: 0 }))
    }
}

struct VerbsInlet {
    slot: Slot,
    first_packet: u32,
}

impl Inlet for VerbsInlet {
    fn offer(&self) -> Vec<u8> {
        let (Far { gid, pair }, (address, key)) = (self.slot.pair().place(), self.slot.address());
        postcard::to_stdvec(&Offer { gid, pair, address, key }).expect("writing to memory cannot fail")
    }

    fn connect(&mut self, answer: &[u8]) -> Result<(), String> {
        let Answer { gid, pair } = understand(answer)?;
        let own = self.slot.pair();
        own.receive_from(Far { gid, pair }, self.first_packet)
            .map_err(|error| format!("no connection over RDMA device {}: {error}", own.device_name()))
    }

    fn load(&self) -> u64 {
        self.slot.load()
    }
}

struct VerbsOutlet {
    pair: Pair,
    address: u64,
    key: u32,
    /// Number of writes, and number of writes known to be complete.
    written: u64,
    acknowledged: u64,
}

impl VerbsOutlet {
    /// Handles the device's reports. An error means that flags cannot be raised here; it is no evidence of a failure.
    fn collect(&mut self) -> Result<(), String> {
        while let Some(completion) = self.pair.poll().map_err(|error| error.to_string())? {
            match completion {
                Completion::Done { number } => self.acknowledged = number,
                Completion::Refused => return Err("the other side's device refuses the key of the slot".into()),
                Completion::Unanswered => return Err("the other side's device does not answer".into()),
                Completion::Failed(status) => {
                    return Err(format!("the device reports error {status} of ibv_wc_status"));
                }
            }
        }
        Ok(())
    }
}

impl Outlet for VerbsOutlet {
    fn answer(&self) -> Vec<u8> {
        let Far { gid, pair } = self.pair.place();
        postcard::to_stdvec(&Answer { gid, pair }).expect("writing to memory cannot fail")
    }

    fn store(&mut self, value: u64) -> Result<bool, String> {
        self.collect()?;
        if self.written - self.acknowledged >= u64::from(DEPTH) {
            return Ok(false);
        }
        let number = self.written + 1;
        let is_enough = self.acknowledged > 0 && self.written - self.acknowledged <= UNREPORTED;
        let signalled = number % SIGNAL_EVERY == 1;
        self.pair.write(value, self.address, self.key, number, signalled).map_err(|error| error.to_string())?;
        self.written = number;
        Ok(is_enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_given_up_after_about_a_period() {
        for (period, exponent) in [(1, 5), (10, 8), (100, 11), (1000, 15), (60_000, 20)] {
            assert_eq!(patience(Duration::from_millis(period)), exponent);
            let all = Duration::from_nanos(4096 << exponent) * (u32::from(REPETITIONS) + 1);
            assert!(all * 2 > Duration::from_millis(period) && all <= Duration::from_millis(period), "{all:?}");
        }
        assert_eq!(patience(Duration::ZERO), 1);
    }
}
