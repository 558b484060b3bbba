//! What passes between a member and the arbiter (node 0).

use propagation::{Action, Config, EndReason, Fact, Member, Message, NodeReason, StopReason, Subject, Time};

use crate::solo::{Solo, copy, notice, obituary};

const ARBITER: u32 = 0;

fn member() -> Solo {
    Solo::new(3, 8, Some(ARBITER))
}

fn arbiter() -> Solo {
    Solo::new(ARBITER, 8, Some(ARBITER))
}

/// An arbiter that tries nobody, for tests of what comes after a declaration.
fn hasty() -> Solo {
    let config = Config { trial: Time::ZERO, ..crate::config(ARBITER, 8, Some(ARBITER)) };
    Solo::with(Member::new(config, [], Time::ZERO))
}

fn suspect(node: u32) -> Message {
    Message::Suspect { node }
}

fn cut_off() -> Action {
    Action::Stop(StopReason::CutOff)
}

#[test]
fn a_suspicion_is_proposed_until_the_verdict_comes() {
    let mut solo = member();
    solo.run(112).hears(ARBITER, Message::ProbeReply);
    assert_eq!(solo.run(121).sent(), vec![(ARBITER, suspect(2)); 3]);
    assert_eq!(solo.member.emitter(), Some(2));
    solo.hears(ARBITER, obituary(ARBITER, 0, 2, &[2]));
    assert_eq!(solo.facts().len(), 1);
    assert_eq!(solo.member.emitter(), Some(1));
    let sent = solo.run(150).sent();
    assert!(!sent.iter().any(|(_, message)| matches!(message, Message::Suspect { .. })));
}

#[test]
fn a_heartbeat_cancels_the_suspicion_but_not_a_later_notice() {
    let mut solo = member();
    solo.run(112).heartbeat(2).skip();
    assert_eq!(solo.run(180).asked(), []);
    solo.hears(ARBITER, obituary(ARBITER, 0, 2, &[2]));
    assert_eq!(solo.facts().len(), 1);
    assert_eq!(solo.member.emitter(), Some(1));
}

#[test]
fn no_word_from_the_arbiter_leads_to_doubt_and_then_to_the_end() {
    let mut solo = member();
    assert_eq!(solo.run(119).copies(), []);
    let copies = solo.run(120).copies();
    assert_eq!(copies.len(), 5);
    assert!(copies.iter().all(|(_, copy)| copy.subject == Subject::Doubt));
    assert!(!solo.run(189).asked().contains(&cut_off()));
    assert_eq!(solo.run(190).asked(), [cut_off()]);
    assert_eq!(solo.member.next_deadline(), Time::MAX);
    assert!(solo.member.is_stopped() && solo.member.drained());
}

#[test]
fn any_word_from_the_arbiter_is_contact() {
    let mut solo = member();
    solo.run(118).hears(ARBITER, Message::Heartbeat { count: 1 }).skip();
    assert_eq!(solo.run(127).copies(), []);
    assert_eq!(solo.run(128).copies().len(), 5);
    solo.run(150).hears(ARBITER, Message::ProbeReply).skip();
    // Doubt is spread once per loss of contact: those who shared the first one have heard the arbiter, too.
    assert!(solo.run(159).copies().iter().all(|(_, copy)| copy.seq == 0));
    let doubts = |solo: &mut Solo| solo.copies().iter().filter(|(_, copy)| copy.seq == 1).count();
    assert_eq!(doubts(solo.run(160)), 5);
    assert!(!solo.run(229).member.is_stopped());
    assert_eq!(solo.run(230).member.stop_reason(), Some(StopReason::CutOff));
}

#[test]
fn a_silent_arbiter_is_probed_in_the_same_rhythm() {
    let mut solo = Solo::new(1, 8, Some(ARBITER));
    assert_eq!(solo.run(119).sent(), vec![(ARBITER, Message::Probe); 2]);
    assert_eq!(solo.run(120).copies().len(), 5);
    assert!(!solo.run(189).member.is_stopped());
    assert_eq!(solo.run(190).member.stop_reason(), Some(StopReason::CutOff));
}

