//! One end of a transport, put together as in `ringwatchd`: messages, flags, and who asks for them when.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use clap::ValueEnum;
use platform::clock;
use propagation::{Message, NodeId, Time};
use rdma_heartbeat::session::network::Network;
use rdma_heartbeat::transport::{AtOnce, Flags, SharedMemory, Thread, Udp, Verbs, Workshop};
use serde::{Deserialize, Serialize};

/// How heartbeats travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Carrier {
    /// Not at all: what the timers alone cost.
    None,
    /// As datagrams.
    Udp,
    /// As flags in memory of the same machine.
    Shared,
    /// As RDMA writes.
    Verbs,
}

impl Carrier {
    /// For people and for the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Udp => "udp",
            Self::Shared => "shared",
            Self::Verbs => "verbs",
        }
    }

    fn workshop(self, period: Duration) -> Result<Option<Box<dyn Workshop>>, String> {
        Ok(match self {
            Self::None | Self::Udp => None,
            Self::Shared => Some(Box::new(AtOnce::new(SharedMemory))),
            Self::Verbs => {
                let verbs = Verbs::new(period).ok_or("this machine has no RDMA device")?;
                Some(Box::new(Thread::start(Box::new(verbs)).map_err(|error| error.to_string())?))
            }
        })
    }
}

pub const OBSERVER: NodeId = 0;
pub const EMITTER: NodeId = 1;

/// The observer's or the emitter's end.
pub struct End {
    pub carrier: Carrier,
    network: Network,
    flags: Flags,
    me: NodeId,
    beats: u64,
    received: u64,
}

impl End {
    /// Node `me` at this address, and where it can be reached.
    pub fn new(me: NodeId, own: IpAddr, carrier: Carrier, period: Duration) -> Result<(Self, u16), String> {
        let socket = UdpSocket::bind((own, 0)).map_err(|error| format!("{own}: {error}"))?;
        let port = socket.local_addr().map_err(|error| error.to_string())?.port();
        let udp = Udp::new(socket.into()).map_err(|error| error.to_string())?;
        let launch = crate::cluster::launch(&[1, 1]);
        // The same job at both ends, whatever else their processes have done.
        let launch = node_abi::launch::LaunchData { job: 1, ..launch };
        let network = Network::new(Box::new(udp), &launch, me, 0);
        let workshop = carrier.workshop(period)?;
        let mut flags = Flags::new(workshop, false, launch.key, me, 0, Duration::from_millis(500));
        flags.settle((me == OBSERVER).then_some(EMITTER), (me == EMITTER).then_some(OBSERVER));
        Ok((Self { carrier, network, flags, me, beats: 0, received: 0 }, port))
    }

    /// Learns where both ends are.
    pub fn meet(&mut self, observer: (IpAddr, u16), emitter: (IpAddr, u16)) {
        self.network.set_roster(&[observer.into(), emitter.into()]);
    }

    /// Whether heartbeats travel as they should. Of datagrams the emitter cannot know.
    pub fn works(&self) -> bool {
        match (self.carrier, self.me) {
            (Carrier::None, _) | (Carrier::Udp, EMITTER) => true,
            (Carrier::Udp, _) => self.received > 0,
            (_, OBSERVER) => self.flags.incoming().is_some(),
            _ => self.flags.outgoing().is_some(),
        }
    }

    /// Sends a heartbeat.
    pub fn beat(&mut self) {
        if self.carrier == Carrier::None {
            return;
        }
        self.beats += 1;
        if !self.flags.raise(OBSERVER) {
            self.network.send(OBSERVER, &Message::Heartbeat { count: self.beats });
        }
    }

    /// Takes what is not a heartbeat, and what the makers of connections have finished.
    pub fn tend(&mut self) {
        let now = clock::now();
        while let Some(datagram) = self.network.receive() {
            let Some((from, address, Message::Transport { word })) = datagram else { continue };
            if let Some(word) = self.flags.take(now, from, address, &word) {
                self.network.send(from, &Message::Transport { word });
            }
        }
        while let Some((to, word)) = self.flags.tend(now) {
            self.network.send(to, &Message::Transport { word });
        }
    }

    /// Looks for heartbeats and says when the last of the new ones came. A flag says so by one load of memory; the
    /// sockets are asked for datagrams only where there are no flags.
    pub fn look(&mut self, now: Time) -> Option<Time> {
        let is_raised = self.flags.look(now).is_some();
        if is_raised || self.carrier == Carrier::None {
            return Some(now);
        }
        if self.flags.incoming().is_some() {
            return None;
        }
        let mut last = None;
        while let Some((datagram, at)) = self.network.receive_heartbeat(now) {
            let Some((from, address, _)) = datagram else { continue };
            self.received += 1;
            last = Some(at);
            if let Some(word) = self.flags.heard(now, from, address) {
                self.network.send(from, &Message::Transport { word });
            }
        }
        last
    }

    /// Number of heartbeats that have arrived so far, also those that others overtook.
    pub fn arrived(&self) -> u64 {
        self.received + self.flags.counters().seen + self.flags.counters().overtaken
    }
}
