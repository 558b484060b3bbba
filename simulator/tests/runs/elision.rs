//! What a run leaves out changes nothing.

use std::time::Duration;

use proptest::prelude::*;
use simulator::log::Entry;
use simulator::{Elision, Failures, Outcome, Scenario, Strategy as Spreading, Work, run_logged};

use crate::{MS, quick};

/// What happened, and what came of it; without the heartbeats that were simulated and the work that it was.
fn played(scenario: &Scenario, elision: Elision) -> (Vec<(i64, Entry)>, Outcome) {
    let mut log = Vec::new();
    let scenario = Scenario { elision, ..scenario.clone() };
    let outcome = run_logged(&scenario, &mut log).expect("a valid scenario");
    (log, Outcome { heartbeats: 0, work: Work::default(), ..outcome })
}

fn failures() -> impl Strategy<Value = Failures> {
    prop_oneof![
        Just(Failures::Within { count: 1, span: MS }),
        (1..5_u32, 0..120_u32).prop_map(|(count, span)| Failures::Within { count, span: span * MS }),
        (1..60_u32).prop_map(|seconds| Failures::Exponential { node_mtbf: seconds * 1000 * MS }),
        // A run of neighbours, so that emitters die before their death is found.
        (0..5_u32, 1..5_u32, 0..60_u32).prop_map(|(first, count, step)| {
            Failures::Schedule((0..count).map(|i| (first + i, i * step * MS)).collect())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_run_without_idle_heartbeats_late_copies_and_members_is_the_same(
        nodes in 9_u32..80,
        failures in failures(),
        seed: u64,
        tau in prop_oneof![Just(1_u32), Just(9)],
        strategy in prop_oneof![2 => Just(Spreading::Circulant), 1 => Just(Spreading::Tree)],
    ) {
        let scenario = Scenario { failures, strategy, tau: tau * MS, ..quick(nodes, 1, seed) };
        let whole = played(&scenario, Elision::NONE);
        prop_assert!(!whole.0.is_empty());
        for (heartbeats, copies, members) in
            [(true, false, false), (false, true, false), (true, true, false), (true, false, true), (true, true, true)]
        {
            let elision = Elision { heartbeats, copies, members };
            prop_assert_eq!(&played(&scenario, elision), &whole, "{:?}", elision);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// With the shortest timeout at which anything is left out, and to the last survivor.
    #[test]
    fn the_same_among_very_few(
        (nodes, count) in (1_u32..9).prop_flat_map(|nodes| (Just(nodes), 1..nodes + 1)),
        beyond in prop_oneof![Just(Duration::from_nanos(1)), Just(40 * MS)],
        seed: u64,
        strategy in prop_oneof![Just(Spreading::Circulant), Just(Spreading::Tree)],
    ) {
        let base = quick(nodes, count, seed);
        let scenario = Scenario { strategy, timeout: base.period + base.tau + beyond, ..base };
        prop_assert_eq!(played(&scenario, Elision::ALL), played(&scenario, Elision::NONE));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// As many as in figure 4, and more than a byte has bits.
    #[test]
    fn the_same_with_many_deaths_among_hundreds(
        nodes in 200_u32..600,
        count in 9..21_u32,
        span in 1..120_u32,
        seed: u64,
        strategy in prop_oneof![Just(Spreading::Circulant), Just(Spreading::Tree)],
    ) {
        let failures = Failures::Within { count, span: span * MS };
        let scenario = Scenario { failures, strategy, ..quick(nodes, 1, seed) };
        prop_assert_eq!(played(&scenario, Elision::ALL), played(&scenario, Elision::NONE));
    }
}

#[test]
#[ignore = "gigabytes and minutes"]
fn the_same_among_as_many_as_in_the_figures() {
    for strategy in [Spreading::Circulant, Spreading::Tree] {
        let scenario = Scenario { strategy, ..quick(256_000, 1, 1) };
        assert_eq!(played(&scenario, Elision::ALL), played(&scenario, Elision::NONE), "{strategy:?}");
    }
}

#[test]
fn much_less_work_is_done_for_the_same_outcome() {
    let work = |elision| {
        let scenario = Scenario { elision, ..quick(2000, 1, 1) };
        simulator::run(&scenario).expect("a valid scenario").work
    };
    let (whole, elided) = (work(Elision::NONE), work(Elision::ALL));
    assert_eq!((whole.members, whole.elided), (2000, 0));
    assert_eq!(elided.members, 3);
    assert!(elided.events * 5 < whole.events, "{} of {} events", elided.events, whole.events);
}