#[test]
fn an_arbiter_whose_heartbeats_go_astray_is_asked_for_them() {
    let mut solo = Solo::new(1, 8, Some(ARBITER));
    solo.run(112).skip().hears(ARBITER, Message::ProbeReply);
    assert_eq!(solo.sent(), [(ARBITER, Message::NewObserver)]);
    solo.heartbeat(ARBITER);
    assert_eq!(solo.run(200).asked(), []);
}

#[test]
fn doubt_makes_the_others_probe_and_stop() {
    let doubt = || copy(notice(5, 0, Subject::Doubt, &[]));
    let mut solo = member();
    solo.run(20).hears(5, doubt());
    assert!(solo.sent().contains(&(ARBITER, Message::Probe)));
    // What is left of the time to confirm, for the source of the doubt has waited before.
    assert!(!solo.run(89).asked().contains(&cut_off()));
    assert_eq!(solo.run(90).asked(), [cut_off()]);

    let mut solo = member();
    solo.run(20).hears(5, doubt()).hears(ARBITER, Message::ProbeReply).skip();
    assert!(!solo.run(100).sent().contains(&(ARBITER, Message::Probe)));
    // A later copy of the same doubt means nothing.
    assert_eq!(solo.hears(4, doubt()).sent().len(), 1);
    assert!(!solo.member.is_stopped());
}

#[test]
fn doubt_of_the_arbiter_s_contact_is_only_passed_on_by_itself() {
    let mut solo = arbiter();
    solo.hears(5, copy(notice(5, 0, Subject::Doubt, &[])));
    assert!(solo.sent().iter().all(|(_, message)| *message != Message::Probe));
    assert!(!solo.run(60).member.is_stopped());
}

#[test]
fn a_pause_gives_the_arbiter_time_again() {
    let mut solo = member();
    solo.run(112).pause(1000).call(Member::tick);
    assert!(!solo.run(1079).member.is_stopped());
    assert!(solo.run(1080).member.is_stopped());
}

#[test]
fn who_is_late_again_and_again_suspects_after_three_times_all_the_same() {
    let mut solo = member();
    let late = |times: u32, solo: &mut Solo| {
        for time in 1..=times {
            solo.pause(time * 70).call(Member::tick).hears(ARBITER, Message::ProbeReply);
        }
        solo.member.suspect()
    };
    assert_eq!(late(4, &mut solo), None);
    assert_eq!(late(5, &mut member()), solo.member.emitter());
    // Its heartbeat is all that it takes.
    let emitter = solo.member.emitter().expect("a ring of eight");
    solo.heartbeat(emitter);
    for time in 5..=7 {
        solo.pause(time * 70).call(Member::tick);
    }
    assert_eq!(solo.member.suspect(), None);
}

#[test]
fn the_arbiter_declares_whom_a_live_node_suspects() {
    let mut solo = arbiter();
    solo.run(5).hears(7, suspect(6)).run(14);
    assert_eq!(solo.facts(), []);
    solo.run(15);
    let subject = Subject::Node { node: 6, reason: NodeReason::Silent };
    let asked = solo.asked();
    assert!(asked.contains(&Action::Deliver(Fact { subject, source: 0, suspector: Some(7) })));
    solo.out = asked;
    let copies = solo.copies();
    // Seven are left: jumps 2 and 1, and among the neighbours is the suspector.
    assert_eq!(copies.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [2, 5, 1, 7]);
    assert_eq!((copies[0].1.suspector, &copies[0].1.dead[..]), (Some(7), &[6][..]));
}

#[test]
fn the_suspector_gets_a_copy_even_if_it_is_no_neighbour() {
    let mut solo = arbiter();
    solo.hears(4, suspect(3)).run(10);
    assert_eq!(solo.copies().iter().filter(|(to, _)| *to == 4).count(), 1);
    // It is served as reliably as a neighbour.
    assert_eq!(solo.run(15).copies().iter().filter(|(to, _)| *to == 4).count(), 1);
}

