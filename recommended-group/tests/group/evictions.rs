//! A14 to A18, A29, A30, A32, A33: how processes leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use recommended_group::assignment::Assignment;
use recommended_group::event::Event;
use recommended_group::group::Group;
use recommended_group::message::{Asked, Message};
use recommended_group::view::{Report, View};

use crate::world::{MS, SECOND, World};

/// Origin, number and news of a broadcast.
type Told = (u32, u64, Vec<(u32, u32)>);

/// The broadcasts that were sent since the last call.
fn broadcasts(world: &mut World) -> BTreeSet<Told> {
    let sent = std::mem::take(&mut world.sent);
    let events = sent.into_iter().filter_map(|(_, _, message)| match message {
        Message::Event(event) => Some((event.origin, event.number, event.news.clone())),
        _ => None,
    });
    events.collect()
}

#[test]
fn a14_one_broadcast_of_a_tester_in_an_interval_has_all_that_it_has_found() {
    let mut world = World::new(8, |_| {});
    world.run(5 * SECOND);
    world.sent.clear();
    [3, 5, 6].iter().for_each(|rank| world.is_wrong[*rank] = true);
    world.run(SECOND);
    let found = broadcasts(&mut world);
    let first = found.iter().next().expect("somebody has told");
    assert_eq!(first.2, [(3, 1), (5, 1), (6, 1)]);
    let testers: BTreeSet<_> = found.iter().map(|event| event.0).collect();
    assert_eq!(testers.len(), found.len(), "one for each tester at most");
}

#[test]
fn a15_without_news_there_is_no_broadcast() {
    let mut world = World::new(6, |_| {});
    world.run(20 * SECOND);
    assert!(broadcasts(&mut world).is_empty());
    world.is_wrong[2] = true;
    world.run(3 * SECOND);
    world.sent.clear();
    world.run(20 * SECOND);
    assert!(broadcasts(&mut world).is_empty(), "what is known is no news");
}

#[test]
fn a16_what_somebody_outside_says_changes_nothing() {
    let mut world = World::new(4, |_| {});
    world.is_wrong[3] = true;
    world.run(3 * SECOND);
    world.is_wrong[3] = false;
    let before = world.counters();
    let group = Arc::new(Group::all(4));
    let event = Arc::new(Event { origin: 3, number: 9, group, news: vec![(0, 1), (1, 1)] });
    let asked = Asked { interval: 99, sent: world.now, question: 100, digest: 0 };
    let counters: Arc<[u32]> = vec![5, 5, 5, 0].into();
    let view = Arc::new(View { number: 9, round: 7, ..View::first(4) });
    let report = Report { promised: (9, 3), view: view.clone(), accepted: None, arrived: Some(true) };
    let messages = [
        Message::Event(event),
        Message::Syndrome(counters.clone()),
        Message::Syndrome(vec![0, 0, 0, 7].into()),
        Message::Reply { asked, answer: 25, digest: 1, counters: Some(counters.clone()) },
        Message::Request { target: 3, counter: 1 },
        Message::Propose { target: 3, counter: 1, digest: world.members[0].counters().digest() },
        Message::Vote { target: 3, digest: world.members[0].counters().digest(), agrees: true },
        Message::Abort { target: 3 },
        Message::Welcome { counters, view: view.clone() },
        Message::Query((9, 3)),
        Message::Report(report.into()),
        Message::Install { attempt: (9, 3), view: view.clone() },
        Message::Accepted { attempt: (9, 3), number: 2 },
        Message::Commit(view),
    ];
    for (to, message) in (0..3).flat_map(|to| messages.clone().map(|message| (to, message))) {
        let (mut out, view) = (vec![], world.members[to].view().clone());
        world.members[to].receive(world.now, 3, message.clone(), &mut out);
        assert_eq!(out, [], "{message:?}");
        assert_eq!(world.members[to].counters().values(), before, "{message:?}");
        assert_eq!(*world.members[to].view(), view, "{message:?}");
    }
    world.run(SECOND);
    assert_eq!(world.counters(), before);
}

