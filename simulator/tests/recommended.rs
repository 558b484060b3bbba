//! The group of recommended processes, simulated.
#![allow(missing_docs)]

use recommended_group::assignment::Assignment;
use simulator::recommended::costs::{Losses, deaths, latency_bound, most_tests, quiet};
use simulator::recommended::load::{Load, PAPER_COUNTERS, PAPER_JOBS};
use simulator::recommended::run::{Observer, Run};
use simulator::recommended::scenario::{Fate, Scenario};
use simulator::recommended::total_order::{Way, broadcast};
use simulator::recommended::trace::{correlation, monitoring, trace};

struct Nobody;

impl Observer for Nobody {}

const SECOND: u64 = 1_000_000_000;

#[test]
fn hosts_without_free_processors_leave_more_often() {
    assert!((correlation(&PAPER_JOBS, &PAPER_COUNTERS) - 0.80).abs() < 0.005, "the paper's own figures");
    // More happens than in the paper, so that less time is enough.
    let mut scenario = Scenario::quiet(18, 2500);
    scenario.jobs = PAPER_JOBS.to_vec();
    scenario.load = Load { busy_moments: 4.0, ..Load::PAPER };
    let trace = trace(&scenario, &[]);
    assert!(correlation(&trace.jobs, &trace.counters) > 0.5, "{:?}", trace.counters);
    assert!(trace.counters.iter().filter(|counter| *counter % 2 == 1).count() <= 2, "they come back");
    assert_eq!(trace.changes.len() as u32, trace.counters.iter().sum::<u32>());
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (one, other) = (monitoring(500, 0, 9, &[]), monitoring(500, 0, 9, &[]));
    assert_eq!((one.changes, one.messages), (other.changes, other.messages));
}

#[test]
fn tests_and_messages_are_as_many_as_the_formulas_have() {
    for (assignment, count) in [(Assignment::AllToAll, 18), (Assignment::VCube, 16), (Assignment::VCube, 64)] {
        let costs = quiet(assignment, count);
        assert_eq!(costs.tests, most_tests(assignment, count), "{assignment:?}");
        // A reply may come after the end of the second in which its test was sent.
        assert!(costs.messages.abs_diff(2 * costs.tests) <= u64::from(count), "{costs:?}");
    }
}

#[test]
fn all_know_all_deaths_within_the_bound() {
    for assignment in [Assignment::AllToAll, Assignment::VCube] {
        for losses in [Losses::One, Losses::Half, Losses::AllButOne] {
            for (count, seed) in [(8, 1), (16, 2), (33, 3)] {
                let latency = deaths(assignment, count, losses, 0, seed);
                let bound = latency_bound(assignment, count) as f64;
                assert!(latency.intervals <= bound, "{assignment:?}, {losses:?} of {count}: {latency:?}");
            }
        }
    }
}

#[test]
fn killed_and_stopped_processes_leave_and_those_that_go_on_come_back() {
    let mut scenario = Scenario::quiet(12, 60);
    scenario.load = Load { jitter: 500_000, ..Load::QUIET };
    scenario.fates = vec![
        (10 * SECOND, 3, Fate::Kill),
        (12 * SECOND, 7, Fate::Stop),
        (13 * SECOND, 0, Fate::Stop),
        (30 * SECOND, 7, Fate::Resume),
        (31 * SECOND, 0, Fate::Resume),
    ];
    let mut run = Run::new(&scenario);
    run.until(25 * SECOND, &mut Nobody);
    assert_eq!(run.known(), [1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
    run.until(60 * SECOND, &mut Nobody);
    assert_eq!(run.known(), [2, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
    for member in run.running() {
        assert_eq!(member.counters().values(), run.known(), "of process {}", member.config().me);
    }
}

/// The thesis's annex A counts some messages and not others: a sender's copy to itself with consensus, no message to
/// the sequencer with UB, and of Paxos what the leader sends in the two phases.
#[test]
fn t36_messages_of_the_atomic_broadcasts_are_as_many_as_the_formulas_have() {
    for (members, consensus, unicast, both) in
        [(30, 960, 870, 1711), (62, 3968, 3782, 7503), (126, 16_128, 15_750, 31_375)]
    {
        let m = u64::from(members);
        for seed in 1..4 {
            let counted = broadcast(Way::Consensus, members, seed);
            assert_eq!((counted.broadcast + m + counted.phases, counted.phases), (m * m + 2 * m, 2 * m));
            assert_eq!(counted.broadcast + m + counted.phases, consensus);
            assert!(counted.is_same);
            let counted = broadcast(Way::UnicastBroadcast, members, seed);
            assert_eq!((counted.numbered, counted.to_sequencer), (unicast, m - 1));
            assert!(counted.is_same && unicast == m * (m - 1));
            let counted = broadcast(Way::BroadcastBroadcast, members, seed);
            assert_eq!(counted.broadcast + counted.numbered, both);
            assert!(counted.is_same && both == m * (m - 1) + (m - 1) * (m - 1));
        }
    }
}
