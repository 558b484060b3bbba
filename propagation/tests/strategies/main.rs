//! Every broadcast strategy reaches everybody alive, whoever crashes and between whichever two of its messages.
//!
//! `cargo test --release -p propagation --test strategies -- --include-ignored` adds the long ones.

mod wave;

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};

use propagation::{NodeId, RingOrder, Strategy as Spreading};
use wave::Wave;

const BOTH: [Spreading; 2] = [Spreading::Circulant, Spreading::Tree];

fn wave(universe: u32, strategy: Spreading) -> Wave {
    Wave::new(universe, strategy, &RingOrder::default())
}

/// The failures that the paper bears: floor(log2 n) - 1.
fn promised(universe: u32) -> u32 {
    universe.ilog2() - 1
}

/// Twice as many, 2k - 2 of k = floor(log2 n), which both graphs bear.
fn borne(universe: u32) -> u32 {
    promised(universe) * 2
}

/// Runs a broadcast of node 0 for every set of up to `most` nodes that crash, each after any number of messages
/// below its own number in `points`. Returns the number of runs.
fn every_crash(fresh: &Wave, points: &[u32], most: u32) -> u64 {
    fn extend(crashes: &mut Vec<(NodeId, u32)>, fresh: &Wave, points: &[u32], most: u32) -> u64 {
        let mut wave = fresh.clone();
        crashes.iter().for_each(|&(node, after)| wave.crash(node, after));
        wave.run(0);
        assert_eq!(wave.left_out(), [], "of {}, with the crashes {crashes:?}", points.len());
        let next = crashes.last().map_or(0, |&(node, _)| node + 1);
        let mut runs = 1;
        if crashes.len() < most as usize {
            for node in next..points.len() as u32 {
                for after in 0..points[node as usize] {
                    crashes.push((node, after));
                    runs += extend(crashes, fresh, points, most);
                    crashes.pop();
                }
            }
        }
        runs
    }
    extend(&mut vec![], fresh, points, most)
}

/// How many messages each node sends if nobody crashes, at least 1: so many different moments it has to crash at.
fn moments(fresh: &Wave) -> Vec<u32> {
    let mut wave = fresh.clone();
    wave.run(0);
    wave.sent.iter().map(|&sent| sent.max(1)).collect()
}

#[test]
fn the_tree_reaches_everybody_for_every_set_of_crashes_at_every_moment_up_to_16() {
    for universe in 2..=16 {
        let fresh = wave(universe, Spreading::Tree);
        every_crash(&fresh, &moments(&fresh), promised(universe));
    }
}

/// The tree by its rescue, which takes the other graph.
#[test]
fn both_reach_everybody_for_every_set_of_twice_as_many_crashes_up_to_8() {
    for (universe, strategy) in (2..=8).flat_map(|universe| BOTH.map(|strategy| (universe, strategy))) {
        let fresh = wave(universe, strategy);
        every_crash(&fresh, &moments(&fresh), borne(universe));
    }
}

#[test]
#[ignore = "minutes in release mode"]
fn both_reach_everybody_for_every_set_of_twice_as_many_crashes_up_to_16() {
    for universe in 9..=16 {
        let tree = wave(universe, Spreading::Tree);
        let runs = every_crash(&tree, &vec![2; universe as usize], borne(universe))
            + every_crash(&wave(universe, Spreading::Circulant), &vec![1; universe as usize], borne(universe));
        println!("{universe}: {runs} runs");
    }
}

/// In the circulant graph a node that crashes at once is the worst case: any message that it sends before only helps.
#[test]
fn the_circulant_graph_reaches_everybody_for_every_set_of_crashes_up_to_16() {
    for universe in 2..=16 {
        every_crash(&wave(universe, Spreading::Circulant), &vec![1; universe as usize], promised(universe));
    }
}

fn circulant_at_every_moment(sizes: std::ops::RangeInclusive<u32>) {
    for universe in sizes {
        let fresh = wave(universe, Spreading::Circulant);
        every_crash(&fresh, &moments(&fresh), promised(universe));
    }
}

/// That "at once" is the worst case is tried where it can be.
#[test]
fn the_circulant_graph_reaches_everybody_for_every_set_of_crashes_at_every_moment_up_to_8() {
    circulant_at_every_moment(2..=8);
}

#[test]
#[ignore = "minutes in release mode"]
fn the_circulant_graph_reaches_everybody_for_every_set_of_crashes_at_every_moment_up_to_12() {
    circulant_at_every_moment(9..=12);
}

