//! A12, A20, A28, A29: processes that answer each other at all end in one group, and never run rounds in two.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use recommended_group::action::Action;
use recommended_group::message::Message;
use recommended_group::units::{Rank, Time};
use recommended_group::view::View;

use crate::world::{MS, SECOND, World};

/// The programs of all processes: whoever is in a round comes to its end at some time, and calls it off if somebody is
/// lost.
struct Programs {
    /// By rank: in how many rounds it has come to the barrier.
    arrived: Vec<usize>,
}

impl Programs {
    fn new(world: &World) -> Self {
        Self { arrived: vec![0; world.members.len()] }
    }

    fn arrive(&mut self, world: &mut World, mut is_there: impl FnMut(Rank) -> bool) {
        for rank in 0..self.arrived.len() {
            if self.arrived[rank] == world.rounds[rank].len() && is_there(rank as Rank) {
                self.arrived[rank] += 1;
                let member = &world.members[rank];
                let lost = member.view().lost(member.counters()).count();
                world.arrive(rank as Rank, lost == 0);
            }
        }
    }

    /// So many seconds, in which each program comes to the barrier once a second.
    fn run(&mut self, world: &mut World, seconds: u32) {
        for step in 0..10 * seconds {
            world.run(100 * MS);
            self.arrive(world, |rank| (step + 3 * rank) % 10 == 0);
        }
    }
}

/// Views of the same number are the same view.
fn assert_one_program(world: &World, what: &str) {
    let mut views: BTreeMap<u64, &Arc<View>> = BTreeMap::new();
    for view in world.rounds.iter().flatten() {
        let known = *views.entry(view.number).or_insert(view);
        assert_eq!(known, view, "{what}: rounds in two groups");
    }
}

/// All are in the group, and rounds go on.
fn assert_settled(world: &mut World, programs: &mut Programs, what: &str) {
    let counters: Vec<_> = world.members.iter().map(|member| member.counters().values().to_vec()).collect();
    assert!(counters.iter().all(|one| *one == counters[0]), "{what}: {counters:?}");
    assert!(counters[0].iter().all(|counter| counter % 2 == 0), "{what}: {counters:?}");
    let before = world.members[0].view().number;
    programs.run(world, 10);
    for member in &world.members {
        assert!(member.view().number > before + 2, "{what}: rounds go on");
        assert_eq!(member.view().members.len(), world.members.len(), "{what}");
    }
    assert_one_program(world, what);
}

#[test]
fn everybody_slow_at_once_leaves_one_group() {
    for (count, slow) in (2..=8).flat_map(|count| [60, 300, 1200, 3000].map(|slow| (count, slow))) {
        for (start, returns) in [(0, true), (1, true), (37, true), (0, false), (37, false)] {
            let what = format!("{count} processes, {slow} ms, starts {start} ms apart, returns {returns}");
            let starts = |me: Rank| SECOND / 2 + MS * (start * me % 900);
            let mut world = World::starting(count, |config| config.returns = returns, starts);
            world.run(20 * SECOND + 400 * MS);
            let mut programs = Programs::new(&world);
            world.service = vec![MS * slow; count as usize];
            programs.run(&mut world, 8);
            world.service = vec![10 * MS; count as usize];
            programs.run(&mut world, 30);
            assert_one_program(&world, &what);
            let groups: Vec<_> = world.members.iter().map(|member| member.counters().group()).collect();
            assert!(groups.iter().all(|group| *group == groups[0] && !group.is_empty()), "{what}: {groups:?}");
            if returns {
                assert_settled(&mut world, &mut programs, &what);
            }
        }
    }
}

#[test]
fn where_all_answers_are_wrong_one_process_goes_on_and_the_others_stay_outside() {
    for (count, start) in (2..=8).flat_map(|count| [(count, 0), (count, 130)]) {
        let what = format!("{count} processes, starts {start} ms apart");
        let mut world = World::starting(count, |_| {}, |me| SECOND / 2 + MS * (start * me % 900));
        let mut programs = Programs::new(&world);
        world.is_wrong = vec![true; count as usize];
        programs.run(&mut world, 30);
        assert_one_program(&world, &what);
        let groups: Vec<_> = world.members.iter().map(|member| member.counters().group()).collect();
        assert!(groups.iter().all(|group| group.len() == 1 && *group == groups[0]), "{what}: {groups:?}");
        let alone = groups[0].first().expect("there is one") as usize;
        assert!(world.rounds[alone].len() > 20, "{what}");
    }
}

