//! Two nodes whose slots are cells of this process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::super::means::{Inlet, Means, Outlet};
use super::super::workshop::AtOnce;
use super::incoming::GUESS;
use super::*;

const TIMEOUT: Duration = Duration::from_millis(300);
const EMITTER: NodeId = 4;
const OBSERVER: NodeId = 5;
const KEY: [u8; 32] = [9; 32];

/// Memory that both nodes can access, by slot number.
#[derive(Clone, Default)]
struct Memory {
    slots: Arc<Mutex<Vec<Arc<SharedSlot>>>>,
    is_broken: Arc<AtomicBool>,
}

#[derive(Default)]
struct SharedSlot {
    value: AtomicU64,
    is_connected: AtomicBool,
}

struct End {
    slot: Arc<SharedSlot>,
    number: u8,
    is_broken: Arc<AtomicBool>,
}

impl Memory {
    fn end(&self, number: u8) -> Box<End> {
        let slot = Arc::clone(&self.slots.lock().unwrap()[usize::from(number)]);
        Box::new(End { slot, number, is_broken: Arc::clone(&self.is_broken) })
    }

    fn last(&self) -> Arc<SharedSlot> {
        Arc::clone(self.slots.lock().unwrap().last().unwrap())
    }
}

impl Means for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&mut self, _: SocketAddr, _: u32) -> Result<Box<dyn Inlet>, String> {
        let mut slots = self.slots.lock().unwrap();
        slots.push(Arc::default());
        let number = slots.len() - 1;
        drop(slots);
        Ok(self.end(u8::try_from(number).unwrap()))
    }

    fn attach(&mut self, _: SocketAddr, offer: &[u8], _: u32) -> Result<Box<dyn Outlet>, String> {
        if self.is_broken.load(Relaxed) { Err("it is broken".into()) } else { Ok(self.end(offer[0])) }
    }
}

impl Inlet for End {
    fn offer(&self) -> Vec<u8> {
        vec![self.number]
    }

    fn connect(&mut self, _: &[u8]) -> Result<(), String> {
        self.slot.is_connected.store(true, Relaxed);
        Ok(())
    }

    fn load(&self) -> u64 {
        self.slot.value.load(Relaxed)
    }
}

impl Outlet for End {
    fn answer(&self) -> Vec<u8> {
        vec![self.number]
    }

    fn store(&mut self, value: u64) -> Result<bool, String> {
        if self.is_broken.load(Relaxed) {
            return Err("it is broken".into());
        }
        self.slot.value.store(value, Relaxed);
        Ok(self.slot.is_connected.load(Relaxed))
    }
}

struct Couple {
    emitter: Flags,
    observer: Flags,
    memory: Memory,
    now: Time,
}

fn address() -> SocketAddr {
    ([10, 0, 0, 1], 7).into()
}

fn couple(emitter_can: bool) -> Couple {
    let memory = Memory::default();
    let flags = |can: bool, me| {
        let bench = || Box::new(AtOnce::new(memory.clone()));
        Flags::new(can.then(|| bench() as Box<dyn Workshop>), false, KEY, me, 0, TIMEOUT)
    };
    let (mut emitter, mut observer) = (flags(emitter_can, EMITTER), flags(true, OBSERVER));
    emitter.settle(Some(3), Some(OBSERVER));
    observer.settle(Some(EMITTER), Some(6));
    Couple { emitter, observer, memory, now: Time::ZERO }
}

impl Couple {
    /// Runs a period: the emitter's heartbeat, as a datagram if it needs one, and the consequences. Returns whether it
    /// was a datagram.
    fn beat(&mut self) -> bool {
        let needs_datagram = !self.emitter.raise(OBSERVER);
        if needs_datagram {
            if let Some(answer) = self.offer().and_then(|offer| self.answer(&offer)) {
                assert_eq!(self.observer.take(self.now, EMITTER, address(), &answer), None);
                assert_eq!(self.observer.tend(self.now), None);
            }
        }
        self.now += TIMEOUT / 3;
        needs_datagram
    }

    /// The observer's message after a datagram.
    fn offer(&mut self) -> Option<Vec<u8>> {
        let again = self.observer.heard(self.now, EMITTER, address());
        again.or_else(|| self.observer.tend(self.now).map(|(_, word)| word))
    }

    /// The emitter's answer to an offer.
    fn answer(&mut self, offer: &[u8]) -> Option<Vec<u8>> {
        let again = self.emitter.take(self.now, OBSERVER, address(), offer);
        again.or_else(|| self.emitter.tend(self.now).map(|(_, word)| word))
    }

    fn look(&mut self) -> Option<NodeId> {
        self.observer.look(self.now)
    }

    fn beats(&mut self, count: usize) -> Vec<bool> {
        (0..count).map(|_| self.beat()).collect()
    }
}

