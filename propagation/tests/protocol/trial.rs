//! How the arbiter (node 0) gives a suspect the chance to answer, and what its observer makes of it.

use propagation::{Action, Config, Member, Message, NodeId, NodeReason, StopReason, Subject, Time};

use crate::MS;
use crate::solo::{Solo, obituary};

const ARBITER: u32 = 0;

fn arbiter() -> Solo {
    Solo::new(ARBITER, 8, Some(ARBITER))
}

fn arbiter_with(change: impl FnOnce(&mut Config)) -> Solo {
    let mut config = crate::config(ARBITER, 8, Some(ARBITER));
    change(&mut config);
    Solo::with(Member::new(config, [], Time::ZERO))
}

fn suspect(node: NodeId) -> Message {
    Message::Suspect { node }
}

fn spared(node: NodeId) -> Message {
    Message::Spared { node }
}

fn dead(solo: &Solo) -> Vec<NodeId> {
    solo.member.dead().map(|death| death.node).collect()
}

/// Runs until this many milliseconds while the arbiter's own emitter reports.
fn run(solo: &mut Solo, from: u32, until: u32) -> &mut Solo {
    for now in (from..until).step_by(10) {
        solo.run(now).heartbeat(7);
    }
    solo.run(until)
}

#[test]
fn a_suspect_that_answers_is_spared_and_its_observer_told() {
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3));
    // The accuser hears at once that it is heard.
    assert_eq!(solo.sent(), [(4, Message::ProbeReply), (3, Message::Probe)]);
    solo.run(14).skip().hears(3, Message::ProbeReply);
    assert_eq!(solo.sent(), [(4, spared(3))]);
    run(&mut solo, 14, 1000);
    assert_eq!(solo.asked(), []);
    assert_eq!(dead(&solo), []);
}

#[test]
fn a_suspect_that_was_started_again_and_could_not_read_the_question_is_spared() {
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3)).run(14).skip().hears(3, Message::NewLife);
    assert_eq!(solo.sent(), [(4, spared(3))]);
}

#[test]
fn a_silent_suspect_is_asked_eight_times_and_then_declared() {
    let mut solo = arbiter();
    assert_eq!(solo.run(5).hears(4, suspect(3)).run(14).sent()[1..], vec![(3, Message::Probe); 8]);
    assert_eq!(dead(&solo), []);
    let facts = solo.run(15).facts();
    let subject = Subject::Node { node: 3, reason: NodeReason::Silent };
    assert_eq!((facts.len(), facts[0].subject, facts[0].suspector), (1, subject, Some(4)));
    assert!(!solo.run(60).sent().contains(&(3, Message::Probe)));
}

#[test]
fn a_suspect_is_asked_several_times_even_if_a_trial_is_no_longer_than_the_time_between_copies() {
    for trial in [5 * MS, MS, Time::from_nanos(10)] {
        let mut solo = arbiter_with(|config| config.trial = trial);
        let asked = |sent: Vec<_>| sent.into_iter().filter(|sent| *sent == (3, Message::Probe)).count();
        assert!(asked(solo.hears(4, suspect(3)).run(5).sent()) >= 3, "{trial:?}");
        assert_eq!(dead(&solo), [3]);
    }
}

#[test]
fn copies_of_an_accusation_are_answered_and_change_nothing() {
    let mut solo = arbiter();
    solo.hears(4, suspect(3)).run(8).skip();
    solo.hears(4, suspect(3)).hears(4, suspect(3));
    assert_eq!(solo.sent(), vec![(4, Message::ProbeReply); 2]);
    assert_eq!(solo.run(10).facts().len(), 1);
}

#[test]
fn only_the_answer_of_the_suspect_itself_counts() {
    let mut solo = arbiter();
    solo.hears(4, suspect(3)).hears(5, Message::ProbeReply).hears(4, Message::ProbeReply).run(10);
    assert_eq!(dead(&solo), [3]);
}

#[test]
fn an_answer_that_comes_too_late_changes_nothing() {
    let mut solo = arbiter();
    solo.hears(4, suspect(3)).run(10).skip().hears(3, Message::ProbeReply);
    assert_eq!(solo.asked(), [Action::Send { to: 3, message: Message::Verdict }]);
}

#[test]
fn a_late_copy_of_an_accusation_is_no_second_one() {
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3)).hears(3, Message::ProbeReply).skip();
    // It was sent before the answer came, or the answer got lost.
    solo.run(7).hears(4, suspect(3));
    assert_eq!(solo.asked(), [Action::Send { to: 4, message: spared(3) }]);
    run(&mut solo, 7, 104).hears(4, suspect(3));
    assert_eq!(solo.sent(), [(4, spared(3))]);
    assert_eq!(dead(&solo), []);
}

