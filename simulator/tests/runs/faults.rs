//! Loss, duplication, ports, and the arbiter.

use std::time::Duration;

use simulator::{Failures, Outcome, Scenario, ScenarioError, run};

use crate::{MS, quick};

fn play(scenario: &Scenario) -> Outcome {
    run(scenario).expect("a valid scenario")
}

#[test]
fn lost_messages_are_sent_again_until_all_know() {
    for seed in 0..50 {
        // Five heartbeats in a row get lost once in three million times.
        let scenario = Scenario { loss: 0.05, ..quick(20, 2, seed) };
        let outcome = play(&scenario);
        assert!(outcome.stable.is_some() && outcome.false_deaths == 0, "seed {seed}: {outcome:?}");
        assert!(outcome.messages["acknowledgement"] > 0);
    }
}

#[test]
fn copies_that_come_twice_change_nothing_but_the_times() {
    for seed in 0..50 {
        let outcome = play(&Scenario { duplication: 0.5, ..quick(20, 2, seed) });
        assert!(outcome.stable.is_some() && outcome.false_deaths == 0, "seed {seed}: {outcome:?}");
        assert_eq!(outcome.deaths.len(), 2);
    }
}

#[test]
fn a_network_that_loses_nearly_all_makes_false_suspicions() {
    let outcome = play(&Scenario { loss: 0.9, ..quick(10, 1, 1) });
    assert!(outcome.false_deaths > 0);
}

#[test]
fn one_port_makes_a_broadcast_slower() {
    let (free, ported) = (quick(256, 1, 3), Scenario { one_port: true, ..quick(256, 1, 3) });
    let spread = |outcome: &Outcome| outcome.deaths[0].known_by_all.unwrap() - outcome.deaths[0].declared.unwrap().0;
    let (free, ported) = (play(&free), play(&ported));
    // 14 copies one after another, each half a millisecond on average, instead of side by side.
    assert!(spread(&ported) > 2 * spread(&free), "{:?}, {:?}", spread(&ported), spread(&free));
}

#[test]
fn deaths_at_once_do_not_queue_behind_each_other_at_the_ports() {
    let spread = |deaths: u32, seed| {
        let list = (0..deaths).map(|number| (16 + 32 * number, Duration::ZERO)).collect();
        let failures = Failures::Schedule(list);
        let outcome = play(&Scenario { one_port: true, failures, seed, ..Scenario::new(256, 3 * MS, 150 * MS) });
        let declared = outcome.deaths.iter().map(|death| death.declared.unwrap().0).max().unwrap();
        outcome.deaths.iter().map(|death| death.known_by_all.unwrap()).max().unwrap() - declared
    };
    let sum = |deaths| (0..10).map(|seed| spread(deaths, seed)).sum::<Duration>();
    // If no copy took another along, it would be nine times as long.
    assert!(sum(8) < 3 * sum(1), "{:?}, {:?}", sum(8), sum(1));
}

#[test]
fn what_gets_lost_at_the_ports_is_sent_again() {
    for seed in 0..30 {
        // What is not answered is said again after 15 ms, in which the ports pass on a whole broadcast.
        let base = Scenario { loss: 0.05, one_port: true, ..Scenario::new(64, 30 * MS, 300 * MS) };
        let failures = Failures::Within { count: 4, span: 30 * MS };
        let scenario = Scenario { failures, seed, ..base };
        let outcome = play(&scenario);
        assert!(outcome.stable.is_some() && outcome.false_deaths == 0, "seed {seed}: {outcome:?}");
        assert!(outcome.deaths.iter().all(|death| death.known_by_all.is_some()), "seed {seed}: {outcome:?}");
        let whole = play(&Scenario { loss: 0.0, ..scenario });
        assert_ne!(
            (outcome.stable, &outcome.messages),
            (whole.stable, &whole.messages),
            "seed {seed}: nothing was lost"
        );
    }
}

#[test]
fn the_arbiter_declares_all_deaths() {
    let mut scenario = Scenario { arbiter: true, ..quick(30, 1, 2) };
    scenario.failures = Failures::Schedule(vec![(7, Duration::ZERO), (8, 3 * MS), (20, 10 * MS)]);
    let outcome = play(&scenario);
    assert!(outcome.stable.is_some());
    assert!(outcome.deaths.iter().all(|death| death.declared.unwrap().1 == 0));
    assert!(outcome.messages["suspicion"] >= 3);
}

#[test]
fn impossible_scenarios_are_refused_in_one_sentence() {
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = quick(10, 1, 1);
        change(&mut scenario);
        run(&scenario).unwrap_err()
    };
    assert_eq!(refused(|s| s.nodes = 0), ScenarioError::Nodes(0));
    assert_eq!(refused(|s| s.nodes = u32::MAX), ScenarioError::Nodes(u32::MAX));
    assert_eq!(refused(|s| s.tau = Duration::ZERO), ScenarioError::Zero("message time tau"));
    assert!(matches!(refused(|s| s.timeout = s.period), ScenarioError::ShortTimeout { .. }));
    assert!(matches!(refused(|s| s.period = Duration::MAX), ScenarioError::Long(_)));
    assert!(matches!(refused(|s| s.loss = 1.0), ScenarioError::Probability { .. }));
    assert!(matches!(refused(|s| s.duplication = f64::NAN), ScenarioError::Probability { .. }));
    let failures = |list: &[(u32, u64)]| {
        let list = list.iter().map(|&(node, at)| (node, Duration::from_millis(at))).collect();
        run(&Scenario { failures: Failures::Schedule(list), ..quick(10, 1, 1) }).unwrap_err()
    };
    assert_eq!(failures(&[]), ScenarioError::NoFailure);
    assert_eq!(failures(&[(3, 0), (3, 1)]), ScenarioError::Twice(3));
    assert_eq!(failures(&[(10, 0)]), ScenarioError::UnknownNode { node: 10, nodes: 10 });
    // Of each death a run remembers something for each node, and of each node a member if nothing is left out.
    assert!(matches!(run(&quick(1 << 20, 30_000, 1)), Err(ScenarioError::Memory { most: 1489, .. })));
    let whole = Scenario { one_port: true, ..quick(1 << 20, 1000, 1) };
    assert!(matches!(run(&whole), Err(ScenarioError::Memory { most: 38, .. })));
    let whole = Scenario { one_port: true, ..quick(1 << 24, 1, 1) };
    assert_eq!(run(&whole).unwrap_err(), ScenarioError::Members { nodes: 1 << 24, gib: 48, most: 1 << 21 });
    let many = run(&quick(10, 11, 1)).unwrap_err();
    assert_eq!(many.to_string(), "11 failures were asked for, but there are only 10 nodes: at most 10 can fail");
}
