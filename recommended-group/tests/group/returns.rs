//! A19 to A26: how processes come back.

use std::collections::BTreeSet;

use recommended_group::action::Action;
use recommended_group::assignment::Assignment;
use recommended_group::ballot::{Ballot, Outcome};
use recommended_group::group::Group;
use recommended_group::message::Message;

use crate::world::{SECOND, World};

/// A group of which this process was evicted, and has just begun to answer well.
fn evicted(count: u32, who: u32, assignment: Assignment) -> World {
    let mut world = World::new(count, |config| config.assignment = assignment);
    world.run(3 * SECOND);
    world.is_wrong[who as usize] = true;
    world.run(3 * SECOND);
    assert_eq!(world.counters()[who as usize], 1);
    world.is_wrong[who as usize] = false;
    world.sent.clear();
    world.told.clear();
    world
}

#[test]
fn a19_a_failed_test_ends_the_streak_and_the_return_is_asked_for_after_zeta() {
    let mut world = evicted(4, 3, Assignment::AllToAll);
    world.run(SECOND * 7 / 2);
    let streak = world.members[0].streak(3);
    assert!((3..5).contains(&streak), "{streak}");
    assert_eq!(world.count(|message| matches!(message, Message::Request { .. })), 0);
    world.is_wrong[3] = true;
    world.run(SECOND);
    assert_eq!(world.members[0].streak(3), 0);
    world.is_wrong[3] = false;
    world.run(SECOND * 9 / 2);
    assert_eq!(world.counters()[3], 1, "the streak began again");
    world.run(3 * SECOND);
    assert!(!world.said(|action| *action == Action::Requested { rank: 3 }).is_empty());
    assert_eq!(world.counters()[3], 2);
}

#[test]
fn a20_nobody_comes_back_before_some_member_has_seen_zeta_passes() {
    let mut world = evicted(5, 1, Assignment::AllToAll);
    let mut passes = [0; 5];
    world.run(15 * SECOND);
    for (_, who, action) in &world.told {
        match action {
            Action::Tested { target: 1, passed, .. } => {
                passes[*who as usize] = if *passed { passes[*who as usize] + 1 } else { 0 };
            }
            Action::Changed { rank: 1, counter: 2 } => {
                assert!(passes.iter().any(|many| *many >= 5), "{passes:?}");
                return;
            }
            _ => {}
        }
    }
    panic!("it came not back");
}

#[test]
fn a21_the_leader_is_the_smallest_rank_of_the_group() {
    let mut world = evicted(5, 4, Assignment::AllToAll);
    world.run(10 * SECOND);
    assert_eq!(world.said(|action| matches!(action, Action::Opened { .. })), [0]);
    let mut world = evicted(5, 0, Assignment::AllToAll);
    world.run(10 * SECOND);
    let opened: BTreeSet<_> = world.said(|action| matches!(action, Action::Opened { .. })).into_iter().collect();
    assert_eq!(opened, BTreeSet::from([1]));
    assert_eq!(world.counters(), [2, 0, 0, 0, 0]);
    assert_eq!(world.members[3].counters().leader(), Some(0));
}

#[test]
fn a22_many_requests_are_one_ballot() {
    let mut world = evicted(6, 5, Assignment::AllToAll);
    let ask = |world: &mut World| {
        for from in [1, 2, 3, 2] {
            let mut out = vec![];
            let request = Message::Request { target: 5, counter: 1 };
            world.members[0].receive(world.now, from, request, &mut out);
            world.carry_out(0, out);
        }
    };
    ask(&mut world);
    assert_eq!(world.said(|action| matches!(action, Action::Opened { .. })), [0]);
}

