//! Heartbeats, suspicion and closing the gap (T1 to T4 of the paper), mostly without an arbiter.

use propagation::{Action, Config, Fact, Member, Message, NodeReason, RankReason, Subject, Time};

use crate::network::Network;
use crate::solo::{Solo, obituary};
use crate::{MS, config};

fn silent(node: u32, source: u32, suspector: Option<u32>) -> Action {
    let subject = Subject::Node { node, reason: NodeReason::Silent };
    Action::Deliver(Fact { subject, source, suspector })
}

#[test]
fn one_heartbeat_per_period_goes_to_the_successor() {
    let mut solo = Solo::new(7, 8, None);
    solo.run(35);
    let beat = |count| Action::Send { to: 0, message: Message::Heartbeat { count } };
    assert_eq!(solo.out, [beat(2), beat(3), beat(4)]);
    assert_eq!((solo.member.emitter(), solo.member.observer()), (Some(6), Some(0)));
}

#[test]
fn the_ring_is_slow_until_the_ranks_are_ready_and_suspects_as_fast() {
    let slow = Config { launch_period: 25 * MS, ..config(2, 8, Some(0)) };
    let mut member = Member::new(slow, [], Time::ZERO);
    let beats = |member: &mut Member, until: u64| {
        let (mut out, mut at) = (vec![], vec![]);
        while member.next_deadline() <= Time::from_millis(until) {
            let now = member.next_deadline();
            member.tick(now, &mut out);
            let is_beat = |action: &Action| matches!(action, Action::Send { message: Message::Heartbeat { .. }, .. });
            at.extend(out.drain(..).filter(is_beat).map(|_| now.as_millis()));
        }
        at
    };
    assert_eq!(beats(&mut member, 60), [0, 25, 50]);
    let mut out = vec![];
    member.ready(61 * MS, &mut out);
    assert_eq!(beats(&mut member, 99), [71, 81, 91]);
    assert_eq!(member.suspect(), None);
    member.tick(125 * MS, &mut out);
    assert_eq!(member.suspect(), Some(1));
}

#[test]
fn heartbeats_keep_step_when_a_tick_is_a_little_late_but_never_come_in_bursts() {
    let mut solo = Solo::new(2, 8, None);
    solo.pause(13).call(Member::tick);
    assert_eq!(solo.member.next_deadline(), 20 * MS);
    solo.skip().pause(57).call(Member::tick);
    assert_eq!(solo.out.len(), 1);
    assert_eq!(solo.member.next_deadline(), 67 * MS);
}

#[test]
fn a_node_keeps_its_own_time_whenever_the_emitters_heartbeat_comes() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(7).heartbeat(1);
    assert_eq!((&solo.out[..], solo.member.next_deadline()), (&[][..], 10 * MS));
}

#[test]
fn a_member_without_a_ring_passes_notices_on_and_does_nothing_else() {
    let mut member = Member::without_ring(config(2, 8, None), Time::ZERO);
    assert_eq!((member.next_deadline(), member.emitter(), member.observer()), (Time::MAX, None, None));
    let mut out = vec![];
    member.tick(1000 * MS, &mut out);
    assert_eq!(out, []);
    member.handle(1000 * MS, 6, obituary(6, 0, 5, &[5]), &mut out);
    assert!(out.iter().any(|action| matches!(action, Action::Send { message: Message::Notice(_), .. })));
    assert!(out.contains(&silent(5, 6, None)));
}

#[test]
fn an_emitter_that_never_reports_is_suspected_after_a_timeout_and_a_period() {
    let mut solo = Solo::new(2, 8, None);
    assert_eq!(solo.run(109).asked(), []);
    assert!(solo.run(110).facts().len() == 1);
}

#[test]
fn a_heartbeat_of_the_emitter_buys_one_timeout() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(50).heartbeat(1);
    assert_eq!(solo.member.last_heartbeat(), Some(50 * MS));
    assert_eq!(solo.run(149).asked(), []);
    assert_eq!(solo.run(150).facts().len(), 1);
}

#[test]
fn a_flag_of_the_emitter_buys_one_timeout() {
    let mut solo = Solo::new(2, 8, None);
    let flag = |solo: &mut Solo, from| solo.call(|member, now, out| member.saw(now, from, out)).asked().is_empty();
    solo.run(8).skip();
    assert!(flag(&mut solo, 1) && solo.out.is_empty());
    assert_eq!((solo.member.last_heartbeat(), solo.member.next_deadline()), (Some(8 * MS), 10 * MS));
    // Seen at the moment of the suspicion, before the tick.
    solo.run(107).skip().pause(108);
    assert!(flag(&mut solo, 1));
    assert_eq!(solo.run(207).facts().len(), 0);
    assert!(flag(&mut solo, 0) && flag(&mut solo, 3) && flag(&mut solo, 99));
    assert_eq!(solo.run(208).facts().len(), 1);
    assert!(flag(&mut solo, 1));
    assert_eq!((solo.member.emitter(), solo.member.last_heartbeat()), (Some(0), None));
}

