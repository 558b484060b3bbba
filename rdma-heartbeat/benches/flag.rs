//! What a flag in shared memory costs on either side: `cargo bench -p rdma-heartbeat`.

use std::net::SocketAddr;
use std::time::Duration;

use divan::Bencher;
use propagation::{NodeId, Time};
use rdma_heartbeat::transport::{AtOnce, Flags, SharedMemory};

const EMITTER: NodeId = 1;
const OBSERVER: NodeId = 2;

fn main() {
    divan::main();
}

fn flags(me: NodeId) -> Flags {
    Flags::new(Some(Box::new(AtOnce::new(SharedMemory))), false, [7; 32], me, 0, Duration::from_secs(1))
}

/// An emitter and its observer, whose flags are acknowledged.
fn connected() -> (Flags, Flags) {
    let (mut emitter, mut observer) = (flags(EMITTER), flags(OBSERVER));
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    emitter.settle(None, Some(OBSERVER));
    observer.settle(Some(EMITTER), None);
    observer.heard(Time::ZERO, EMITTER, address);
    while !emitter.raise(OBSERVER) {
        if let Some((_, word)) = observer.tend(Time::ZERO) {
            emitter.take(Time::ZERO, OBSERVER, address, &word);
        }
        if let Some((_, word)) = emitter.tend(Time::ZERO) {
            observer.take(Time::ZERO, EMITTER, address, &word);
        }
    }
    observer.look(Time::ZERO);
    (emitter, observer)
}

/// One check of the flag that finds nothing new.
#[divan::bench(sample_count = 1000, sample_size = 1000)]
fn check(bencher: Bencher) {
    let (_emitter, mut observer) = connected();
    bencher.bench_local(|| observer.look(Time::ZERO));
}

/// One flag, at both sides: raised, seen and verified.
#[divan::bench]
fn raise_and_see(bencher: Bencher) {
    let (mut emitter, mut observer) = connected();
    bencher.bench_local(|| {
        emitter.raise(OBSERVER);
        assert!(observer.look(Time::ZERO).is_some());
    });
}

/// One flag, at the emitter; whatever the observer does.
#[divan::bench]
fn raise(bencher: Bencher) {
    let (mut emitter, _observer) = connected();
    bencher.bench_local(|| emitter.raise(OBSERVER));
}
