//! Heartbeats as flags: the emitter writes a growing number into memory of its observer, and no code of the observer
//! runs to receive it (section 5.1 of the paper). The observer looks when its own timer has woken it anyway.
//!
//! Everything else stays datagrams, and so do heartbeats wherever flags do not work:
//!
//! 1. A heartbeat of the emitter that comes as a datagram makes the observer *offer* a slot, with a new number.
//! 2. The emitter connects and *answers*, or answers that it cannot. It raises flags and sends datagrams, until its
//!    flags are acknowledged; from then on it raises flags only.
//! 3. At any error of a flag the emitter sends datagrams again, which is 1. The same follows when an end is started
//!    again, and when the ring closes over a gap. Offers that come to nothing get rarer, up to one a minute.
//!
//! So nobody has to know whether the other side's device, connection or process still exists, and an error of a
//! connection is no evidence about anybody: it only turns flags back into datagrams. Whether the node behind it lives
//! is decided by what arrives.
//!
//! A flag counts from the moment at which it is seen. It may have been raised since the look before, which is at most
//! one period ago: so much later than with datagrams a silent node may be suspected.

use std::net::SocketAddr;
use std::time::Duration;

use propagation::{NodeId, Time};
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use super::flag::FlagKey;

/// Longest time between two offers that come to nothing.
const RAREST: Duration = Duration::from_secs(60);

/// A way to raise flags in another node's memory.
pub trait Means {
    /// Name for people.
    fn name(&self) -> &'static str;

    /// Makes a slot that the node behind this address can be allowed to write.
    ///
    /// # Errors
    /// Why the two nodes cannot use this, as a clause.
    fn open(&mut self, peer: SocketAddr, first_packet: u32) -> Result<Box<dyn Inlet>, String>;

    /// Connects to the slot that the node behind this address has offered.
    ///
    /// # Errors
    /// As above.
    fn attach(&mut self, peer: SocketAddr, offer: &[u8], first_packet: u32) -> Result<Box<dyn Outlet>, String>;
}

/// The observer's end.
pub trait Inlet {
    /// What the emitter has to know.
    fn offer(&self) -> Vec<u8>;

    /// Lets the emitter write, which has answered this.
    ///
    /// # Errors
    /// Why that does not work, as a clause.
    fn connect(&mut self, answer: &[u8]) -> Result<(), String>;

    /// What the emitter wrote last; zero before.
    fn load(&self) -> u64;
}

/// The emitter's end.
pub trait Outlet {
    /// What the observer has to know.
    fn answer(&self) -> Vec<u8>;

    /// Writes a value, and returns whether the other side acknowledges what is written.
    ///
    /// # Errors
    /// Why this outlet is of no use any more, as a clause.
    fn store(&mut self, value: u64) -> Result<bool, String>;
}

/// What neighbours say to each other about a slot.
#[derive(Serialize, Deserialize)]
enum Word {
    /// The sender's slot of this number is yours.
    Offer { epoch: u64, place: Vec<u8> },
    /// I raise flags in it; or I cannot.
    Answer { epoch: u64, place: Option<Vec<u8>> },
}

/// What became of flags so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagCounters {
    /// Raised by this node.
    pub raised: u64,
    /// Seen by this node.
    pub seen: u64,
    /// Raised by the emitter between two looks, so that only the later was seen.
    pub overtaken: u64,
    /// Values that were not the emitter's.
    pub refused: u64,
}

/// The flags between a node and its two neighbours.
pub struct Flags {
    means: Option<Box<dyn Means>>,
    /// Whether the user wants flags and should hear where there are none.
    insists: bool,
    job_key: [u8; 32],
    me: NodeId,
    patience: Duration,
    next_epoch: u64,
    observer: Option<NodeId>,
    incoming: Incoming,
    outgoing: Option<Outgoing>,
    counters: FlagCounters,
}

/// The slot of this node's emitter.
#[derive(Default)]
struct Incoming {
    emitter: Option<NodeId>,
    slot: Option<Offered>,
    next_offer: Time,
    /// How long the next offer is waited for, doubled every time.
    patience: Duration,
}

struct Offered {
    epoch: u64,
    inlet: Box<dyn Inlet>,
    key: FlagKey,
    is_connected: bool,
    value: u64,
    count: u32,
}

