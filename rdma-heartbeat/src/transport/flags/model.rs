//! Checks the flags of two nodes over a word of memory, in every execution that the memory model permits.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;

use super::super::flag::ORDERING;
use super::super::means::{Inlet, Means, Outlet};
use super::super::workshop::AtOnce;
use super::*;

const EMITTER: NodeId = 4;
const OBSERVER: NodeId = 5;
const FLAGS: u32 = 3;

/// A word for the model; [`SharedMemory`](super::super::SharedMemory) has one that is mapped twice.
struct Word(Arc<AtomicU64>);

impl Means for Word {
    fn name(&self) -> &'static str {
        "model"
    }

    fn open(&mut self, _: SocketAddr, _: u32) -> Result<Box<dyn Inlet>, String> {
        Ok(Box::new(End(Arc::clone(&self.0))))
    }

    fn attach(&mut self, _: SocketAddr, _: &[u8], _: u32) -> Result<Box<dyn Outlet>, String> {
        Ok(Box::new(End(Arc::clone(&self.0))))
    }
}

struct End(Arc<AtomicU64>);

impl Inlet for End {
    fn offer(&self) -> Vec<u8> {
        Vec::new()
    }

    fn connect(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn load(&self) -> u64 {
        self.0.load(ORDERING)
    }
}

impl Outlet for End {
    fn answer(&self) -> Vec<u8> {
        Vec::new()
    }

    fn store(&mut self, value: u64) -> Result<bool, String> {
        self.0.store(value, ORDERING);
        Ok(true)
    }
}

/// The flags of an emitter and its observer, connected.
fn connected() -> (Flags, Flags) {
    let memory = Arc::new(AtomicU64::new(0));
    let (address, timeout) = (([10, 0, 0, 1], 7).into(), Duration::from_secs(1));
    let flags = |me| {
        let bench = AtOnce::new(Word(Arc::clone(&memory)));
        Flags::new(Some(Box::new(bench)), false, [9; 32], me, 0, timeout)
    };
    let (mut emitter, mut observer) = (flags(EMITTER), flags(OBSERVER));
    emitter.settle(None, Some(OBSERVER));
    observer.settle(Some(EMITTER), None);
    assert_eq!(observer.heard(Time::ZERO, EMITTER, address), None);
    let (_, offer) = observer.tend(Time::ZERO).expect("a slot is offered");
    assert_eq!(emitter.take(Time::ZERO, OBSERVER, address, &offer), None);
    let (_, answer) = emitter.tend(Time::ZERO).expect("the offer is answered");
    observer.take(Time::ZERO, EMITTER, address, &answer);
    observer.tend(Time::ZERO);
    (emitter, observer)
}

#[test]
fn flags_are_seen_in_order_once_each_and_the_last_for_certain() {
    loom::model(|| {
        let (mut emitter, mut observer) = connected();
        let emitting = loom::thread::spawn(move || {
            for _ in 0..FLAGS {
                assert!(emitter.raise(OBSERVER));
            }
        });
        let early = (0..2).filter(|_| observer.look(Time::ZERO).is_some()).count();
        emitting.join().expect("the emitter does not fail");
        // All flags raised before have been seen by now.
        let late = usize::from(observer.look(Time::ZERO).is_some());
        assert_eq!(observer.look(Time::ZERO), None, "nothing is seen twice");
        let counters = *observer.counters();
        assert_eq!(counters.seen, (early + late) as u64);
        assert_eq!((counters.seen + counters.overtaken, counters.refused), (u64::from(FLAGS), 0));
    });
}
