//! Broadcasts that take the tree: each rule of one member's part in them.

use propagation::{Action, Config, Member, Message, NodeId, Notice, RankReason, Route, Strategy, Subject, Time};

use crate::network::Network;
use crate::solo::{Solo, copy, notice, obituary};
use crate::{MS, config};

const RANK: Subject = Subject::Rank { rank: 40, node: 6, reason: RankReason::Stopped };

/// Node `me` of 8 without arbiter, whose messages take 5 ms at most: it waits 80 ms for the word.
fn member(me: NodeId) -> Solo {
    let config = Config { strategy: Strategy::Tree, tau: 5 * MS, ..config(me, 8, None) };
    Solo::with(Member::new(config, [], Time::ZERO))
}

fn of_six(route: Route) -> Notice {
    Notice { route, ..notice(6, 0, RANK, &[]) }
}

fn complete() -> Message {
    Message::Complete { source: 6, incarnation: 0, seq: 0 }
}

fn done() -> Message {
    Message::Done { source: 6, incarnation: 0, seq: 0 }
}

fn to(targets: &[NodeId], message: &Message) -> Vec<(NodeId, Message)> {
    targets.iter().map(|&node| (node, message.clone())).collect()
}

// Node 6 is label 0, so node x is label (x + 2) % 8: node 7 is label 1 with the children 3 and 5, nodes 1 and 3.

#[test]
fn copies_go_down_reports_up_and_the_word_down() {
    let mut solo = member(7);
    let news = copy(of_six(Route::Tree));
    assert_eq!(solo.hears(6, news.clone()).sent(), to(&[1, 3], &news));
    assert_eq!(solo.hears(3, complete()).sent(), []);
    assert_eq!(solo.hears(3, complete()).sent(), []);
    assert_eq!(solo.hears(1, complete()).sent(), to(&[6], &complete()));
    assert_eq!(solo.hears(6, done()).sent(), to(&[1, 3], &done()));
    assert_eq!(solo.run(99).sent(), []);
    // Whoever missed the word is told again.
    assert_eq!(solo.hears(3, complete()).sent(), to(&[3], &done()));
    assert_eq!(solo.hears(6, news).sent(), to(&[6], &complete()));
}

#[test]
fn the_root_says_the_word_when_all_children_have_reported() {
    let mut solo = member(6);
    solo.call(|member, now, out| member.announce_rank(now, 40, RankReason::Stopped, out));
    assert_eq!(solo.sent(), to(&[7, 0, 2], &copy(of_six(Route::Tree))));
    solo.hears(7, complete()).hears(2, complete());
    assert_eq!(solo.sent(), []);
    assert_eq!(solo.hears(0, complete()).sent(), to(&[7, 0, 2], &done()));
}

#[test]
fn what_is_not_answered_is_said_again() {
    let mut solo = member(7);
    let news = copy(of_six(Route::Tree));
    solo.hears(6, news.clone()).skip();
    assert_eq!(solo.run(5).sent(), to(&[1, 3], &news));
    solo.hears(1, complete());
    assert_eq!(solo.run(10).sent(), to(&[3], &news));
    solo.hears(3, complete()).skip();
    assert_eq!(solo.run(15).sent(), to(&[6], &complete()));
}

#[test]
fn whoever_does_not_hear_the_word_rescues() {
    let mut solo = member(7);
    let news = copy(of_six(Route::Tree));
    solo.hears(6, news.clone()).run(79).skip();
    let rescue = copy(of_six(Route::Rescue));
    assert_eq!(solo.run(80).sent(), to(&[3, 1, 5, 0, 6], &rescue));
    // It cannot answer for those below it any more, but it can make others rescue.
    assert_eq!(solo.hears(3, complete()).sent(), []);
    assert_eq!(solo.hears(6, news).sent(), to(&[6], &rescue));
}

#[test]
fn whoever_is_asked_to_rescues_once_unless_the_word_has_come() {
    let (news, rescue) = (copy(of_six(Route::Tree)), copy(of_six(Route::Rescue)));
    let copies = |solo: &mut Solo| solo.copies().len();
    let mut solo = member(7);
    assert_eq!(copies(solo.hears(6, news.clone()).skip().hears(1, rescue.clone())), 5);
    assert_eq!(copies(solo.hears(3, rescue.clone())), 0);
    // Also as the first that it hears, and then it tells the news like any other.
    let mut solo = member(7);
    solo.hears(1, rescue.clone());
    assert_eq!(
        (solo.out.iter().filter(|action| matches!(action, Action::Deliver(_))).count(), copies(&mut solo)),
        (1, 4)
    );
    let mut solo = member(7);
    solo.hears(6, news).hears(1, complete()).hears(3, complete()).hears(6, done()).skip();
    assert_eq!(copies(solo.hears(1, rescue)), 0);
}

#[test]
fn a_death_that_becomes_known_repairs_the_tree() {
    // The root adopts the children of a dead child.
    let mut solo = member(6);
    let news = copy(of_six(Route::Tree));
    solo.call(|member, now, out| member.announce_rank(now, 40, RankReason::Stopped, out));
    solo.skip().hears(5, obituary(5, 0, 7, &[7]));
    let adopted: Vec<_> = solo.copies().into_iter().filter(|(_, copy)| copy.source == 6).map(|(to, _)| to).collect();
    assert_eq!(adopted, [1, 3]);
    // Their node reports to the nearest ancestor alive, and answers whoever sends it a copy.
    let mut solo = member(3);
    solo.hears(7, news.clone()).skip();
    solo.hears(5, complete()).hears(5, obituary(5, 0, 7, &[7]));
    assert!(solo.sent().contains(&(6, complete())));
    assert_eq!(solo.hears(6, news).sent(), to(&[6], &complete()));
}

#[test]
fn the_death_of_the_root_is_a_reason_to_rescue() {
    let mut solo = member(3);
    solo.hears(7, copy(of_six(Route::Tree))).hears(5, obituary(5, 0, 6, &[6]));
    assert!(!solo.copies().iter().any(|(_, copy)| copy.route == Route::Rescue));
    solo.hears(5, obituary(5, 1, 7, &[6, 7]));
    assert!(solo.copies().iter().any(|(_, copy)| copy.route == Route::Rescue && copy.source == 6));
}

#[test]
fn a_quiet_broadcast_costs_three_messages_per_node_on_a_slow_network_too() {
    let mut network = Network::with(40, 3, |config| Config { strategy: Strategy::Tree, ..config });
    network.delay = 200..=400;
    network.call(9, |member, now, out| member.announce_rank(now, 1, RankReason::Stopped, out));
    network.run(8);
    assert!(network.nodes.iter().all(|node| node.facts.len() == 1));
    assert_eq!((network.sent["notice"], network.sent["complete"], network.sent["done"]), (39, 39, 39));
    assert!(!network.sent.contains_key("ack"));
}