struct Outgoing {
    observer: NodeId,
    epoch: u64,
    outlet: Box<dyn Outlet>,
    key: FlagKey,
    count: u32,
    works: bool,
}

impl Flags {
    /// The flags of node `me`. Without `means` this node answers that it cannot raise any.
    #[must_use]
    pub fn new(
        means: Option<Box<dyn Means>>,
        insists: bool,
        job_key: [u8; 32],
        me: NodeId,
        incarnation: u32,
        timeout: Duration,
    ) -> Self {
        Self {
            means,
            insists,
            job_key,
            me,
            patience: timeout,
            next_epoch: u64::from(incarnation) << 32,
            observer: None,
            incoming: Incoming::default(),
            outgoing: None,
            counters: FlagCounters::default(),
        }
    }

    /// Learns who the neighbours are; connections to others are given up.
    pub fn settle(&mut self, emitter: Option<NodeId>, observer: Option<NodeId>) {
        if self.incoming.emitter != emitter {
            self.incoming = Incoming { emitter, patience: self.patience, ..Incoming::default() };
        }
        if self.observer != observer {
            self.observer = observer;
            self.outgoing = None;
        }
    }

    /// Takes note of a heartbeat that came as a datagram, and returns what is to be said to its sender.
    pub fn heard(&mut self, now: Time, from: NodeId, address: SocketAddr) -> Option<Vec<u8>> {
        if self.incoming.emitter != Some(from) || now < self.incoming.next_offer {
            return None;
        }
        let means = self.means.as_mut()?;
        self.incoming.next_offer = now + self.incoming.patience;
        self.incoming.patience = (self.incoming.patience * 2).min(RAREST);
        if self.incoming.slot.as_ref().is_none_or(|slot| slot.is_connected) {
            // Before a new one is made, so that a device with little room has it.
            self.incoming.slot = None;
            let epoch = self.next_epoch;
            self.next_epoch += 1;
            let key = FlagKey::new(&self.job_key, from, self.me, epoch);
            match means.open(address, key.first_packet()) {
                Ok(inlet) => {
                    self.incoming.slot = Some(Offered { epoch, inlet, key, is_connected: false, value: 0, count: 0 });
                }
                Err(why) => {
                    self.incoming.next_offer = now + RAREST;
                    report(self.insists, from, "from", &why);
                }
            }
        }
        let slot = self.incoming.slot.as_ref()?;
        Some(encode(&Word::Offer { epoch: slot.epoch, place: slot.inlet.offer() }))
    }

    /// Takes what a node says about slots, and returns what is to be said to it.
    pub fn take(&mut self, now: Time, from: NodeId, address: SocketAddr, word: &[u8]) -> Option<Vec<u8>> {
        match postcard::from_bytes(word) {
            Ok(Word::Offer { epoch, place }) => self.take_offer(from, address, epoch, &place),
            Ok(Word::Answer { epoch, place }) => {
                self.take_answer(now, from, epoch, place.as_deref());
                None
            }
            Err(error) => {
                debug!(from, %error, "a word about flags cannot be understood");
                None
            }
        }
    }

    fn take_offer(&mut self, from: NodeId, address: SocketAddr, epoch: u64, place: &[u8]) -> Option<Vec<u8>> {
        // The ring has changed, and the offer will come again once both know.
        if self.observer != Some(from) {
            return None;
        }
        if self.outgoing.as_ref().is_none_or(|outgoing| outgoing.epoch < epoch) {
            self.outgoing = None;
            let key = FlagKey::new(&self.job_key, self.me, from, epoch);
            let attached = match &mut self.means {
                Some(means) => means.attach(address, place, key.first_packet()),
                None => Err("this node has no usable RDMA port, or may not use it".into()),
            };
            match attached {
                Ok(outlet) => {
                    self.outgoing = Some(Outgoing { observer: from, epoch, outlet, key, count: 0, works: false });
                }
                Err(why) => report(self.insists, from, "to", &why),
            }
        }
        let outgoing = self.outgoing.as_ref().filter(|outgoing| outgoing.epoch == epoch);
        Some(encode(&Word::Answer { epoch, place: outgoing.map(|outgoing| outgoing.outlet.answer()) }))
    }