#[test]
fn heartbeats_become_flags_that_are_seen_once_each() {
    let mut couple = couple(true);
    assert_eq!(couple.beats(3), [true, false, false]);
    assert_eq!((couple.look(), couple.look()), (Some(EMITTER), None));
    assert_eq!(couple.beats(1), [false]);
    assert_eq!((couple.look(), couple.look()), (Some(EMITTER), None));
    assert_eq!((couple.emitter.outgoing(), couple.observer.incoming()), (Some("memory"), Some("memory")));
    assert_eq!((couple.emitter.incoming(), couple.observer.outgoing()), (None, None));
    assert_eq!(*couple.observer.counters(), FlagCounters { seen: 2, overtaken: 1, ..FlagCounters::default() });
    assert_eq!(couple.emitter.counters().raised, 3);
}

#[test]
fn datagrams_go_on_until_flags_are_acknowledged() {
    let mut couple = couple(true);
    let offer = couple.offer().unwrap();
    let answer = couple.answer(&offer).unwrap();
    assert!(!couple.emitter.raise(OBSERVER) && couple.emitter.outgoing().is_none());
    assert_eq!(couple.look(), Some(EMITTER));
    couple.observer.take(couple.now, EMITTER, address(), &answer);
    couple.observer.tend(couple.now);
    assert!(couple.emitter.raise(OBSERVER));
    assert!(!couple.emitter.raise(6), "a node that offered nothing");
}

#[test]
fn an_error_leads_back_to_datagrams_and_on_to_another_slot() {
    let mut couple = couple(true);
    couple.beats(2);
    couple.look();
    let old = couple.memory.last().value.load(Relaxed);
    couple.memory.is_broken.store(true, Relaxed);
    couple.now += TIMEOUT;
    assert_eq!(couple.beats(2), [true; 2]);
    couple.memory.is_broken.store(false, Relaxed);
    // An offer was refused meanwhile, so the next one is delayed.
    assert_eq!(couple.beats(60).iter().filter(|datagram| !**datagram).count(), 0);
    couple.now += RAREST;
    assert_eq!(couple.beats(2), [true, false]);
    assert_eq!(couple.look(), Some(EMITTER));
    // A value of the old slot is invalid in this one.
    couple.memory.last().value.store(old, Relaxed);
    assert_eq!(couple.look(), None);
    assert_eq!(couple.observer.counters().refused, 1);
}

#[test]
fn a_broken_connection_is_made_anew_when_a_datagram_comes_without_a_flag() {
    let mut couple = couple(true);
    couple.beats(4);
    couple.look();
    couple.emitter.outgoing.detach(&mut couple.emitter.shop);
    assert_eq!(couple.beats(3), [true, true, false]);
    assert_eq!(couple.memory.slots.lock().unwrap().len(), 2);
}

#[test]
fn a_connection_stays_where_flags_arrive_and_are_acknowledged_late() {
    let mut couple = couple(true);
    couple.beats(2);
    let slot = couple.memory.last();
    slot.is_connected.store(false, Relaxed);
    for _ in 0..5 {
        assert_eq!(couple.look(), Some(EMITTER));
        assert_eq!(couple.beats(1), [true]);
        assert_eq!(couple.emitter.outgoing(), None);
    }
    slot.is_connected.store(true, Relaxed);
    assert_eq!(couple.beats(1), [false]);
    assert_eq!(couple.memory.slots.lock().unwrap().len(), 1);
}

#[test]
fn a_connection_is_made_anew_where_flags_are_neither_seen_nor_acknowledged() {
    let mut couple = couple(true);
    couple.beats(2);
    couple.look();
    couple.memory.last().is_connected.store(false, Relaxed);
    // The observer does not read: written values are lost.
    assert_eq!(couple.beats(3), [true, true, false]);
    assert_eq!(couple.memory.slots.lock().unwrap().len(), 2);
}

#[test]
fn a_value_that_is_not_the_emitters_counts_for_nothing() {
    let mut couple = couple(true);
    couple.beats(3);
    assert_eq!(couple.look(), Some(EMITTER));
    let slot = couple.memory.last();
    let newest = slot.value.load(Relaxed);
    for forged in [newest + 1, newest ^ (1 << 32), u64::MAX, 0, FlagKey::new(&KEY, 3, OBSERVER, 0).value(9)] {
        slot.value.store(forged, Relaxed);
        assert_eq!(couple.look(), None, "{forged:x}");
        couple.now += GUESS;
    }
    // An earlier one, repeated.
    slot.value.store(FlagKey::new(&KEY, EMITTER, OBSERVER, 0).value(1), Relaxed);
    assert_eq!((couple.look(), couple.observer.counters().refused), (None, 6));
    couple.now += GUESS;
    assert_eq!(couple.beats(1), [false]);
    assert_eq!(couple.look(), Some(EMITTER));
}