#[test]
fn a_second_accusation_within_the_probation_declares_at_once() {
    for at in [105, 404] {
        let mut solo = arbiter();
        solo.run(5).hears(4, suspect(3)).hears(3, Message::ProbeReply);
        run(&mut solo, 5, at).skip().hears(4, suspect(3));
        assert_eq!(dead(&solo), [3], "at {at}");
        assert!(!solo.sent().contains(&(3, Message::Probe)));
    }
}

#[test]
fn probation_ends_and_binds_only_the_same_two() {
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3)).hears(3, Message::ProbeReply);
    run(&mut solo, 5, 200).skip();
    for (observer, node) in [(5, 3), (4, 2), (3, 4)] {
        assert_eq!(solo.hears(observer, suspect(node)).sent()[1..], [(node, Message::Probe)]);
        assert_eq!(solo.hears(node, Message::ProbeReply).sent(), [(observer, spared(node))]);
    }
    run(&mut solo, 200, 405).skip().hears(4, suspect(3));
    assert_eq!(solo.sent()[1..], [(3, Message::Probe)]);
    // It begins anew with every trial.
    solo.hears(3, Message::ProbeReply);
    run(&mut solo, 405, 505).hears(4, suspect(3));
    assert_eq!(dead(&solo), [3]);
}

#[test]
fn the_arbiter_s_own_emitter_is_tried_as_well() {
    let mut solo = arbiter();
    assert_eq!(solo.run(114).sent(), vec![(7, Message::Probe); 4]);
    // It is told whom to report to, as nobody knows why its heartbeats went astray.
    assert_eq!(solo.hears(7, Message::ProbeReply).sent(), [(7, Message::NewObserver)]);
    assert_eq!(solo.run(120).sent(), [(7, Message::NewObserver)]);
    solo.heartbeat(7);
    assert_eq!(solo.run(219).asked(), []);
    solo.run(220);
    assert_eq!(dead(&solo), [7]);
}

#[test]
fn the_arbiter_s_own_emitter_is_declared_if_it_answers_but_does_not_report() {
    let mut solo = arbiter();
    let sent = solo.run(112).hears(7, Message::ProbeReply).run(211).sent();
    assert!(sent.iter().filter(|sent| **sent == (7, Message::NewObserver)).count() >= 19);
    assert_eq!(dead(&solo), []);
    solo.run(212);
    assert_eq!(dead(&solo), [7]);
}

#[test]
fn several_observers_share_one_trial_and_are_all_answered() {
    let accuse = |solo: &mut Solo| {
        solo.hears(4, suspect(3)).run(4).hears(5, suspect(3)).run(6).hears(6, suspect(3)).skip();
    };
    let mut solo = arbiter();
    accuse(&mut solo);
    solo.hears(3, Message::ProbeReply);
    assert_eq!(solo.sent(), [(4, spared(3)), (5, spared(3)), (6, spared(3))]);
    // Only one of them is to watch it: to the others it answers again.
    run(&mut solo, 6, 106).skip().hears(5, suspect(3));
    assert!(solo.sent().contains(&(3, Message::Probe)));
    assert_eq!(dead(&solo), []);
    solo.hears(4, suspect(3));
    assert_eq!(dead(&solo), [3]);

    let mut solo = arbiter();
    accuse(&mut solo);
    // The trial is as long as for one, and the first accuser counts.
    assert_eq!(solo.run(9).facts(), []);
    let facts = solo.run(10).facts();
    assert_eq!((facts.len(), facts[0].suspector), (1, Some(4)));
    solo.skip().hears(5, suspect(3));
    assert_eq!(solo.copies().len(), 1);
}

#[test]
fn trials_of_several_suspects_are_separate() {
    let mut solo = arbiter();
    solo.hears(4, suspect(3)).run(3).hears(6, suspect(5)).hears(3, Message::ProbeReply).run(12);
    assert_eq!(dead(&solo), []);
    solo.run(13);
    assert_eq!(dead(&solo), [5]);
}

