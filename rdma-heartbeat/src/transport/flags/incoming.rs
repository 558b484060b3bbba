//! Manages the observer's side: the slot in which the emitter raises its flags.

use std::net::SocketAddr;
use std::time::Duration;

use propagation::{NodeId, Time};
use tracing::{info, warn};

use super::{FlagCounters, RAREST, Shop, Word};
use crate::transport::flag::FlagKey;
use crate::transport::means::Inlet;
use crate::transport::workshop::Job;

/// Minimum time until the next value is checked after an invalid one; it limits the rate of guesses.
pub(super) const GUESS: Duration = Duration::from_millis(1);

/// State of the emitter's flags.
pub(super) struct Incoming {
    emitter: Option<NodeId>,
    slot: Option<Slot>,
    next_epoch: u64,
    next_offer: Time,
    /// Time at which the next value is checked.
    next_guess: Time,
    /// Time until the next offer, doubled every time.
    patience: Duration,
    first_patience: Duration,
}

struct Slot {
    epoch: u64,
    /// `None` while it is in the workshop.
    inlet: Option<Box<dyn Inlet>>,
    key: FlagKey,
    is_connected: bool,
    value: u64,
    count: u32,
    /// Value of `count` at the last datagram.
    count_before: u32,
}

impl Incoming {
    /// Without an emitter; slots are numbered from `epoch`.
    pub fn new(epoch: u64, patience: Duration) -> Self {
        Self {
            emitter: None,
            slot: None,
            next_epoch: epoch,
            next_offer: Time::ZERO,
            next_guess: Time::ZERO,
            patience,
            first_patience: patience,
        }
    }

    pub fn settle(&mut self, emitter: Option<NodeId>, shop: &mut Shop) {
        if self.emitter != emitter {
            self.close(shop);
            self.emitter = emitter;
            self.next_offer = Time::ZERO;
            self.patience = self.first_patience;
        }
    }

    fn close(&mut self, shop: &mut Shop) {
        if let Some(inlet) = self.slot.take().and_then(|slot| slot.inlet) {
            shop.discard(inlet);
        }
    }

    /// Handles a heartbeat as a datagram: offers a slot, or orders one.
    pub fn heard(&mut self, now: Time, from: NodeId, address: SocketAddr, shop: &mut Shop) -> Option<Word> {
        if self.emitter != Some(from) {
            return None;
        }
        let comes_beside_flags = |slot: &mut Slot| std::mem::replace(&mut slot.count_before, slot.count) < slot.count;
        if self.slot.as_mut().is_some_and(comes_beside_flags) || now < self.next_offer || !shop.is_open() {
            return None;
        }
        self.next_offer = now + self.patience;
        self.patience = (self.patience * 2).min(RAREST);
        if let Some(slot) = self.slot.as_ref().filter(|slot| !slot.is_connected) {
            return slot.offer();
        }
        self.close(shop);
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let key = shop.key(from, shop.me, epoch);
        shop.order(Job::Open { number: epoch, peer: address, first_packet: key.first_packet() });
        self.slot = Some(Slot { epoch, inlet: None, key, is_connected: false, value: 0, count: 0, count_before: 0 });
        None
    }

    /// Handles the emitter's answer to an offer.
    pub fn answered(&mut self, now: Time, from: NodeId, epoch: u64, answer: Option<Vec<u8>>, shop: &mut Shop) {
        let is_open = |slot: &&mut Slot| slot.epoch == epoch && !slot.is_connected;
        let Some(slot) = self.slot.as_mut().filter(is_open).filter(|_| self.emitter == Some(from)) else { return };
        match answer {
            Some(answer) => {
                if let Some(inlet) = slot.inlet.take() {
                    shop.order(Job::Connect { number: epoch, inlet, answer });
                }
            }
            None => self.give_up(now, "it has no usable RDMA port, or may not use it", shop),
        }
    }

    /// Handles a slot from the workshop, new or connected; a new one is offered to its emitter.
    pub fn made(
        &mut self,
        now: Time,
        epoch: u64,
        inlet: Result<Box<dyn Inlet>, String>,
        is_connected: bool,
        shop: &mut Shop,
    ) -> Option<(NodeId, Word)> {
        let slot = self.slot.as_mut().filter(|slot| slot.epoch == epoch);
        match (slot, inlet) {
            (Some(slot), Ok(inlet)) => {
                slot.inlet = Some(inlet);
                slot.is_connected = is_connected;
                return self.emitter.zip(slot.offer()).filter(|_| !is_connected);
            }
            (Some(_), Err(why)) => self.give_up(now, &why, shop),
            // It was ordered for a former neighbour.
            (None, Ok(inlet)) => shop.discard(inlet),
            (None, Err(_)) => {}
        }
        None
    }

    fn give_up(&mut self, now: Time, why: &str, shop: &mut Shop) {
        self.close(shop);
        self.next_offer = now + RAREST;
        shop.report(self.emitter, "from", why);
    }

    /// The emitter, if it has raised another flag.
    pub fn look(&mut self, now: Time, counters: &mut FlagCounters, means: &str) -> Option<NodeId> {
        let slot = self.slot.as_mut()?;
        let value = slot.inlet.as_ref()?.load();
        if value == slot.value || now < self.next_guess {
            return None;
        }
        slot.value = value;
        let Some(count) = slot.key.count(value).filter(|count| *count > slot.count) else {
            self.next_guess = now + GUESS;
            counters.refused += 1;
            if counters.refused == 1 {
                let node = self.emitter;
                warn!(?node, "a flag is not its emitter's, it is ignored; further ones are only counted");
            }
            return None;
        };
        if slot.count == 0 {
            info!(node = ?self.emitter, means, "heartbeats of this node are flags from now on");
        }
        counters.seen += 1;
        counters.overtaken += u64::from(count - slot.count - 1);
        slot.count = count;
        self.patience = self.first_patience;
        self.emitter
    }

    /// Whether a flag has been seen in the current slot.
    pub fn works(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.count > 0)
    }
}

impl Slot {
    fn offer(&self) -> Option<Word> {
        Some(Word::Offer { epoch: self.epoch, place: self.inlet.as_ref()?.offer() })
    }
}