#[test]
#[ignore = "minutes in release mode"]
fn the_same_for_up_to_24_also_in_the_middle_of_a_rescue() {
    let mut runs = 0;
    for universe in 2..=24_u32 {
        let fresh = wave(universe, Spreading::Tree);
        let most = if universe <= 17 { promised(universe) } else { promised(universe).min(2) };
        let longest = moments(&fresh).iter().map(|sent| sent + 2 * universe.ilog2()).collect::<Vec<_>>();
        runs += every_crash(&fresh, &longest, most);
        if promised(universe) > 2 {
            runs += every_crash(&fresh, &moments(&fresh), promised(universe));
        }
    }
    println!("{runs} runs");
}

#[test]
#[ignore = "minutes in release mode"]
fn the_circulant_graph_reaches_everybody_for_every_set_of_crashes_up_to_33() {
    for universe in 17..=33_u32 {
        let runs = every_crash(&wave(universe, Spreading::Circulant), &vec![1; universe as usize], promised(universe));
        println!("{universe}: {runs} runs");
    }
}

/// The number of nodes, a seed, and who crashes after how many messages: as many as are borne.
fn any_crashes(sizes: std::ops::Range<u32>) -> impl Strategy<Value = (u32, u64, Vec<(NodeId, u32)>)> {
    sizes.prop_flat_map(|universe| {
        // Random nodes hardly ever cut a tree near its root; powers of two do.
        let near_root = (0..universe.ilog2()).prop_map(|exponent| 1 << exponent);
        let node = prop_oneof![2 => 0..universe, 1 => near_root, 1 => 0..universe.ilog2()];
        let after = prop_oneof![Just(0), 0..3_u32, 0..60_u32];
        let crashes = proptest::collection::vec((node, after), borne(universe) as usize);
        (Just(universe), any::<u64>(), crashes)
    })
}

fn reaches_everybody(cases: u32, sizes: std::ops::Range<u32>) {
    let cases = Cases { cases, failure_persistence: None, ..Cases::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(cases, random).run(&any_crashes(sizes), |(universe, seed, crashes)| {
        for strategy in BOTH {
            let mut wave = wave(universe, strategy);
            wave.shuffle(seed);
            crashes.iter().for_each(|&(node, after)| wave.crash(node, after));
            wave.run(seed as u32 % universe);
            prop_assert_eq!(wave.left_out(), [], "{:?}", strategy);
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[test]
fn everybody_is_reached_among_many_though_messages_overtake_each_other() {
    reaches_everybody(40, 17..400);
}

#[test]
#[ignore = "minutes in release mode"]
fn everybody_is_reached_among_very_many_though_messages_overtake_each_other() {
    reaches_everybody(2_000, 17..400);
    reaches_everybody(40, 400..20_000);
    reaches_everybody(2, 200_000..260_000);
}

#[test]
fn a_quiet_tree_costs_three_messages_per_node_and_the_circulant_graph_two_log_n() {
    for universe in [1, 2, 3, 16, 100, 500] {
        let mut tree = wave(universe, Spreading::Tree);
        tree.run(universe / 2);
        assert_eq!((tree.total(), tree.rescues), (3 * (universe - 1), 0));
        assert!(tree.hops <= universe.ilog2());
        let mut circulant = wave(universe, Spreading::Circulant);
        circulant.run(universe / 2);
        assert!(circulant.total() <= 2 * universe.ilog2() * universe);
        assert!(circulant.hops <= (universe.ilog2() + 3) / 2);
    }
}

#[test]
fn both_strategies_work_on_a_ring_in_any_order() {
    let order = RingOrder::new((0..50).map(|place| place * 7 % 50).collect()).unwrap();
    for strategy in BOTH {
        let mut wave = Wave::new(50, strategy, &order);
        [3, 10, 17, 24].into_iter().for_each(|node| wave.crash(node, 1));
        wave.run(10);
        assert_eq!(wave.left_out(), []);
        // The source's only message reached somebody.
        assert!(wave.delivered.iter().sum::<u32>() > 40);
    }
}

#[test]
fn a_crash_that_cuts_off_half_of_the_tree_is_rescued() {
    let mut wave = wave(64, Spreading::Tree);
    wave.crash(1, 0);
    wave.run(0);
    assert_eq!(wave.left_out(), []);
    assert!(wave.rescues > 0);
}
