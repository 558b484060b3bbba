//! No run takes longer, or needs more broadcasts, than the paper proves (theorem 1).

use std::time::Duration;

use propagation::graph::neighbours;
use propagation::{NodeId, RingOrder};
use simulator::{Failures, Purpose, Scenario, Strategy, Stream, all_threads, batch, bounds, run};

use crate::MS;

/// Failures that overlap: each strikes before the one before it can have been found.
fn overlapping(seed: u64) -> Scenario {
    let mut stream = Stream::new(seed, Purpose::Failures);
    let one_port = stream.below(4) == 0;
    let strategy = if stream.below(3) == 0 { Strategy::Tree } else { Strategy::Circulant };
    // Whose word then counts, and who lives as long as the job.
    let arbiter = !one_port && stream.below(4) == 0;
    let reordered = stream.below(4) == 0;
    // Where nothing can be left out large runs take long.
    let large = !(one_port || arbiter || reordered) || stream.below(8) == 0;
    let exponent = stream.below(if large { 7 } else { 4 });
    let nodes = (4_u32 << exponent) + stream.below(4 << exponent) as u32;
    let mut ring: Vec<NodeId> = (0..nodes).collect();
    if reordered {
        shuffle(&mut ring, &mut stream);
    }
    let order = if reordered { RingOrder::new(ring.clone()).expect("a permutation") } else { RingOrder::default() };
    let tau = MS;
    let period = tau * (3 + stream.below(20) as u32);
    // With one port a message may wait for as long as a broadcast takes: then a shorter timeout is not perfect.
    let longest = if one_port { bounds::broadcast(nodes, tau) } else { tau };
    // A suspector doubts after a tenth of the timeout: a question and its answer have to fit into that.
    let slack = if arbiter { 20 } else { 1 };
    let timeout = period + longest + tau * (slack + stream.below(200) as u32);
    let count = 1 + stream.below(u64::from(bounds::tolerated(nodes))) as u32;
    let gap = (timeout - period - longest).as_nanos() as u64;
    // Half of them strike neighbours, from one side or the other, as in the proof's worst case.
    ring.retain(|node| !arbiter || *node != 0);
    let places = ring.len() as u32;
    let first = stream.below(u64::from(places)) as u32;
    let direction = stream.below(4);
    let (mut at, mut list) = (Duration::ZERO, Vec::<(u32, Duration)>::new());
    for number in 0..count {
        let free = |place: &u32| list.iter().all(|(taken, _)| *taken != ring[*place as usize]);
        let place = match direction {
            0 => (first + number) % places,
            1 => (first + places - number) % places,
            _ => std::iter::repeat_with(|| stream.below(u64::from(places)) as u32)
                .find(free)
                .expect("there are more nodes than failures"),
        };
        list.push((ring[place as usize], at));
        at += Duration::from_nanos(stream.below(gap));
    }
    Scenario {
        tau,
        arbiter,
        order,
        one_port,
        strategy,
        seed,
        failures: Failures::Schedule(list),
        ..Scenario::new(nodes, period, timeout)
    }
}

fn shuffle(nodes: &mut [NodeId], stream: &mut Stream) {
    for left in (1..nodes.len()).rev() {
        nodes.swap(left, stream.below(left as u64 + 1) as usize);
    }
}

/// What a run exceeds, in a sentence with its seed.
fn violation(seed: u64) -> Option<String> {
    let scenario = overlapping(seed);
    let (nodes, failures) = (scenario.nodes, scenario.failures.known());
    let outcome = run(&scenario).expect("a valid scenario");
    let within = |time: Option<Duration>, bound| time.is_some_and(|time| time <= bound);
    let what = if !within(outcome.stable, bounds::stable(failures, nodes, scenario.times())) {
        "T(f)"
    } else if !within(outcome.closed, bounds::reconnected(failures, scenario.times())) {
        "R(f)"
    } else if outcome.broadcasts > bounds::broadcasts(failures) {
        "the number of broadcasts"
    } else if outcome.false_deaths > 0 {
        "perfection"
    } else {
        return None;
    };
    Some(format!("{what} is exceeded with seed {seed}: {scenario:?}: {outcome:?}"))
}

fn check(runs: u64) {
    let violations: Vec<_> = batch(runs, all_threads(), |number| violation(Stream::seed_of_run(1, number)), || {})
        .into_iter()
        .flatten()
        .collect();
    assert!(violations.is_empty(), "{} of {runs} runs: {}", violations.len(), violations[0]);
}

/// Every set of at most floor(log2 n) - 1 nodes that forward nothing leaves a broadcast that reaches all others, over
/// at most floor(log2 n) hops, far fewer than the 8 log2 n of B(n).
fn check_every_set(sizes: impl Iterator<Item = u32>) {
    for nodes in sizes {
        let links: Vec<u64> =
            (0..nodes).map(|node| neighbours(nodes, &[], 0, node).iter().fold(0, |set, to| set | 1 << to)).collect();
        let all = u64::MAX >> (64 - nodes);
        // Node 0 is the source. The sets of so many others in the order of their numbers (Gosper).
        for size in 0..=bounds::tolerated(nodes) {
            let mut set: u64 = (1 << size) - 1;
            while set >> (nodes - 1) == 0 {
                let crashed = set << 1;
                let (reached, hops) = reached(&links, crashed);
                assert_eq!(reached, all & !crashed, "{nodes} nodes without {crashed:b}");
                assert!(hops <= nodes.ilog2(), "{hops} hops among {nodes} nodes without {crashed:b}");
                if set == 0 {
                    break;
                }
                let low = set & set.wrapping_neg();
                let next = set + low;
                set = (((next ^ set) >> 2) / low) | next;
            }
        }
    }
}

/// Who gets a copy, and over how many hops at most.
fn reached(links: &[u64], crashed: u64) -> (u64, u32) {
    let (mut reached, mut wave, mut hops) = (1_u64, 1_u64, 0);
    while wave != 0 {
        let mut next = 0;
        while wave != 0 {
            next |= links[wave.trailing_zeros() as usize];
            wave &= wave - 1;
        }
        wave = next & !reached & !crashed;
        reached |= wave;
        hops += u32::from(wave != 0);
    }
    (reached, hops)
}

#[test]
fn a_thousand_random_runs_keep_to_the_bounds() {
    check(1000);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_random_runs_keep_to_the_bounds() {
    check(1_000_000);
}

#[test]
fn a_broadcast_reaches_all_whichever_tolerated_set_crashes() {
    check_every_set(2..=31);
}

#[test]
#[ignore = "takes minutes"]
fn a_broadcast_reaches_all_whichever_tolerated_set_crashes_up_to_64_nodes() {
    check_every_set(32..=64);
}
