//! `cargo bench -p simulator`: how long a run takes, and how many events and copies a second that is.
#![allow(missing_docs)]

use divan::Bencher;
use divan::counter::ItemsCount;
use simulator::{Elision, Scenario, Strategy, run};

fn main() {
    divan::main();
}

fn measure(bencher: Bencher<'_, '_>, scenario: &Scenario) {
    // Every run of one seed does the same: items are the messages it stands for.
    let items = run(scenario).expect("a valid scenario").message_count();
    bencher.counter(ItemsCount::new(items)).bench(|| run(divan::black_box(scenario)));
}

#[divan::bench(args = [10_000, 100_000, 256_000], sample_count = 10, sample_size = 1)]
fn circulant(bencher: Bencher<'_, '_>, nodes: u32) {
    measure(bencher, &Scenario::low_noise(nodes));
}

#[divan::bench(args = [10_000, 100_000, 256_000], sample_count = 10, sample_size = 1)]
fn tree(bencher: Bencher<'_, '_>, nodes: u32) {
    measure(bencher, &Scenario { strategy: Strategy::Tree, ..Scenario::low_noise(nodes) });
}

#[divan::bench(args = [1000, 10_000], sample_count = 10, sample_size = 1)]
fn circulant_exact(bencher: Bencher<'_, '_>, nodes: u32) {
    measure(bencher, &Scenario { elision: Elision::NONE, ..Scenario::low_noise(nodes) });
}

/// Events that the whole machinery handles, members included, per second.
#[divan::bench(args = [1000, 10_000], sample_count = 10, sample_size = 1)]
fn events_exact(bencher: Bencher<'_, '_>, nodes: u32) {
    let scenario = Scenario { elision: Elision::NONE, ..Scenario::low_noise(nodes) };
    let events = run(&scenario).expect("a valid scenario").work.events;
    bencher.counter(ItemsCount::new(events)).bench(|| run(divan::black_box(&scenario)));
}
