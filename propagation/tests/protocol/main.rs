//! The promises of the protocol, checked without a clock, a socket or a thread.
//!
//! `ring`, `candidates`, `arbiter`, `trial`, `hold` and `broadcast` drive one member by hand, one test per rule. `tree` is about
//! broadcasts that take the tree. `survivors` runs whole jobs on a simulated network, `growth` jobs whose nodes come
//! and go, and `chaos` many of them through whatever may happen. `anything` hands in whatever comes to mind. `wire` is
//! about the bytes.

mod anything;
mod arbiter;
mod broadcast;
mod candidates;
mod chaos;
mod growth;
mod hold;
mod network;
mod ring;
mod solo;
mod survivors;
mod tree;
mod trial;
mod wire;

use propagation::{Config, NodeId, Time};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};

const MS: Time = Time::from_millis(1);

/// The times of all tests: heartbeats every 10 ms, suspicion after 100 ms, hence 80 ms to confirm, of which the
/// first 10 pass without a hold, 10 ms for a trial and copies every 5 ms.
fn usual(me: NodeId, universe: u32, arbiter: Option<NodeId>) -> Config {
    Config { arbiter, ..Config::new(me, universe, 10 * MS, 100 * MS) }
}

/// The same for members that are driven by hand: they do not ask the nodes behind a silent emitter, of which
/// `candidates` has the tests.
fn config(me: NodeId, universe: u32, arbiter: Option<NodeId>) -> Config {
    Config { candidates: 0, ..usual(me, universe, arbiter) }
}

/// Checks a property for so many inputs, which are the same in every run; for `PROPERTY_TESTS_TIMES` as many, if that
/// is set.
fn check<S: Strategy>(cases: u32, inputs: S, property: impl Fn(S::Value)) {
    let times = std::env::var("PROPERTY_TESTS_TIMES").map_or(1, |times| times.parse().expect("a number"));
    let cases = cases * times;
    let cases = Cases { cases, failure_persistence: None, ..Cases::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(cases, random).run(&inputs, |input| {
        property(input);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
