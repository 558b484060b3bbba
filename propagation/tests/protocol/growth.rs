//! Nodes that join and nodes that leave in order: nobody is missed, and everybody knows.

use proptest::prelude::*;

use propagation::Strategy as Spreading;
use propagation::{Config, Member, NodeId, NodeReason, RankReason, RingOrder, StopReason, Subject};

use crate::network::Network;
use crate::solo::Solo;
use crate::{MS, check};

/// A seed, and the modes that nodes can join and leave in: arbiter, strategy, and whether the ring runs backwards.
type Mode = (u64, Option<NodeId>, Spreading, bool);

fn any_mode() -> impl Strategy<Value = Mode> {
    let arbiter = prop::sample::select(vec![None, Some(0)]);
    let strategy = prop::sample::select(vec![Spreading::Circulant, Spreading::Tree]);
    (any::<u64>(), arbiter, strategy, any::<bool>())
}

fn network(universe: u32, (seed, arbiter, strategy, backwards): Mode) -> Network {
    let order = RingOrder::new((0..universe).rev().collect()).filter(|_| backwards).unwrap_or_default();
    Network::with(universe, seed, |config| Config { arbiter, strategy, order: order.clone(), ..config })
}

/// Checks that exactly these are gone, and that all are on one ring, which ends with the nodes that joined.
fn assert_one_ring(network: &Network, gone: &[NodeId]) {
    let survivors = network.survivors();
    assert_eq!(survivors, (0..network.nodes.len() as u32).filter(|node| !gone.contains(node)).collect::<Vec<_>>());
    let mut at = survivors[0];
    for _ in 0..survivors.len() {
        let node = &network.nodes[at as usize];
        assert_eq!(node.dead(), gone, "node {at}");
        assert_eq!(node.member.config().universe as usize, network.nodes.len(), "node {at}");
        let next = node.member.observer().unwrap();
        assert_eq!(network.nodes[next as usize].member.emitter(), Some(at));
        at = next;
    }
    assert_eq!(at, survivors[0]);
    let mut visited = vec![at];
    while let Some(next) = network.nodes[at as usize].member.observer().filter(|next| !visited.contains(next)) {
        visited.push(next);
        at = next;
    }
    assert_eq!(visited.len(), survivors.len());
}

#[test]
fn nodes_that_join_are_on_the_ring_and_hear_all_later_news() {
    check(25, (any_mode(), 1..=9_u32, any::<bool>()), |(mode, joining, with_a_death)| {
        let mut network = network(9, mode);
        network.run(150);
        if with_a_death {
            network.kill(5);
            network.run(300);
        }
        network.join(0, joining);
        network.run(50);
        let dead: Vec<_> = with_a_death.then_some(5).into_iter().collect();
        assert_one_ring(&network, &dead);
        network.call(3, |member, now, out| member.announce_rank(now, 7, RankReason::Reported, out));
        network.kill(8);
        network.kill(9);
        network.run(800);
        let gone: Vec<_> = dead.into_iter().chain([8, 9]).collect();
        assert_one_ring(&network, &gone);
        for node in network.survivors() {
            let facts = &network.nodes[node as usize].facts;
            let hears = |about: fn(&Subject) -> bool| facts.iter().filter(|fact| about(&fact.subject)).count();
            assert_eq!(hears(|subject| matches!(subject, Subject::Rank { rank: 7, .. })), 1);
            assert_eq!(hears(|subject| matches!(subject, Subject::Grown)), usize::from(node < 9));
            assert_eq!(hears(|subject| matches!(subject, Subject::Node { .. })), gone.len());
        }
    });
}

#[test]
fn what_was_said_while_nodes_joined_reaches_them_too() {
    check(40, (any_mode(), 0..4_u32, any::<bool>()), |(mode, pause, rank_first)| {
        let mut network = network(9, mode);
        network.run(150);
        let announce = |network: &mut Network| {
            network.call(6, |member, now, out| member.announce_rank(now, 7, RankReason::Reported, out));
        };
        if rank_first {
            announce(&mut network);
        }
        network.run(pause);
        network.join(0, 4);
        if !rank_first {
            announce(&mut network);
        }
        network.run(200);
        let hears = |node: usize| {
            network.nodes[node].facts.iter().filter(|fact| matches!(fact.subject, Subject::Rank { .. })).count()
        };
        assert!((0..9).all(|node| hears(node) == 1));
        // What was over before they came is the launcher's to tell them.
        assert!((9..13).all(|node| hears(node) == 1) || (rank_first && (9..13).all(|node| hears(node) == 0)));
        assert_one_ring(&network, &[]);
    });
}

#[test]
fn a_node_that_leaves_is_missed_by_nobody_and_is_no_failure() {
    check(30, (any_mode(), 1..10_u32, 0..200_u64), |(mode, leaver, loss)| {
        let mut network = network(10, mode);
        network.loss = loss;
        network.run(150);
        network.call(leaver, Member::leave);
        network.run(100);
        network.loss = 0;
        network.run(200);
        assert_one_ring(&network, &[leaver]);
        assert!(matches!(network.nodes[leaver as usize].stop, Some((at, StopReason::Left)) if at < 250 * MS));
        let left = Subject::Node { node: leaver, reason: NodeReason::Left };
        for node in network.survivors() {
            let facts: Vec<_> = network.nodes[node as usize].facts.iter().map(|fact| fact.subject).collect();
            assert_eq!(facts, [left]);
        }
        // Not an end of its own, and no news reaches it any more.
        let other = (leaver + 1) % 10;
        network.call(other, |member, now, out| member.announce_rank(now, 7, RankReason::Reported, out));
        network.run(100);
        assert!(network.nodes[leaver as usize].facts.iter().all(|fact| !matches!(fact.subject, Subject::Rank { .. })));
        assert_eq!(network.nodes[leaver as usize].holds, 0);
    });
}

#[test]
fn whoever_only_hears_of_it_from_a_later_list_knows_that_it_left() {
    check(20, (any_mode(), any::<u64>()), |(mode, seed)| {
        let mut network = network(12, mode);
        network.run(150);
        network.call(4, Member::leave);
        network.run(seed as u32 % 5);
        network.call(0, |member, now, out| member.declare(now, 7, NodeReason::ConnectionLost, out));
        network.kill(7);
        network.run(400);
        assert_one_ring(&network, &[4, 7]);
        for node in network.survivors() {
            let left = |subject| matches!(subject, Subject::Node { node: 4, reason: NodeReason::Left });
            assert_eq!(network.nodes[node as usize].facts.iter().filter(|fact| left(fact.subject)).count(), 1);
        }
    });
}

#[test]
fn the_arbiter_does_not_leave_and_only_it_announces_nodes() {
    let mut solo = Solo::new(0, 8, Some(0));
    assert_eq!(solo.call(Member::leave).asked(), []);
    let mut solo = Solo::new(3, 8, Some(0));
    assert_eq!(solo.call(|member, now, out| member.grow(now, 9, out)).asked(), []);
    assert_eq!(solo.member.config().universe, 8);
}