#[test]
fn who_came_back_hears_of_an_eviction_in_the_same_interval() {
    for is_known in [false, true] {
        let mut world = World::new(3, |_| {});
        world.run(5 * SECOND);
        world.is_wrong[0] = true;
        world.run(2 * SECOND);
        world.is_wrong[0] = false;
        while world.members[1].streak(0) < 4 {
            world.run(MS);
        }
        // Process 1 brings 0 back, and evicts 2, which is late once; then it dies.
        world.service[2] = 200 * MS;
        let has_decided = |world: &World, rank, counter| {
            world.told.iter().any(|told| (told.1, &told.2) == (1, &Action::Decided { rank, counter }))
        };
        while !has_decided(&world, 2, 1) {
            world.run(MS);
        }
        assert!(has_decided(&world, 0, 2), "0 is back before 2 leaves");
        world.service[2] = 10 * MS;
        world.run(3 * MS);
        world.kill(1);
        for me in [0, 2] {
            let mut out = vec![];
            if is_known {
                world.members[me].died(1, &mut out);
            }
            world.carry_out(me as u32, out);
        }
        let mut programs = Programs::new(&world);
        programs.run(&mut world, 30);
        assert_eq!(world.counters(), [2, 1, 2], "2 is brought back");
        assert_eq!(world.members[0].counters(), world.members[2].counters());
        assert!(world.rounds[0].len() > 10 && world.rounds[2].len() > 10, "rounds go on");
    }
}

#[test]
fn who_takes_a_process_outside_for_a_member_hears_from_it_that_it_is_none() {
    let mut world = World::new(4, |_| {});
    world.run(3 * SECOND);
    // Nobody but process 3 hears that it has left, and whoever has decided it dies.
    world.loses = Box::new(|from, to, message| {
        matches!((from, to, message), (3, 2, Message::Reply { .. }))
            || (to != 3 && matches!(message, Message::Event(_) | Message::Syndrome(_)))
    });
    while world.members[3].is_member() {
        world.run(MS);
    }
    world.kill(2);
    world.loses = Box::new(|_, _, _| false);
    world.run(20 * SECOND);
    assert_eq!(world.counters(), [0, 0, 1, 2]);
}

#[test]
fn a_process_that_was_stopped_has_left_before_it_takes_its_verdict() {
    for who in 0..3 {
        let mut world = World::new(3, |_| {});
        world.run(5 * SECOND + 500 * MS);
        let is_tested = |world: &World| {
            world.sent.iter().any(|(from, _, message)| *from == who && matches!(message, Message::Test(_)))
        };
        world.sent.clear();
        while !is_tested(&world) {
            world.run(MS);
        }
        // The replies come while it is stopped, and behind them the news that it has left.
        world.stop(who);
        world.run(5 * SECOND);
        world.resume(who);
        world.run(SECOND);
        let mut expected = [0; 3];
        expected[who as usize] = 1;
        assert_eq!(world.counters(), expected);
        let mut programs = Programs::new(&world);
        programs.run(&mut world, 15);
        assert_settled(&mut world, &mut programs, &format!("process {who}"));
    }
}

#[test]
fn a_streak_ends_when_the_tester_itself_is_outside() {
    let mut world = World::new(5, |_| {});
    world.run(3 * SECOND);
    world.is_wrong[4] = true;
    world.run(2 * SECOND);
    world.is_wrong[4] = false;
    while world.members[3].streak(4) < 4 {
        world.run(10 * MS);
    }
    world.is_wrong[3] = true;
    world.is_wrong[4] = true;
    world.run(2 * SECOND);
    assert_eq!(world.members[3].streak(4), 0, "it has left");
    world.is_wrong[3] = false;
    while world.members[3].counters().get(3) != 2 {
        world.run(MS);
    }
    assert_eq!(world.members[3].streak(4), 0, "it is back");
    world.is_wrong[4] = false;
    world.told.clear();
    world.run(4 * SECOND);
    let asked = world.told.iter().any(|told| told.2 == Action::Requested { rank: 4 });
    assert!(!asked, "nobody has seen five passes");
}

#[test]
fn a12_a_threshold_above_the_interval_is_kept() {
    let change = |config: &mut recommended_group::config::Config| {
        config.interval = 100 * MS;
        config.tolerance.addend = 3 * SECOND;
    };
    let mut world = World::new(4, change);
    world.run(3 * SECOND);
    world.service[2] = 1500 * MS;
    world.sent.clear();
    world.run(9 * SECOND);
    assert_eq!(world.counters(), [0; 4], "it answers within its threshold");
    let tests = world.sent.iter().filter(|sent| (sent.0, sent.1) == (0, 2) && matches!(sent.2, Message::Test(_)));
    assert!((5..=7).contains(&tests.count()), "no other test while one is under way");
    let killed = world.now;
    let threshold = world.members[0].threshold(3);
    world.kill(3);
    world.run(threshold - 200 * MS);
    assert_eq!(world.counters(), [0; 4], "silent for {:?} of {threshold:?}", world.now - killed);
    world.run(SECOND);
    assert_eq!(world.counters(), [0, 0, 0, 1]);
}