#[test]
fn a23_a_member_agrees_if_it_has_seen_more_than_half_of_zeta() {
    let mut world = evicted(4, 3, Assignment::AllToAll);
    for _ in 0..6 {
        world.run(SECOND / 2);
        let (streak, digest) = (world.members[1].streak(3), world.members[1].counters().digest());
        let mut out = vec![];
        let propose = Message::Propose { target: 3, counter: 1, digest };
        world.members[1].receive(world.now, 0, propose.clone(), &mut out);
        let vote = Action::Send { to: 0, message: Message::Vote { target: 3, digest, agrees: streak >= 3 } };
        assert!(out.contains(&vote), "after {streak} passes: {out:?}");
        out.clear();
        world.members[1].receive(world.now, 2, propose, &mut out);
        assert_eq!(out, [], "only the leader asks for votes");
    }
}

#[test]
fn a24_a_return_needs_more_than_half_of_the_group() {
    for (voters, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (17, 9)] {
        let mut ballot = Ballot::new(1, 0, Group::all(voters));
        let outcomes: Vec<_> = (0..voters).map(|voter| ballot.vote(voter, true)).collect();
        assert_eq!(outcomes.iter().position(|outcome| *outcome == Outcome::Accepted), Some(needed - 1));
        let mut ballot = Ballot::new(1, 0, Group::all(voters));
        let outcomes: Vec<_> = (0..voters).map(|voter| ballot.vote(voter, false)).collect();
        let refused = outcomes.iter().position(|outcome| *outcome == Outcome::Rejected);
        assert_eq!(refused, Some(voters as usize - needed), "no more than half can agree");
        assert_eq!(ballot.vote(0, true), Outcome::Rejected, "nobody votes twice");
        assert_eq!(ballot.vote(voters + 1, true), Outcome::Rejected, "nor does anybody else");
    }
    let mut world = evicted(5, 4, Assignment::AllToAll);
    world.loses = Box::new(|from, to, message| from == 4 && to > 1 && matches!(message, Message::Reply { .. }));
    world.run(15 * SECOND);
    assert_eq!(world.counters()[4], 1, "two of four have seen it pass");
    assert!(world.count(|message| matches!(message, Message::Abort { .. })) > 0);
    world.loses = Box::new(|from, to, message| from == 4 && to > 2 && matches!(message, Message::Reply { .. }));
    world.run(SECOND * 9 / 2);
    let back = world.said(|action| *action == Action::Changed { rank: 4, counter: 2 });
    assert!(back.contains(&0), "three of four");
}

#[test]
fn a25_after_the_decision_all_members_have_the_same_even_counter() {
    for assignment in [Assignment::AllToAll, Assignment::VCube] {
        let mut world = evicted(16, 9, assignment);
        world.loses = Box::new(|_, to, message| matches!(message, Message::Event(_)) && to == 12);
        world.run(15 * SECOND);
        let mut expected = vec![0; 16];
        expected[9] = 2;
        assert_eq!(world.counters(), expected, "a lost copy is made up for by the next test");
    }
}

#[test]
fn a26_who_comes_back_knows_all_and_joins_the_next_round() {
    let mut world = evicted(4, 2, Assignment::AllToAll);
    for number in 1..=3 {
        [0, 1, 3].iter().for_each(|rank| world.arrive(*rank, true));
        world.run(SECOND / 10);
        assert_eq!(world.rounds[0].len(), number);
    }
    world.arrive(2, true);
    world.run(10 * SECOND);
    assert_eq!(world.members[2].counters(), world.members[0].counters());
    assert_eq!(world.members[2].view().number, 4);
    assert_eq!(world.rounds[2].len(), 0, "its round has not begun");
    [0, 1, 3].iter().for_each(|rank| world.arrive(*rank, true));
    world.run(SECOND);
    let view = world.rounds[2].last().expect("it takes part");
    assert_eq!((view.number, view.members.len()), (5, 4));
    assert_eq!(view, world.rounds[0].last().expect("so do the others"));
}

#[test]
fn without_returns_nobody_comes_back() {
    let mut world = World::new(4, |config| config.returns = false);
    world.is_wrong[1] = true;
    world.run(5 * SECOND);
    world.is_wrong[1] = false;
    world.run(30 * SECOND);
    assert_eq!(world.counters(), [0, 1, 0, 0]);
    assert_eq!(world.count(|message| matches!(message, Message::Propose { .. })), 0);
}