#[test]
fn what_is_not_of_this_job_is_not_handled() {
    let mut world = World::new(4, |_| {});
    world.run(2 * SECOND);
    let event = |origin, news| Event { origin, number: 9, group: Arc::new(Group::all(99)), news: vec![news] };
    let view = Arc::new(View { number: 2, members: Group::of(99, [0, 98]), ..View::first(4) });
    let messages = [
        Message::Event(event(98, (1, 1)).into()),
        Message::Event(event(0, (98, 1)).into()),
        Message::Syndrome(vec![1; 3].into()),
        Message::Welcome { counters: vec![2; 99].into(), view: view.clone() },
        Message::Request { target: 98, counter: 1 },
        Message::Propose { target: 98, counter: 1, digest: 0 },
        Message::Install { attempt: (9, 0), view: view.clone() },
        Message::Commit(view),
    ];
    for message in messages {
        let (mut out, before) = (vec![], world.members[1].clone());
        world.members[1].receive(world.now, 0, message.clone(), &mut out);
        assert!(out.is_empty() && world.members[1] == before, "{message:?}");
    }
}

#[test]
fn a17_one_bad_verdict_of_a_member_evicts_for_all() {
    let mut world = World::new(6, |_| {});
    world.run(5 * SECOND);
    world.loses = Box::new(|from, to, message| (from, to) == (4, 1) && matches!(message, Message::Reply { .. }));
    world.run(SECOND * 5 / 2);
    assert_eq!(world.counters(), [0, 0, 0, 0, 1, 0]);
    assert!(!world.members[4].is_member(), "it hears it, too");
}

#[test]
fn a18_testers_may_disagree_and_the_bad_verdict_counts() {
    let mut world = World::new(5, |_| {});
    world.run(5 * SECOND);
    world.loses = Box::new(|from, to, message| (from, to) == (4, 1) && matches!(message, Message::Reply { .. }));
    world.told.clear();
    world.run(SECOND * 3 / 2);
    let verdicts: BTreeSet<bool> = world
        .told
        .iter()
        .filter_map(|told| match told.2 {
            recommended_group::action::Action::Tested { target: 4, passed, .. } => Some(passed),
            _ => None,
        })
        .collect();
    assert_eq!(verdicts, BTreeSet::from([false, true]));
    assert_eq!(world.counters()[4], 1);
}

#[test]
fn a29_all_but_one_may_leave_and_the_last_goes_on_alone() {
    for assignment in [Assignment::AllToAll, Assignment::VCube] {
        for last in [0, 3, 7] {
            let mut world = World::new(8, |config| config.assignment = assignment);
            world.run(5 * SECOND);
            (0..8).filter(|rank| *rank != last).for_each(|rank| world.kill(rank));
            world.run(20 * SECOND);
            let expected: Vec<_> = (0..8).map(|rank| u32::from(rank != last)).collect();
            assert_eq!(world.counters(), expected, "{assignment:?}");
            world.arrive(last, true);
            let view = world.rounds[last as usize].last().expect("it passes the barrier alone");
            assert_eq!(view.members.iter().collect::<Vec<_>>(), [last]);
        }
    }
}

#[test]
fn a30_killed_and_stopped_look_the_same_and_a_stopped_one_comes_back() {
    let mut world = World::new(6, |_| {});
    world.run(5 * SECOND);
    world.kill(1);
    world.stop(4);
    world.run(3 * SECOND);
    assert_eq!(world.counters(), [0, 1, 0, 0, 1, 0]);
    world.run(20 * SECOND);
    world.resume(4);
    let resumed = world.now;
    world.run(15 * SECOND);
    assert_eq!(world.counters(), [0, 1, 0, 0, 2, 0]);
    let back =
        world.told.iter().find(|told| told.2 == recommended_group::action::Action::Changed { rank: 4, counter: 2 });
    let took = back.expect("it came back").0 - resumed;
    assert!(took >= 4 * SECOND && took <= 8 * SECOND, "five tests, then a ballot: {took:?}");
}

#[test]
fn a_dead_process_is_told_from_an_evicted_one_where_that_is_known() {
    let mut world = World::new(4, |_| {});
    world.run(5 * SECOND);
    world.is_wrong[1] = true;
    world.kill(3);
    for me in 0..3 {
        let mut out = vec![];
        world.members[me].died(3, &mut out);
        world.carry_out(me as u32, out);
    }
    world.run(5 * SECOND);
    assert_eq!(world.counters(), [0, 1, 0, 1]);
    assert!(world.members[0].dead().contains(3) && !world.members[0].dead().contains(1));
    world.sent.clear();
    world.run(3 * SECOND);
    assert!(world.sent.iter().all(|(_, to, _)| *to != 3), "nobody tests the dead");
}