    fn take_answer(&mut self, now: Time, from: NodeId, epoch: u64, place: Option<&[u8]>) {
        let is_open = |slot: &&mut Offered| slot.epoch == epoch && !slot.is_connected;
        let Some(slot) = self.incoming.slot.as_mut().filter(is_open) else { return };
        if self.incoming.emitter != Some(from) {
            return;
        }
        let connected = match place {
            Some(place) => slot.inlet.connect(place),
            None => Err("it has no usable RDMA port, or may not use it".into()),
        };
        match connected {
            Ok(()) => slot.is_connected = true,
            Err(why) => {
                self.incoming.slot = None;
                self.incoming.next_offer = now + RAREST;
                report(self.insists, from, "from", &why);
            }
        }
    }

    /// Takes note that a node asks for datagrams: its slot for this node, if it had one, is gone.
    pub fn asked(&mut self, from: NodeId) {
        self.outgoing.take_if(|outgoing| outgoing.observer == from);
    }

    /// Raises the flag of the next heartbeat, and returns whether it needs no datagram.
    pub fn raise(&mut self, to: NodeId) -> bool {
        let Some(outgoing) = self.outgoing.as_mut().filter(|outgoing| outgoing.observer == to) else { return false };
        // Never again from 1: the values would be those of the past. Datagrams lead to a new slot.
        let Some(count) = outgoing.count.checked_add(1) else {
            self.outgoing = None;
            return false;
        };
        outgoing.count = count;
        self.counters.raised += 1;
        match outgoing.outlet.store(outgoing.key.value(count)) {
            Ok(acknowledged) => {
                if acknowledged && !outgoing.works {
                    let means = self.means.as_ref().map_or("none", |means| means.name());
                    info!(node = to, means, "heartbeats to this node are flags from now on");
                }
                outgoing.works = acknowledged;
                acknowledged
            }
            Err(why) => {
                warn!(node = to, %why, "a flag could not be raised; heartbeats to this node are datagrams again");
                self.outgoing = None;
                false
            }
        }
    }

    /// Looks whether the emitter has raised another flag: one load of memory, if it has not.
    pub fn look(&mut self) -> Option<NodeId> {
        let slot = self.incoming.slot.as_mut()?;
        let value = slot.inlet.load();
        if value == slot.value {
            return None;
        }
        slot.value = value;
        let Some(count) = slot.key.count(value).filter(|count| *count > slot.count) else {
            self.counters.refused += 1;
            if self.counters.refused == 1 {
                let node = self.incoming.emitter;
                warn!(?node, "a flag is not its emitter's, it is ignored; further ones are only counted");
            }
            return None;
        };
        if slot.count == 0 {
            let means = self.means.as_ref().map_or("none", |means| means.name());
            info!(node = ?self.incoming.emitter, means, "heartbeats of this node are flags from now on");
        }
        self.counters.seen += 1;
        self.counters.overtaken += u64::from(count - slot.count - 1);
        slot.count = count;
        self.incoming.patience = self.patience;
        self.incoming.emitter
    }

    /// How the emitter's heartbeats come, if not as datagrams.
    #[must_use]
    pub fn incoming(&self) -> Option<&'static str> {
        let works = self.incoming.slot.as_ref().is_some_and(|slot| slot.count > 0);
        self.means.as_ref().filter(|_| works).map(|means| means.name())
    }

    /// How this node's own heartbeats go, if not as datagrams.
    #[must_use]
    pub fn outgoing(&self) -> Option<&'static str> {
        let works = self.outgoing.as_ref().is_some_and(|outgoing| outgoing.works);
        self.means.as_ref().filter(|_| works).map(|means| means.name())
    }

    /// What became of flags so far.
    #[must_use]
    pub fn counters(&self) -> &FlagCounters {
        &self.counters
    }
}

fn report(insists: bool, node: NodeId, direction: &str, why: &str) {
    if insists {
        warn!(node, why, "heartbeats {direction} this node stay datagrams");
    } else {
        info!(node, why, "heartbeats {direction} this node stay datagrams");
    }
}

fn encode(word: &Word) -> Vec<u8> {
    postcard::to_stdvec(word).expect("writing a word to memory cannot fail")
}

#[cfg(test)]
mod tests;