#[test]
fn heartbeats_of_others_count_for_nothing() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(100).heartbeat(0).heartbeat(3).heartbeat(99).heartbeat(2);
    assert_eq!(solo.member.last_heartbeat(), None);
    assert_eq!(solo.run(110).facts().len(), 1);
}

#[test]
fn a_suspicion_without_arbiter_kills_reconnects_and_is_broadcast() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(110);
    let asked = solo.asked();
    assert_eq!(asked[0], silent(1, 2, Some(2)));
    assert_eq!(asked[1], Action::Send { to: 0, message: Message::NewObserver });
    // Seven are left: 2 3 4 5 6 7 0, so k = 2 and the jumps are 2 and 1.
    let targets = asked[2..].iter().map(|action| match action {
        Action::Send { to, message: Message::Notice(notice) } => {
            assert_eq!((notice.source, notice.suspector, &notice.dead[..]), (2, Some(2), &[1][..]));
            *to
        }
        other => panic!("unexpected {other:?}"),
    });
    assert_eq!(targets.collect::<Vec<_>>(), [4, 7, 3, 0]);
    assert_eq!((solo.member.emitter(), solo.member.observer()), (Some(0), Some(3)));
    let death = solo.member.dead().next().unwrap();
    assert_eq!((death.node, death.at, death.announcer), (1, 110 * MS, 2));
}

#[test]
fn a_new_emitter_gets_two_timeouts_to_report() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(110).skip().run(309);
    assert_eq!(solo.facts(), []);
    assert_eq!(solo.run(310).asked()[0], silent(0, 2, Some(2)));
}

#[test]
fn the_new_emitter_is_asked_until_it_reports() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(122);
    let asks = |solo: &mut Solo| {
        let sent = solo.sent();
        sent.iter().filter(|sent| **sent == (0, Message::NewObserver)).count()
    };
    assert_eq!(asks(&mut solo), 3);
    solo.heartbeat(0).run(150);
    assert_eq!(asks(&mut solo), 0);
}

#[test]
fn a_new_observer_gets_a_heartbeat_at_once() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(4).hears(5, Message::NewObserver);
    assert_eq!(solo.out, [Action::Send { to: 5, message: Message::Heartbeat { count: 2 } }]);
    assert_eq!(solo.member.observer(), Some(5));
    assert_eq!(solo.member.next_deadline(), 14 * MS);
}

#[test]
fn a_dead_observer_is_replaced_at_once() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(4).hears(5, obituary(7, 0, 3, &[3, 4]));
    assert_eq!(solo.member.observer(), Some(5));
    let heartbeat = Message::Heartbeat { count: 2 };
    assert!(solo.out.contains(&Action::Send { to: 5, message: heartbeat }));
}

#[test]
fn a_dead_observer_that_was_replaced_changes_nothing() {
    let mut solo = Solo::new(2, 8, None);
    solo.hears(4, Message::NewObserver).skip().hears(5, obituary(4, 0, 3, &[3]));
    assert_eq!(solo.member.observer(), Some(4));
    let beats = |action: &Action| matches!(action, Action::Send { message: Message::Heartbeat { .. }, .. });
    assert!(!solo.out.iter().any(beats));
}

#[test]
fn an_emitter_found_dead_by_somebody_else_is_replaced_as_if_suspected() {
    let mut solo = Solo::new(2, 8, None);
    solo.run(30).heartbeat(1).hears(5, obituary(7, 0, 1, &[0, 1]));
    let sent = solo.sent();
    let asked: Vec<_> = sent.iter().filter(|(_, message)| *message == Message::NewObserver).collect();
    // Straight to a live one, past the other dead.
    assert_eq!(asked, [&(7, Message::NewObserver)]);
    assert_eq!((solo.member.emitter(), solo.member.last_heartbeat()), (Some(7), None));
    assert_eq!(solo.run(229).facts(), []);
    assert_eq!(solo.run(230).facts().len(), 1);
}

#[test]
fn a_paused_process_blames_itself() {
    let mut solo = Solo::new(2, 8, None);
    // It asked for 10 ms; up to 60 ms it is merely slow.
    solo.pause(1000).call(Member::tick);
    assert_eq!(solo.facts(), []);
    assert_eq!(solo.run(1099).facts(), []);
    assert_eq!(solo.run(1100).facts().len(), 1);
}

