//! What comparing takes: `cargo bench -p replication`.
#![allow(missing_docs)]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use event_log::protocol::units::Channel;
use replication::digest::{Digester, digest};

const CHANNEL: Channel = Channel { communicator: 0, tag: 1 };

/// Bytes of a message.
const SIZES: [usize; 5] = [64, 1 << 10, 64 << 10, 1 << 20, 4 << 20];

fn main() {
    divan::main();
}

fn data(size: usize) -> Vec<u8> {
    (0..size).map(|place| ((place * 31) >> 3) as u8).collect()
}

/// In one piece.
#[divan::bench(args = SIZES)]
fn whole(bencher: Bencher, size: usize) {
    let data = data(size);
    bencher.counter(BytesCount::new(size)).bench_local(|| digest(CHANNEL, black_box(&data)));
}

/// In pieces of 4 KiB, as a derived datatype is packed.
#[divan::bench(args = SIZES)]
fn pieces(bencher: Bencher, size: usize) {
    let data = data(size);
    bencher.counter(BytesCount::new(size)).bench_local(|| {
        let mut digester = Digester::new(CHANNEL);
        black_box(&data).chunks(4096).for_each(|piece| digester.update(piece));
        digester.finish()
    });
}