#[test]
fn the_arbiter_answers_a_suspicion_of_the_dead_with_the_copy_that_was_missed() {
    let mut solo = hasty();
    solo.hears(7, suspect(6));
    let first = solo.copies().remove(0).1;
    solo.hears(4, suspect(3)).skip();
    solo.hears(7, suspect(6));
    assert_eq!(solo.copies(), [(7, first)]);
}

/// Its former life may have ended before anybody had heard of the deaths that it declared.
#[test]
fn the_arbiter_announces_again_what_only_its_former_life_announced() {
    let member = Member::new(crate::config(ARBITER, 8, Some(ARBITER)), [5, 6], Time::ZERO);
    let mut solo = Solo::with(member);
    let copies = solo.run(5).copies();
    assert!(copies.len() > 1 && copies.iter().all(|(_, copy)| copy.dead == [5, 6] && copy.seq == 0));
    // Nobody is told twice here, and whoever asks gets its copy.
    solo.hears(7, suspect(6));
    assert_eq!(solo.copies(), [(7, copies[0].1.clone())]);
    solo.hears(7, suspect(5));
    let again = solo.copies();
    assert!(again.len() > 1 && again.iter().all(|(_, copy)| copy.dead == [5, 6] && copy.seq == 1));
    assert_eq!(solo.facts(), []);

    let mut other = Solo::with(Member::new(crate::config(3, 8, Some(ARBITER)), [5, 6], Time::ZERO));
    assert_eq!(other.run(5).copies(), []);
}

#[test]
fn the_arbiter_refuses_its_own_death_and_answers_all_the_same() {
    let mut solo = arbiter();
    solo.hears(1, suspect(ARBITER));
    assert_eq!(solo.asked(), [Action::Send { to: 1, message: Message::ProbeReply }]);
    solo.hears(1, Message::Probe);
    assert_eq!(solo.asked(), [Action::Send { to: 1, message: Message::ProbeReply }]);
    solo.hears(1, suspect(99));
    assert_eq!(solo.asked(), []);
}

#[test]
fn the_arbiter_itself_needs_to_ask_nobody_but_the_suspect() {
    let mut solo = arbiter();
    let sent = solo.run(119).sent();
    assert!(!sent.is_empty() && sent.iter().all(|sent| *sent == (7, Message::Probe)));
    let facts = solo.run(120).facts();
    assert_eq!((facts.len(), facts[0].suspector), (1, Some(ARBITER)));
    assert_eq!(solo.member.emitter(), Some(6));
    assert_eq!(hasty().run(110).facts().len(), 1);
}

#[test]
fn only_the_arbiter_decides() {
    let mut solo = member();
    solo.hears(5, suspect(4)).call(|member, now, out| {
        member.declare(now, 6, NodeReason::ConnectionLost, out);
        member.end(now, EndReason::Finished, out);
    });
    assert_eq!(solo.asked(), []);
    // Not even a notice makes it so, though it is acknowledged to end the copies.
    solo.hears(5, obituary(5, 0, 4, &[4]));
    assert_eq!(solo.asked().len(), 1);
    assert_eq!(solo.member.dead().count(), 0);
}

#[test]
fn an_outside_source_can_have_a_node_declared() {
    let mut solo = arbiter();
    let declare = |node| {
        move |member: &mut Member, now, out: &mut Vec<Action>| {
            member.declare(now, node, NodeReason::ConnectionLost, out);
        }
    };
    solo.call(declare(5));
    let subject = Subject::Node { node: 5, reason: NodeReason::ConnectionLost };
    assert_eq!(solo.facts(), [Fact { subject, source: ARBITER, suspector: None }]);
    solo.call(declare(5)).call(declare(ARBITER)).call(declare(8));
    assert_eq!(solo.asked(), []);
}