#[test]
fn whoever_guesses_has_one_try_in_a_millisecond() {
    let mut couple = couple(true);
    couple.beats(3);
    assert_eq!(couple.look(), Some(EMITTER));
    let slot = couple.memory.last();
    let start = couple.now;
    for guess in 0..100 {
        slot.value.store(u64::MAX - guess, Relaxed);
        assert_eq!(couple.look(), None);
        couple.now += GUESS / 10;
    }
    assert_eq!((couple.observer.counters().refused, couple.now - start), (10, 10 * GUESS));
    // It no longer hides the emitter's own value.
    assert_eq!(couple.beats(1), [false]);
    couple.now += GUESS;
    assert_eq!(couple.look(), Some(EMITTER));
}

#[test]
fn whoever_cannot_says_so_and_is_asked_rarely() {
    let mut couple = couple(false);
    let mut offers = 0;
    for _ in 0..1200 {
        if let Some(offer) = couple.offer() {
            offers += 1;
            let answer = couple.answer(&offer).unwrap();
            couple.observer.take(couple.now, EMITTER, address(), &answer);
        }
        couple.now += TIMEOUT / 3;
    }
    assert_eq!((offers, couple.now), (2, RAREST * 2));
    assert_eq!(couple.emitter.heard(couple.now, 3, address()), None, "it offers nothing itself");
}

#[test]
fn lost_words_are_said_again() {
    let mut couple = couple(true);
    assert!(couple.offer().is_some() && couple.offer().is_none());
    couple.now += TIMEOUT;
    let offer = couple.offer().unwrap();
    // The answer is lost as well.
    couple.answer(&offer).unwrap();
    assert!(!couple.emitter.raise(OBSERVER));
    couple.now += 2 * TIMEOUT;
    assert_eq!(couple.beats(2), [true, false]);
    assert_eq!(couple.memory.slots.lock().unwrap().len(), 1);
}

#[test]
fn connections_to_former_neighbours_are_given_up() {
    let mut couple = couple(true);
    couple.beats(2);
    couple.emitter.settle(Some(3), Some(6));
    assert!(!couple.emitter.raise(OBSERVER) && couple.emitter.outgoing().is_none());
    couple.observer.settle(Some(3), Some(6));
    assert_eq!((couple.look(), couple.observer.incoming()), (None, None));
    assert_eq!(couple.observer.heard(couple.now, EMITTER, address()), None);
}

#[test]
fn whoever_asks_for_datagrams_gets_them() {
    let mut couple = couple(true);
    couple.beats(2);
    couple.emitter.asked(3);
    assert!(couple.emitter.raise(OBSERVER));
    couple.emitter.asked(OBSERVER);
    assert!(!couple.emitter.raise(OBSERVER));
}

#[test]
fn a_slot_is_left_before_its_numbers_repeat() {
    let mut couple = couple(true);
    couple.beats(2);
    *couple.emitter.outgoing.count().unwrap() = u32::MAX - 1;
    assert!(couple.emitter.raise(OBSERVER));
    assert_eq!(couple.look(), Some(EMITTER));
    couple.now += TIMEOUT;
    assert_eq!(couple.beats(3), [true, true, false]);
    assert_eq!(couple.look(), Some(EMITTER));
}

#[test]
fn words_of_others_and_nonsense_change_nothing() {
    let mut couple = couple(true);
    let offer = couple.offer().unwrap();
    assert_eq!(couple.emitter.take(couple.now, 3, address(), &offer), None);
    assert_eq!(couple.emitter.take(couple.now, OBSERVER, address(), &[7, 7, 7]), None);
    let answer = couple.answer(&offer).unwrap();
    couple.observer.take(couple.now, 6, address(), &answer);
    assert!(!couple.emitter.raise(OBSERVER), "nobody has connected");
}

#[test]
fn what_was_made_for_a_former_neighbour_is_given_back() {
    let mut couple = couple(true);
    // Ordered, and not made when the ring closes over a gap.
    assert_eq!(couple.observer.heard(couple.now, EMITTER, address()), None);
    couple.observer.settle(Some(3), Some(6));
    assert_eq!(couple.observer.tend(couple.now), None);
    assert_eq!(Arc::strong_count(&couple.memory.last()), 2, "the list's, and this one");
    couple.observer.settle(Some(EMITTER), Some(6));
    let offer = couple.offer().unwrap();
    assert_eq!(couple.emitter.take(couple.now, OBSERVER, address(), &offer), None);
    couple.emitter.settle(Some(3), Some(6));
    assert_eq!(couple.emitter.tend(couple.now), None);
    assert_eq!(Arc::strong_count(&couple.memory.last()), 3, "and the observer's");
}