#[test]
fn a32_a_tester_that_is_slow_itself_evicts_nobody() {
    for doubts in [2, 0] {
        let mut world = World::new(8, |config| config.doubts = doubts);
        // Just before its interval begins.
        world.run(20 * SECOND + 250 * MS);
        world.lag[3] = 200 * MS;
        world.run(2 * SECOND);
        world.lag[3] = std::time::Duration::ZERO;
        world.run(SECOND);
        let others = (0..8).filter(|rank| *rank != 3).map(|rank| world.members[0].counters().get(rank));
        let evicted = others.filter(|counter| *counter > 0).count();
        if doubts == 0 {
            assert!(evicted >= 4, "without doubts it evicts those whom it sees late: {evicted}");
        } else {
            assert_eq!(evicted, 0);
            assert_eq!(world.counters()[3], 1, "the others find it");
        }
    }
}

/// Tests outlive intervals: most intervals end without an outcome.
#[test]
fn all_but_one_are_evicted_also_if_their_thresholds_are_longer_than_an_interval() {
    for (count, service) in [3, 4, 8, 16].into_iter().flat_map(|count| [50, 70, 90].map(|service| (count, service))) {
        let mut world = World::starting(count, |config| config.interval = 100 * MS, |me| MS * (37 * me % 100));
        let vary = |rank: u32| MS * (service + 7 * rank % 30);
        world.service = (0..count).map(vary).collect();
        world.run(SECOND);
        assert!(world.members[1].threshold(0) > 100 * MS, "of {count}, {service} ms");
        (0..count).filter(|rank| *rank != 1).for_each(|rank| world.stop(rank));
        world.run(10 * SECOND);
        let group: Vec<_> = world.members[1].counters().group().iter().collect();
        assert_eq!(group, [1], "of {count}, {service} ms");
    }
}

#[test]
fn a33_two_that_suspect_each_other_leave_for_all_alike() {
    for (apart, loses) in [(0, false), (0, true), (1, false), (1, true)] {
        // Intervals begin at the same time, or one millisecond after the other, so that the accusations cross.
        let mut world = World::starting(6, |_| {}, |me| SECOND / 2 + MS * (apart * me / 2));
        world.run(5 * SECOND);
        world.loses = Box::new(move |from, to, message| {
            matches!((from, to), (2, 4) | (4, 2)) || (loses && to == 5 && matches!(message, Message::Event(_)))
        });
        world.run(3 * SECOND);
        assert_eq!(world.counters(), [0, 0, 1, 0, 1, 0], "both are out");
    }
}

#[test]
fn a33_of_two_that_suspect_each_other_at_any_moments_one_or_both_leave_for_all_alike() {
    for (apart, at) in [70, 130, 310, 490].into_iter().flat_map(|apart| (0..8).map(move |at| (apart, at))) {
        let mut world = World::starting(6, |_| {}, |me| MS * (apart * me % 1000));
        world.run(5 * SECOND + at * 125 * MS);
        world.loses = Box::new(move |from, to, _| matches!((from, to), (2, 4) | (4, 2)));
        world.run(3 * SECOND);
        let counters = world.counters();
        assert!(counters[2] + counters[4] >= 1, "{counters:?}");
        for member in &world.members {
            assert_eq!(member.counters().values(), counters, "members or not");
        }
    }
}

#[test]
fn an_empty_group_is_founded_again() {
    let mut world = World::starting(2, |_| {}, |_| SECOND / 2);
    world.run(5 * SECOND);
    world.loses = Box::new(|_, _, message| matches!(message, Message::Reply { .. }));
    world.run(SECOND);
    assert!(!world.members[0].is_member() && !world.members[1].is_member());
    world.loses = Box::new(|_, _, _| false);
    world.run(20 * SECOND);
    assert_eq!(world.counters(), [2, 2], "process 0 has founded it, and brought 1 back");
}

#[test]
fn two_groups_that_did_not_hear_each_other_become_one() {
    let mut world = World::new(4, |_| {});
    world.run(5 * SECOND);
    world.loses = Box::new(|from, to, _| (from < 2) != (to < 2));
    world.run(10 * SECOND);
    let group = |world: &World, rank: usize| world.members[rank].counters().group().iter().collect::<Vec<_>>();
    assert_eq!((group(&world, 0), group(&world, 3)), (vec![0, 1], vec![2, 3]));
    world.loses = Box::new(|_, _, _| false);
    world.run(30 * SECOND);
    assert_eq!(world.counters(), [0, 0, 2, 2], "of equal groups that of the smallest process goes on");
}
