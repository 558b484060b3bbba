//! A27, A28: rounds and barriers.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

use recommended_group::message::Message;

use crate::world::{MS, SECOND, World};

#[test]
fn a27_rounds_end_at_barriers_while_tests_go_on() {
    let mut world = World::new(4, |_| {});
    for number in 1..=3 {
        (0..3).for_each(|rank| world.arrive(rank, true));
        world.run(5 * SECOND);
        assert_eq!(world.rounds[0].len(), number - 1, "somebody is missing");
        world.arrive(3, true);
        world.run(10 * MS);
        for rounds in &world.rounds {
            assert_eq!((rounds.len(), rounds[number - 1].round), (number, number as u64));
        }
    }
    world.is_wrong[1] = true;
    world.run(2 * SECOND);
    assert_eq!(world.counters(), [0, 1, 0, 0], "in the middle of a round");
    [0, 2, 3].iter().for_each(|rank| world.arrive(*rank, true));
    world.run(SECOND);
    let view = world.rounds[0].last().expect("the others go on");
    assert_eq!(view.members.iter().collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!((view.round, view.base), (3, 3), "the round is done again from the results of view 3");
    [0, 2, 3].iter().for_each(|rank| world.arrive(*rank, true));
    world.run(SECOND);
    let view = world.rounds[0].last().expect("the others go on");
    assert_eq!((view.round, view.base), (4, 5));
}

#[test]
fn a_member_that_was_away_for_a_while_in_a_round_is_lost_for_all_of_them() {
    let mut world = World::new(4, |_| {});
    (0..4).for_each(|rank| world.arrive(rank, true));
    world.run(5 * SECOND);
    let view = world.rounds[0][0].clone();
    assert_eq!(view.lost(world.members[0].counters()).count(), 0);
    world.is_wrong[3] = true;
    world.run(2 * SECOND);
    // Process 0 sees it, and gives the round up; the others are busy until process 3 is back.
    world.arrive(0, false);
    world.is_wrong[3] = false;
    world.run(10 * SECOND);
    assert_eq!(world.counters(), [0, 0, 0, 2]);
    for member in &world.members {
        assert_eq!(view.lost(member.counters()).collect::<Vec<_>>(), [3], "whoever waits for process 0 gives up, too");
    }
    (1..4).for_each(|rank| world.arrive(rank, false));
    world.run(SECOND);
    for rounds in &world.rounds {
        let next = rounds.last().expect("a round begins");
        assert_eq!((next.number, next.round, next.members.len()), (3, 1, 4), "the same round again, with process 3");
    }
}

#[test]
fn a_round_that_somebody_calls_off_is_done_again() {
    let mut world = World::new(3, |_| {});
    world.arrive(0, true);
    world.arrive(1, false);
    world.arrive(2, true);
    world.run(SECOND);
    assert_eq!((world.rounds[2][0].round, world.rounds[2][0].base), (0, 0));
}

/// Processes are killed, stopped and let go on at random moments, messages get lost; programs arrive at random moments.
/// More than half are there at any time: else there may be two groups.
#[test]
fn a28_all_members_of_a_round_have_the_same_view() {
    for seed in 0..60 {
        let mut chance = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |bound: u64| chance.next_u64() % bound;
        let count = 3 + below(5) as u32;
        let mut world = World::new(count, |_| {});
        let mut stopped = Vec::new();
        let mut arrived = vec![0; count as usize];
        let mut sent = 0;
        world.loses = Box::new(move |_, _, message| {
            sent += 1;
            seed % 2 == 1 && !matches!(message, Message::Test(_) | Message::Reply { .. }) && sent % 7 == 0
        });
        for _ in 0..200 {
            world.run(below(400) as u32 * MS);
            let rank = below(u64::from(count)) as u32;
            let absent = world.is_dead.iter().filter(|dead| **dead).count() + stopped.len();
            let is_there = !stopped.contains(&rank) && !world.is_dead[rank as usize];
            let may_leave = is_there && 2 * (absent + 1) < count as usize;
            match below(12) {
                0 if may_leave => world.kill(rank),
                1 if may_leave => {
                    world.stop(rank);
                    stopped.push(rank);
                }
                2 if !stopped.is_empty() => {
                    let rank = stopped.remove(0);
                    world.resume(rank);
                }
                _ => {}
            }
            for rank in (0..count).filter(|rank| !stopped.contains(rank)) {
                let is_in_round = arrived[rank as usize] == world.rounds[rank as usize].len();
                if is_in_round && below(3) == 0 && !world.is_dead[rank as usize] {
                    arrived[rank as usize] += 1;
                    world.arrive(rank, true);
                }
            }
        }
        let mut views = std::collections::BTreeMap::new();
        for view in world.rounds.iter().flatten() {
            let known = views.entry(view.number).or_insert(view);
            assert_eq!(*known, view, "seed {seed}");
        }
        assert!(!views.is_empty(), "seed {seed}: some barrier is passed");
    }
}

#[test]
fn a_member_or_the_leader_that_is_lost_at_a_barrier_holds_nobody_up() {
    for lost in [0, 2] {
        for when in 0..6 {
            let mut world = World::new(5, |_| {});
            world.run(5 * SECOND);
            (0..5).filter(|rank| *rank != lost).for_each(|rank| world.arrive(rank, true));
            if when > 0 {
                world.arrive(lost, true);
                world.run(when * MS);
            }
            world.kill(lost);
            world.run(6 * SECOND);
            let others: Vec<_> = (0..5).filter(|rank| *rank != lost).map(|rank| &world.rounds[rank as usize]).collect();
            assert!(!others[0].is_empty(), "process {lost} lost after {when} ms");
            assert!(others.iter().all(|rounds| *rounds == others[0]), "process {lost} lost after {when} ms");
        }
    }
}
