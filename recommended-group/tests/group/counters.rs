//! A01 to A03, A31.

use proptest::prelude::*;
use recommended_group::counters::{Counters, is_recommended};

use crate::world::{SECOND, World};

#[test]
fn a01_counters_start_at_zero_and_even_is_recommended() {
    let counters = Counters::new(5);
    assert_eq!(counters.values(), [0; 5]);
    assert_eq!(counters.group().iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(Counters::of(&[0, 1, 2, 3]).group().iter().collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a02_an_event_raises_the_counter_of_the_tested_process_by_one() {
    let mut world = World::new(5, |_| {});
    world.is_wrong[2] = true;
    world.run(3 * SECOND);
    assert_eq!(world.counters(), [0, 0, 1, 0, 0], "however many testers have found it");
    world.is_wrong[2] = false;
    world.run(10 * SECOND);
    assert_eq!(world.counters(), [0, 0, 2, 0, 0]);
}

proptest! {
    #[test]
    fn a03_a_merge_keeps_the_higher_value_of_each(pairs in prop::collection::vec((0_u32..6, 0_u32..6), 1..80)) {
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let (mut one, mut other) = (Counters::of(&ours), Counters::of(&theirs));
        let changed = one.merge(&theirs);
        other.merge(&ours);
        let expected: Vec<_> = pairs.iter().map(|(a, b)| *a.max(b)).collect();
        prop_assert_eq!(one.values(), &expected[..]);
        prop_assert_eq!(&one, &other, "in either direction, digest and group included");
        prop_assert_eq!(&one, &Counters::of(&expected));
        prop_assert!(one.merge(&ours).is_empty() && one.merge(&theirs).is_empty(), "it is idempotent");
        prop_assert!(changed.iter().all(|rank| theirs[*rank as usize] > ours[*rank as usize]));
        prop_assert!(one.group().iter().all(|rank| is_recommended(expected[rank as usize])));
    }
}

#[test]
fn a31_counters_are_twice_the_evictions_when_all_are_in() {
    let mut world = World::new(4, |_| {});
    for wrong in [1, 3, 1] {
        world.is_wrong[wrong] = true;
        world.run(3 * SECOND);
        world.is_wrong[wrong] = false;
        world.run(12 * SECOND);
    }
    assert_eq!(world.counters(), [0, 4, 0, 2]);
    assert_eq!(world.counters().iter().sum::<u32>(), 2 * 3);
}