#[test]
fn the_dead_are_told_but_not_too_often_and_not_believed() {
    let mut solo = hasty();
    solo.run(3).hears(7, suspect(6)).skip();
    solo.hears(6, suspect(5)).hears(6, Message::Probe);
    assert_eq!(solo.asked(), [Action::Send { to: 6, message: Message::Verdict }]);
    solo.run(7).skip().heartbeat(6);
    assert_eq!(solo.asked(), []);
    solo.run(8).skip().hears(6, Message::Verdict).hears(6, crate::solo::ack(0, 0));
    assert_eq!(solo.asked(), []);
    solo.heartbeat(6);
    assert_eq!(solo.asked(), [Action::Send { to: 6, message: Message::Verdict }]);
    assert_eq!(solo.member.dead().count(), 1);
}

#[test]
fn a_verdict_stops_its_node() {
    let mut solo = member();
    solo.hears(5, Message::Verdict).hears(5, Message::Probe);
    assert_eq!(solo.asked(), [Action::Stop(StopReason::DeclaredDead)]);
    assert_eq!(solo.member.next_deadline(), Time::MAX);
}

#[test]
fn a_resignation_is_repeated_until_it_is_granted() {
    let mut solo = member();
    solo.run(20).call(Member::resign).call(Member::resign);
    assert_eq!(solo.run(31).sent(), vec![(ARBITER, suspect(3)); 3]);
    solo.hears(ARBITER, Message::Verdict);
    assert_eq!(solo.asked(), [Action::Stop(StopReason::DeclaredDead)]);

    let mut solo = member();
    assert!(!solo.run(20).call(Member::resign).run(99).member.is_stopped());
    assert_eq!(solo.run(100).member.stop_reason(), Some(StopReason::CutOff));
}

#[test]
fn the_arbiter_grants_a_resignation() {
    let mut solo = arbiter();
    solo.hears(3, suspect(3));
    let asked = solo.asked();
    assert_eq!(asked.last(), Some(&Action::Send { to: 3, message: Message::Verdict }));
    let subject = Subject::Node { node: 3, reason: NodeReason::Resigned };
    assert!(asked.contains(&Action::Deliver(Fact { subject, source: 0, suspector: None })));
}

#[test]
fn without_an_arbiter_the_observer_grants_a_resignation() {
    let mut solo = Solo::new(3, 8, None);
    solo.call(Member::resign);
    assert_eq!(solo.sent(), [(4, suspect(3))]);
    let mut solo = Solo::new(4, 8, None);
    solo.hears(3, suspect(2));
    assert_eq!(solo.asked(), []);
    assert_eq!(solo.hears(3, suspect(3)).facts().len(), 1);
}

#[test]
fn the_arbiter_s_resignation_ends_the_job() {
    let mut solo = arbiter();
    solo.call(Member::resign);
    let reason = StopReason::Ended(EndReason::LauncherLost);
    assert_eq!(solo.member.stop_reason(), Some(reason));
}

#[test]
fn readiness_is_repeated_until_heard_and_told_once() {
    let mut solo = member();
    solo.run(1).call(Member::ready);
    assert_eq!(solo.run(12).sent(), vec![(ARBITER, Message::Ready); 3]);
    solo.hears(ARBITER, Message::ReadyAck);
    assert_eq!(solo.run(50).asked(), []);

    let mut solo = arbiter();
    solo.hears(3, Message::Ready).hears(3, Message::Ready).call(Member::ready);
    let answer = Action::Send { to: 3, message: Message::ReadyAck };
    let ready = |node| Action::NodeReady(node);
    // What was acknowledged is known already, should this process die in between.
    assert_eq!(solo.asked(), [ready(3), answer.clone(), answer, ready(ARBITER)]);
}

#[test]
fn messages_of_rendezvous_transport_and_event_loggers_are_not_for_the_machine() {
    let mut solo = member();
    solo.hears(5, Message::Hello { node: 5, port: 0 });
    solo.hears(5, Message::Roster { part: 0, parts: 1, addresses: vec![] });
    solo.hears(5, Message::Transport { word: vec![1] });
    solo.hears(5, Message::Logger { word: vec![1] });
    assert_eq!(solo.asked(), []);
}