#[test]
fn a_paused_process_blames_itself_even_if_a_message_comes_before_the_tick() {
    let mut solo = Solo::new(2, 8, None);
    solo.pause(1000).hears(5, Message::NewObserver).call(Member::tick);
    assert_eq!(solo.facts(), []);
}

#[test]
fn a_paused_process_blames_itself_even_if_it_declares_a_death_before_the_tick() {
    let mut solo = Solo::new(2, 8, None);
    solo.pause(1000).call(|member, now, out| {
        member.declare(now, 3, NodeReason::ConnectionLost, out);
        member.tick(now, out);
    });
    assert_eq!(solo.facts().len(), 1);
}

#[test]
fn a_slow_process_still_suspects() {
    let mut solo = Solo::new(2, 8, None);
    // It asked for 110 ms at the latest and comes within half a timeout.
    solo.run(105).pause(159).call(Member::tick);
    assert_eq!(solo.facts().len(), 1);
}

#[test]
fn the_last_survivor_rests() {
    let mut solo = Solo::new(1, 2, None);
    solo.run(110);
    assert_eq!((solo.member.emitter(), solo.member.observer()), (None, None));
    assert_eq!(solo.member.next_deadline(), Time::MAX);
    assert!(!solo.member.is_stopped());
    assert_eq!(Solo::new(0, 1, Some(0)).member.next_deadline(), Time::MAX);
}

#[test]
fn a_restarted_member_joins_where_its_ring_is_now() {
    let config = Config { incarnation: 1, ..config(4, 8, Some(0)) };
    let mut member = Member::new(config, [3, 5, 4, 0, 99], 50 * MS);
    assert_eq!((member.emitter(), member.observer()), (Some(2), Some(6)));
    assert_eq!(member.dead().map(|death| death.node).collect::<Vec<_>>(), [3, 5]);
    let mut out = vec![];
    member.tick(50 * MS, &mut out);
    let heartbeat = Message::Heartbeat { count: 1 };
    assert_eq!(
        out,
        [
            Action::Send { to: 6, message: heartbeat },
            Action::Send { to: 2, message: Message::NewObserver },
            Action::Send { to: 0, message: Message::Probe },
        ]
    );
}

#[test]
fn who_has_a_new_life_is_sent_at_once_what_it_waits_for() {
    let new_life = |solo: &mut Solo, from| {
        solo.skip().hears(from, Message::NewLife);
        std::mem::take(&mut solo.out)
    };
    let mut solo = Solo::new(2, 8, None);
    assert_eq!(new_life(&mut solo, 3), [Action::Send { to: 3, message: Message::Heartbeat { count: 2 } }]);
    let reason = RankReason::Reported;
    solo.call(|member, now, out| member.announce_rank(now, 5, reason, out));
    let copies = solo.copies();
    let (target, copy) = copies.iter().find(|(to, _)| *to != 3).unwrap();
    let repeated = [Action::Send { to: *target, message: Message::Notice(copy.clone().into()) }];
    assert_eq!(new_life(&mut solo, *target), repeated);
    solo.hears(*target, Message::Ack { source: 2, incarnation: 0, seq: copy.seq });
    assert_eq!(new_life(&mut solo, *target), []);
}

#[test]
fn the_restarted_are_in_contact_again_within_a_period_whoever_knows_of_whose_new_life() {
    for seed in 0..50 {
        let mut network = Network::new(5, Some(0), seed);
        network.run(100 + seed as u32);
        for restarted in [2, 1, 1, 2, 2, 1, 2] {
            let at = network.now;
            network.restart(restarted);
            network.run(10);
            let heard = network.nodes[2].member.last_heartbeat();
            assert!(heard > Some(at), "seed {seed}: node {restarted} was started at {at:?}, heartbeat {heard:?}");
        }
        network.run(1000);
        network.assert_settled(&[]);
    }
}

#[test]
#[should_panic(expected = "must be longer than the heartbeat period")]
fn invalid_settings_are_refused() {
    Member::new(Config::new(0, 2, MS, MS), [], Time::ZERO);
}

#[test]
fn where_nothing_gets_lost_nothing_is_sent_twice() {
    let config = Config { lossless: true, ..config(2, 8, None) };
    let mut solo = Solo::with(Member::new(config, [], Time::ZERO));
    // The suspicion: one message to the new emitter and the copies of the broadcast.
    let sent = solo.run(110).sent();
    assert_eq!(sent[0], (0, Message::NewObserver));
    assert_eq!(sent.len(), 5);
    // Copies are neither acknowledged nor repeated, and the new emitter is not asked again.
    let copies = solo.run(120).hears(4, obituary(5, 0, 6, &[6])).copies();
    assert_eq!(copies.len(), 2);
    assert_eq!(solo.run(309).sent(), []);
    assert_eq!(solo.run(310).facts().len(), 1, "it never reported");
}