#[test]
fn a_lost_connection_and_a_resignation_need_no_trial_and_close_an_open_one() {
    let lost: fn(&mut Solo) = |solo| {
        solo.call(|member, now, out| member.declare(now, 3, NodeReason::ConnectionLost, out));
    };
    let resigned: fn(&mut Solo) = |solo| {
        solo.hears(3, suspect(3));
    };
    for (dies, reason) in [(lost, NodeReason::ConnectionLost), (resigned, NodeReason::Resigned)] {
        for accused in [false, true] {
            let mut solo = arbiter();
            if accused {
                solo.hears(4, suspect(3)).run(2);
            }
            dies(solo.skip());
            let facts: Vec<_> = solo.out.iter().filter(|action| matches!(action, Action::Deliver(_))).collect();
            let subject = Subject::Node { node: 3, reason };
            assert!(matches!(facts[..], [Action::Deliver(fact)] if fact.subject == subject));
            assert!(!solo.run(60).sent().contains(&(3, Message::Probe)));
            assert_eq!(dead(&solo), [3]);
            solo.hears(4, suspect(3));
            assert_eq!(solo.copies().len(), 1);
        }
    }
}

#[test]
fn an_accuser_that_dies_meanwhile_is_not_answered() {
    let accuse = || {
        let mut solo = arbiter();
        solo.hears(4, suspect(3)).call(|member, now, out| {
            member.declare(now, 4, NodeReason::ConnectionLost, out);
        });
        solo.skip();
        solo
    };
    let mut solo = accuse();
    solo.hears(3, Message::ProbeReply);
    assert_eq!(solo.sent(), []);

    // What it said remains said.
    let mut solo = accuse();
    solo.run(60);
    assert_eq!(dead(&solo), [3, 4]);
    assert!(solo.sent().iter().all(|(to, _)| *to != 4));

    // It may be found dead in the same moment.
    let mut solo = arbiter();
    solo.hears(5, suspect(4)).hears(4, suspect(3)).run(60);
    assert_eq!(dead(&solo), [3, 4]);
    assert!(!solo.copies().iter().any(|(to, copy)| *to == 4 && copy.dead.contains(&4)));
}

#[test]
fn a_pause_of_the_arbiter_begins_a_trial_anew_and_forgets_who_was_spared() {
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3)).pause(1000).call(Member::tick).run(1009);
    assert_eq!(dead(&solo), []);
    assert_eq!(solo.run(1010).facts().len(), 1);

    // The answer got lost, and so the copies of the first accusation wait here all the while.
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3)).hears(3, Message::ProbeReply).pause(205).skip().hears(4, suspect(3));
    assert_eq!(solo.sent(), [(4, Message::ProbeReply), (3, Message::Probe)]);
}

#[test]
fn an_answer_may_wait_behind_another_accusation() {
    let mut solo = arbiter();
    solo.run(5).hears(4, suspect(3)).pause(20).hears(6, suspect(5)).hears(3, Message::ProbeReply).call(Member::tick);
    assert_eq!(dead(&solo), []);
}

#[test]
fn without_a_trial_a_suspicion_is_a_declaration() {
    let mut solo = arbiter_with(|config| config.trial = Time::ZERO);
    solo.hears(4, suspect(3));
    assert_eq!(dead(&solo), [3]);
    assert!(!solo.sent().iter().any(|(_, message)| *message == Message::Probe));
}

#[test]
fn a_suspect_answers_whoever_asks() {
    let mut solo = Solo::new(3, 8, Some(ARBITER));
    solo.hears(ARBITER, Message::Probe);
    assert_eq!(solo.asked(), [Action::Send { to: ARBITER, message: Message::ProbeReply }]);
}

#[test]
fn an_observer_watches_the_spared_for_another_timeout() {
    let mut solo = Solo::new(3, 8, Some(ARBITER));
    solo.run(112).skip().hears(ARBITER, spared(2));
    let sent = solo.run(211).sent();
    assert!(sent.iter().all(|sent| *sent == (2, Message::NewObserver)) && sent.len() >= 19);
    assert_eq!(solo.run(212).sent(), [(ARBITER, suspect(2))]);
    solo.heartbeat(2).run(300);
    assert_eq!(solo.asked(), []);
}

#[test]
fn only_the_arbiter_spares_and_only_the_suspected_emitter() {
    let mut solo = Solo::new(3, 8, Some(ARBITER));
    solo.run(50).hears(ARBITER, spared(2)).run(112).skip();
    solo.hears(5, spared(2)).hears(ARBITER, spared(1)).hears(ARBITER, spared(3));
    assert_eq!(solo.run(115).sent(), [(ARBITER, suspect(2))]);
    solo.hears(ARBITER, obituary(ARBITER, 0, 2, &[2])).hears(ARBITER, spared(2));
    assert_eq!((dead(&solo), solo.member.emitter()), (vec![2], Some(1)));
    assert_eq!(solo.member.stop_reason(), None::<StopReason>);
}