#[test]
fn a12_the_first_test_has_eight_seconds_though_the_interval_is_one() {
    let mut world = World::new(4, |_| {});
    world.service[2] = 7900 * MS;
    world.kill(3);
    world.run(7 * SECOND);
    assert_eq!(world.counters(), [0; 4]);
    world.run(3 * SECOND);
    assert_eq!(world.counters(), [0, 0, 0, 1]);
    let silent = world.told.iter().filter_map(|told| match told.2 {
        Action::Tested { target: 3, reply: None, threshold, .. } => Some((told.0, threshold)),
        _ => None,
    });
    assert!(silent.clone().count() > 0 && silent.clone().all(|(at, threshold)| at >= threshold));
}

#[test]
fn a_lost_word_of_a_barrier_is_said_again_soon_though_the_interval_is_long() {
    for lost in 1..20 {
        let mut world = World::new(3, |config| config.interval = 3600 * SECOND);
        world.run(3600 * SECOND);
        let mut sent = 0;
        world.loses = Box::new(move |_, _, message| {
            let is_word = !matches!(message, Message::Test(_) | Message::Reply { .. });
            sent += u32::from(is_word);
            is_word && sent == lost
        });
        (0..3).for_each(|rank| world.arrive(rank, true));
        // As the thread of group-client, which looks every second.
        world.look();
        world.run(3 * SECOND);
        assert!(world.rounds.iter().all(|rounds| rounds.len() == 1), "word {lost} was lost");
    }
}

#[test]
fn a_barrier_is_repeated_more_and_more_rarely() {
    let mut world = World::new(2, |config| config.interval = 10 * SECOND);
    world.run(10 * SECOND);
    world.sent.clear();
    world.arrive(1, true);
    world.look();
    world.run(60 * SECOND);
    let words = world.count(|message| matches!(message, Message::Report(_)));
    assert!((15..25).contains(&words), "{words}");
}

#[test]
fn a29_a_process_outside_goes_on_alone_when_all_members_are_silent() {
    let mut world = World::new(4, |_| {});
    world.run(5 * SECOND);
    world.is_wrong[2] = true;
    world.run(2 * SECOND);
    world.is_wrong[2] = false;
    [0, 1, 3].into_iter().for_each(|rank| world.kill(rank));
    world.arrive(2, true);
    world.run(10 * SECOND);
    assert_eq!(world.rounds[2].len(), 0, "they may only be slow");
    world.run(20 * SECOND);
    assert_eq!(world.rounds[2].len(), 1);
}

/// Processes are stopped and let go on at random moments, all but one at the same time, for eight seconds at most. Who
/// is stopped for longer may find that the others have begun anew.
fn stops(seed: u64) {
    let mut chance = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |bound: u64| chance.next_u64() % bound;
    let count = (2 + below(7)) as u32;
    let starts: Vec<Time> = (0..count).map(|_| below(1000) as u32 * MS).collect();
    let mut world = World::starting(count, |_| {}, |me| starts[me as usize]);
    let mut programs = Programs::new(&world);
    let mut stopped: BTreeMap<Rank, Time> = BTreeMap::new();
    world.run(3 * SECOND);
    for _ in 0..120 {
        world.run(below(400_000) as u32 * MS / 1000);
        let rank = below(u64::from(count)) as u32;
        match below(10) {
            0 | 1 if !stopped.contains_key(&rank) && stopped.len() + 1 < count as usize => {
                world.stop(rank);
                stopped.insert(rank, world.now);
            }
            2 if stopped.remove(&rank).is_some() => world.resume(rank),
            _ => {}
        }
        let long = stopped.iter().find(|(_, since)| world.now - **since > 8 * SECOND).map(|(rank, _)| *rank);
        if let Some(rank) = long {
            stopped.remove(&rank);
            world.resume(rank);
        }
        programs.arrive(&mut world, |rank| !stopped.contains_key(&rank) && below(3) == 0);
    }
    stopped.into_keys().for_each(|rank| world.resume(rank));
    programs.run(&mut world, 40);
    assert_settled(&mut world, &mut programs, &format!("seed {seed}"));
}

#[test]
fn a28_processes_that_are_stopped_at_random_end_in_one_group() {
    (0..100).for_each(stops);
}

#[test]
fn a28_processes_that_are_stopped_at_random_end_in_one_group_again() {
    (100..200).for_each(stops);
}
