//! Transfers heartbeats as flags: the emitter writes a growing number into its observer's memory, and no code of the
//! observer runs to receive it (section 5.1 of the paper). The observer reads it when its own timer has woken it
//! anyway.
//!
//! Everything else stays datagrams, and so do heartbeats wherever flags do not work:
//!
//! 1. A heartbeat of the emitter that arrives as a datagram makes the observer *offer* a slot, with a new number,
//!    unless a flag has arrived since the previous one: then the existing slot works.
//! 2. The emitter connects and *answers*, or answers that it cannot. It raises flags and sends datagrams, until its
//!    flags are acknowledged; from then on it raises flags only.
//! 3. At any error of a flag the emitter sends datagrams again, which leads to step 1; also beside flags that are not
//!    acknowledged any more. The same follows when an end is restarted, and when the ring closes over a gap.
//!    Unsuccessful offers become rarer, down to one a minute.
//!
//! So no node needs to know whether the other side's device, connection or process still exists. An error of a
//! connection is no evidence of a failure: it only turns flags back into datagrams. Arriving heartbeats decide whether
//! the node is alive.
//!
//! A flag counts from the moment at which it is read. It may have been raised since the previous read, at most one
//! period ago: so a silent node may be suspected by that much later than with datagrams.

use std::net::SocketAddr;
use std::time::Duration;

use propagation::{NodeId, Time};
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use super::flag::FlagKey;
use super::workshop::{Discarded, Job, Product, Workshop};
use incoming::Incoming;
use outgoing::Outgoing;

mod incoming;
mod outgoing;

/// Maximum time between two unsuccessful offers.
const RAREST: Duration = Duration::from_secs(60);

/// A message between neighbours about a slot.
#[derive(Serialize, Deserialize)]
enum Word {
    /// The sender offers its slot of this number to the receiver.
    Offer { epoch: u64, place: Vec<u8> },
    /// The sender raises flags in it; or it cannot.
    Answer { epoch: u64, place: Option<Vec<u8>> },
}

impl Word {
    fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("writing a word to memory cannot fail")
    }
}

/// Counters of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagCounters {
    /// Raised by this node.
    pub raised: u64,
    /// Seen by this node.
    pub seen: u64,
    /// Raised by the emitter between two reads, so that only the later one was seen.
    pub overtaken: u64,
    /// Values that the emitter has not made.
    pub refused: u64,
}

/// The flags between a node and its two neighbours.
pub struct Flags {
    shop: Shop,
    incoming: Incoming,
    outgoing: Outgoing,
    counters: FlagCounters,
}

/// State common to both sides.
struct Shop {
    workshop: Option<Box<dyn Workshop>>,
    /// Whether the user requires flags, and gets a warning without them.
    insists: bool,
    job_key: [u8; 32],
    me: NodeId,
}

impl Shop {
    fn is_open(&self) -> bool {
        self.workshop.is_some()
    }

    fn name(&self) -> &'static str {
        self.workshop.as_ref().map_or("none", |workshop| workshop.name())
    }

    fn key(&self, from: NodeId, to: NodeId, epoch: u64) -> FlagKey {
        FlagKey::new(&self.job_key, from, to, epoch)
    }

    fn order(&mut self, job: Job) {
        if let Some(workshop) = &mut self.workshop {
            workshop.order(job);
        }
    }

    fn discard(&mut self, thing: impl Discarded + 'static) {
        if let Some(workshop) = &mut self.workshop {
            workshop.discard(Box::new(thing));
        }
    }

    fn report(&self, node: Option<NodeId>, direction: &str, why: &str) {
        if self.insists {
            warn!(?node, why, "heartbeats {direction} this node stay datagrams");
        } else {
            info!(?node, why, "heartbeats {direction} this node stay datagrams");
        }
    }
}

impl Flags {
    /// The flags of node `me`. Without a workshop this node answers that it cannot raise any; if the user `insists`,
    /// that causes a warning.
    #[must_use]
    pub fn new(
        workshop: Option<Box<dyn Workshop>>,
        insists: bool,
        job_key: [u8; 32],
        me: NodeId,
        incarnation: u32,
        timeout: Duration,
    ) -> Self {
        Self {
            shop: Shop { workshop, insists, job_key, me },
            // Every slot of this node has its own number, also after a restart.
            incoming: Incoming::new(u64::from(incarnation) << 32, timeout),
            outgoing: Outgoing::default(),
            counters: FlagCounters::default(),
        }
    }

    /// Sets the neighbours; connections to other nodes are closed.
    pub fn settle(&mut self, emitter: Option<NodeId>, observer: Option<NodeId>) {
        self.incoming.settle(emitter, &mut self.shop);
        self.outgoing.settle(observer, &mut self.shop);
    }

    /// Handles a heartbeat that arrived as a datagram, and returns the message for its sender.
    pub fn heard(&mut self, now: Time, from: NodeId, address: SocketAddr) -> Option<Vec<u8>> {
        self.incoming.heard(now, from, address, &mut self.shop).map(|word| word.encode())
    }

    /// Handles a node's message about slots, and returns the answer.
    pub fn take(&mut self, now: Time, from: NodeId, address: SocketAddr, word: &[u8]) -> Option<Vec<u8>> {
        match postcard::from_bytes(word) {
            Ok(Word::Offer { epoch, place }) => {
                return self.outgoing.offered(from, address, epoch, place, &mut self.shop).map(|word| word.encode());
            }
            Ok(Word::Answer { epoch, place }) => self.incoming.answered(now, from, epoch, place, &mut self.shop),
            Err(error) => debug!(from, %error, "a word about flags cannot be understood"),
        }
        None
    }

    /// Handles products of the workshop, and returns a message with its receiver.
    pub fn tend(&mut self, now: Time) -> Option<(NodeId, Vec<u8>)> {
        while let Some(product) = self.shop.workshop.as_mut()?.collect() {
            let word = match product {
                Product::Opened { number, inlet } => self.incoming.made(now, number, inlet, false, &mut self.shop),
                Product::Connected { number, inlet } => self.incoming.made(now, number, inlet, true, &mut self.shop),
                Product::Attached { number, outlet } => self.outgoing.made(number, outlet, &mut self.shop),
            };
            if let Some((to, word)) = word {
                return Some((to, word.encode()));
            }
        }
        None
    }

    /// Handles a node's request for datagrams: its slot for this node, if it had one, no longer exists.
    pub fn asked(&mut self, from: NodeId) {
        self.outgoing.asked(from, &mut self.shop);
    }

    /// Raises the flag of the next heartbeat, and returns whether it needs no datagram.
    pub fn raise(&mut self, to: NodeId) -> bool {
        self.outgoing.raise(to, &mut self.counters, &mut self.shop)
    }

    /// Checks whether the emitter has raised another flag: one load of memory if not.
    pub fn look(&mut self, now: Time) -> Option<NodeId> {
        self.incoming.look(now, &mut self.counters, self.shop.name())
    }

    /// Means of the emitter's heartbeats, if they are not datagrams.
    #[must_use]
    pub fn incoming(&self) -> Option<&'static str> {
        self.incoming.works().then(|| self.shop.name())
    }

    /// Means of this node's own heartbeats, if they are not datagrams.
    #[must_use]
    pub fn outgoing(&self) -> Option<&'static str> {
        self.outgoing.works().then(|| self.shop.name())
    }

    /// Counters of flags.
    #[must_use]
    pub fn counters(&self) -> &FlagCounters {
        &self.counters
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
