//! HyperQuickSort on a group of recommended processes: features B01 to B10 of the specification that concern the
//! machine.
#![allow(missing_docs)]

use recommended_group::cluster::owner;
use recommended_group::group::Group;
use recommended_group::units::Rank;
use simulator::hyperquicksort::job::{input, lossy, sort};
use simulator::hyperquicksort::plain::{self, Value};
use simulator::hyperquicksort::rounds::Rounds;
use simulator::hyperquicksort::sorter::Message;
use simulator::recommended::scenario::Fate;
use simulator::{Purpose, Stream};

fn sorted(lists: &[Vec<Value>]) -> Vec<Value> {
    let mut all = lists.concat();
    all.sort_unstable();
    all
}

/// The processes whose bits are not set.
fn without(slots: u32, bad: u32) -> Group {
    Group::of(slots, (0..slots).filter(|rank| bad >> rank & 1 == 0))
}

fn assert_sorted(rounds: &Rounds, input: &[Vec<Value>], what: &str) {
    let lists = rounds.lists();
    assert_eq!(lists.len(), input.len(), "{what}: as many lists as slots");
    assert_eq!(lists.concat(), sorted(input), "{what}");
}

#[test]
fn b01_the_output_is_sorted_and_has_the_same_values_in_as_many_lists() {
    for dimension in 0..=5 {
        for seed in 0..20 {
            let input = input(1 << dimension, seed);
            let mut rounds = Rounds::new(&input, seed);
            let all = Group::all(1 << dimension);
            (1..=dimension).rev().for_each(|s| assert!(rounds.round(s, &all, None)));
            assert_sorted(&rounds, &input, &format!("dimension {dimension}, seed {seed}"));
        }
    }
}

#[test]
fn b02_partners_differ_in_one_bit_when_all_are_recommended() {
    let mut rounds = Rounds::new(&input(16, 3), 3);
    for s in (1..=4).rev() {
        assert!(rounds.round(s, &Group::all(16), None));
        let halves: Vec<_> = rounds.sent.iter().filter(|sent| matches!(sent.2, Message::Half { .. })).collect();
        assert_eq!(halves.len(), 16);
        assert!(halves.iter().all(|(from, to, _)| from ^ to == 1 << (s - 1)));
    }
}

#[test]
fn b03_the_pivot_is_the_median_of_the_lowest_slot_of_each_cluster() {
    assert_eq!(plain::pivot(&[1, 2, 3, 4]), 2);
    assert_eq!(plain::pivot(&[]), plain::FALLBACK);
    let input: Vec<Vec<Value>> = (0..8).map(|slot| vec![slot, 10 + slot, 20 + slot]).collect();
    let mut rounds = Rounds::new(&input, 1);
    for s in (1..=3).rev() {
        let medians: Vec<_> = rounds.lists().iter().map(|list| plain::pivot(list)).collect();
        assert!(rounds.round(s, &Group::all(8), None));
        for (from, to, message) in &rounds.sent {
            if let Message::Pivot { root, value, .. } = message {
                assert_eq!((root % (1 << s), from, *value), (0, root, medians[*root as usize]));
                assert_eq!(to >> s, root >> s, "within the cluster");
            }
        }
    }
}

/// Round `s` of 2^dimension slots with every set of bad processes must come to the same lists as without bad processes.
/// As the lists after a round do not depend on who has made them, this covers every sequence of sets. The lists are
/// those that a sort has before round `s`.
fn every_set(dimension: u32, step: usize, seeds: u64) {
    let slots = 1_u32 << dimension;
    for seed in 0..seeds {
        let input = input(slots, seed);
        let mut lists = Rounds::new(&input, 0).lists();
        for s in (1..=dimension).rev() {
            let expected = plain::round(&lists, s);
            for bad in (0..(1_u64 << slots) - 1).step_by(step) {
                let mut rounds = Rounds::new(&lists, bad);
                assert!(rounds.round(s, &without(slots, bad as u32), None), "round {s}, bad {bad:b}: it hangs");
                assert_eq!(rounds.lists(), expected, "round {s}, bad {bad:b}, seed {seed}");
            }
            lists = expected;
        }
        assert_eq!(lists.concat(), sorted(&input));
    }
}

#[test]
fn b07_every_set_of_bad_processes_in_every_round() {
    (1..=3).for_each(|dimension| every_set(dimension, 1, 8));
    // A prime: all parts of the sets have their turn. All 65,535 are a long test.
    every_set(4, 37, 1);
}

#[test]
#[ignore = "half a minute"]
fn b07_every_set_of_sixteen() {
    every_set(4, 1, 1);
}

