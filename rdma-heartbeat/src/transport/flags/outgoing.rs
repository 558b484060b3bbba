//! Manages the emitter's side: raises flags in the slot that the observer has offered.

use std::net::SocketAddr;

use propagation::NodeId;
use tracing::{info, warn};

use super::{FlagCounters, Shop, Word};
use crate::transport::flag::FlagKey;
use crate::transport::means::Outlet;
use crate::transport::workshop::Job;

const AGAIN: &str = "heartbeats to this node are datagrams again";

/// State of this node's own flags.
#[derive(Default)]
pub(super) struct Outgoing {
    observer: Option<NodeId>,
    slot: Option<Slot>,
}

struct Slot {
    epoch: u64,
    /// `None` while it is in the workshop.
    outlet: Option<Box<dyn Outlet>>,
    key: FlagKey,
    count: u32,
    works: bool,
}

impl Outgoing {
    pub fn settle(&mut self, observer: Option<NodeId>, shop: &mut Shop) {
        if self.observer != observer {
            self.detach(shop);
            self.observer = observer;
        }
    }

    /// Closes the slot; the next heartbeat is a datagram.
    pub fn detach(&mut self, shop: &mut Shop) {
        if let Some(outlet) = self.slot.take().and_then(|slot| slot.outlet) {
            shop.discard(outlet);
        }
    }

    /// Handles a node's request for datagrams.
    pub fn asked(&mut self, from: NodeId, shop: &mut Shop) {
        if self.observer == Some(from) {
            self.detach(shop);
        }
    }

    /// Handles the observer's offer of a slot: answers, or connects it first.
    pub fn offered(
        &mut self,
        from: NodeId,
        address: SocketAddr,
        epoch: u64,
        offer: Vec<u8>,
        shop: &mut Shop,
    ) -> Option<Word> {
        // The ring has changed, and the offer will be repeated once both know.
        if self.observer != Some(from) {
            return None;
        }
        if !shop.is_open() {
            return Some(Word::Answer { epoch, place: None });
        }
        if let Some(slot) = self.slot.as_ref().filter(|slot| slot.epoch >= epoch) {
            // The answer was lost, unless it is still to be made.
            return slot.answer().filter(|_| slot.epoch == epoch);
        }
        self.detach(shop);
        let key = shop.key(shop.me, from, epoch);
        shop.order(Job::Attach { number: epoch, peer: address, offer, first_packet: key.first_packet() });
        self.slot = Some(Slot { epoch, outlet: None, key, count: 0, works: false });
        None
    }

    /// Handles an end from the workshop: answers the observer.
    pub fn made(
        &mut self,
        epoch: u64,
        outlet: Result<Box<dyn Outlet>, String>,
        shop: &mut Shop,
    ) -> Option<(NodeId, Word)> {
        let slot = self.slot.as_mut().filter(|slot| slot.epoch == epoch);
        match (slot, outlet) {
            (Some(slot), Ok(outlet)) => {
                slot.outlet = Some(outlet);
                return self.observer.zip(slot.answer());
            }
            (Some(_), Err(why)) => {
                self.slot = None;
                shop.report(self.observer, "to", &why);
                return self.observer.map(|observer| (observer, Word::Answer { epoch, place: None }));
            }
            // It was ordered for a former neighbour.
            (None, Ok(outlet)) => shop.discard(outlet),
            (None, Err(_)) => {}
        }
        None
    }

    /// Raises the next flag; returns whether it needs no datagram.
    pub fn raise(&mut self, to: NodeId, counters: &mut FlagCounters, shop: &mut Shop) -> bool {
        let Some(slot) = self.slot.as_mut().filter(|_| self.observer == Some(to)) else { return false };
        let Some(outlet) = &mut slot.outlet else { return false };
        // The count never restarts from 1: values would repeat. Datagrams lead to a new slot.
        let Some(count) = slot.count.checked_add(1) else {
            self.detach(shop);
            return false;
        };
        slot.count = count;
        counters.raised += 1;
        match outlet.store(slot.key.value(count)) {
            Ok(acknowledged) => {
                match (slot.works, acknowledged) {
                    (false, true) => {
                        info!(node = to, means = shop.name(), "heartbeats to this node are flags from now on");
                    }
                    (true, false) => warn!(node = to, "flags are not acknowledged; {AGAIN}"),
                    _ => {}
                }
                slot.works = acknowledged;
                acknowledged
            }
            Err(why) => {
                if slot.works {
                    warn!(node = to, %why, "a flag could not be raised; {AGAIN}");
                } else {
                    shop.report(self.observer, "to", &why);
                }
                self.detach(shop);
                false
            }
        }
    }

    /// Whether flags in the current slot are acknowledged.
    pub fn works(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.works)
    }

    /// Number of flags raised in the current slot so far.
    #[cfg(test)]
    pub fn count(&mut self) -> Option<&mut u32> {
        self.slot.as_mut().map(|slot| &mut slot.count)
    }
}

impl Slot {
    fn answer(&self) -> Option<Word> {
        Some(Word::Answer { epoch: self.epoch, place: Some(self.outlet.as_ref()?.answer()) })
    }
}