/// Other processes in every round, of which some are lost in the middle: their round is done again.
#[test]
fn b10_a_round_in_which_processes_are_lost_is_done_again() {
    let (mut lost_rounds, mut seeds) = (0, 0..1500_u64);
    seeds.all(|seed| {
        let mut chance = Stream::new(seed, Purpose::Probes);
        let dimension = 1 + chance.below(4) as u32;
        let slots = 1_u32 << dimension;
        let input = input(slots, seed);
        let mut rounds = Rounds::new(&input, seed);
        let mut s = dimension;
        while s > 0 {
            let some = chance.below((1 << slots) - 1) as u32 & chance.below(1 << slots) as u32;
            let members = without(slots, some);
            let lost = without(slots, chance.below(1 << slots) as u32);
            let after = chance.below(12 * u64::from(slots));
            let loses = chance.chance(0.3).then_some((after, &lost));
            if rounds.round(s, &members, loses) {
                s -= 1;
            } else {
                lost_rounds += 1;
            }
        }
        assert_sorted(&rounds, &input, &format!("seed {seed}"));
        true
    });
    assert!(lost_rounds > 300, "{lost_rounds} rounds are lost");
}

/// The time of a sort of 16 lists, which is checked.
fn time(returns: bool, fate: Fate, many: u32, seed: u64) -> f64 {
    let input = input(16, seed);
    let what = format!("{many} of 16, {fate:?}, returns {returns}, seed {seed}");
    let sort = sort(&lossy(16, returns, fate, many, seed), &input, 4_000_000_000);
    let sort = sort.unwrap_or_else(|| panic!("{what}: no end"));
    assert_eq!(sort.lists.len(), 16);
    assert_eq!(sort.lists.concat(), sorted(&input), "{what}");
    assert!(many > 0 || sort.views == 4, "{sort:?}");
    sort.seconds
}

fn every_scenario(seeds: &[u64]) {
    for returns in [false, true] {
        for fate in [Fate::Kill, Fate::Stop] {
            for many in [0, 1, 8, 15] {
                for seed in seeds {
                    time(returns, fate, many, *seed);
                }
            }
        }
    }
}

#[test]
fn b12_none_one_half_and_all_but_one_are_lost_with_and_without_returns() {
    // With seed 12 a member leaves between the agreement on a view and its beginning.
    every_scenario(&[0, 12]);
}

#[test]
#[ignore = "half a minute"]
fn b12_with_twenty_seeds() {
    every_scenario(&(0..20).collect::<Vec<_>>());
}

#[test]
fn b14_where_half_or_all_but_one_were_stopped_it_takes_less_time_with_returns() {
    for many in [8, 15] {
        let mean = |returns| (0..3).map(|seed| time(returns, Fate::Stop, many, seed)).sum::<f64>() / 3.0;
        let (with, without) = (mean(true), mean(false));
        assert!(with < without, "{many} of 16: {with} and {without} s");
    }
}

#[test]
fn b08_a_substitute_reads_what_was_written_at_the_end_of_the_last_round() {
    let input = input(8, 5);
    let mut rounds = Rounds::new(&input, 5);
    assert!(rounds.round(3, &Group::all(8), None));
    assert!(rounds.round(2, &without(8, 0b100), None));
    assert_eq!(rounds.reads, [(3, 2)], "process 3 stands in for 2, and has its own list");
}

#[test]
fn b09_who_comes_back_has_its_slot_again_in_the_next_round() {
    let input = input(8, 6);
    let mut rounds = Rounds::new(&input, 6);
    assert!(rounds.round(3, &without(8, 0b100), None));
    assert!(rounds.round(2, &Group::all(8), None));
    assert_eq!(rounds.reads, [(2, 2)], "it reads what its substitute has written; nobody else reads anything");
    assert!(rounds.round(1, &Group::all(8), None));
    assert_sorted(&rounds, &input, "after all");
}

#[test]
fn slots_of_a_lost_half_are_exchanged_between_their_substitutes() {
    let members = without(8, 0b1111_0000);
    let owner = |slot: Rank| owner(slot, 3, |rank| members.contains(rank));
    assert_eq!((owner(4), owner(5)), (Some(0), Some(1)));
    let mut rounds = Rounds::new(&input(8, 9), 9);
    assert!(rounds.round(1, &members, None));
    let crosses =
        rounds.sent.iter().any(|sent| (sent.0, sent.1) == (0, 1) && matches!(sent.2, Message::Half { slot: 5, .. }));
    assert!(crosses, "the papers' partner function finds nobody here");
}
