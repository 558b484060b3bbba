//! When the ranks of a node must wait because the contact with the arbiter (node 0) is in doubt.

use propagation::{Action, Config, EndReason, Member, Message, StopReason, Subject, Time};

use crate::config;
use crate::network::{Network, Node};
use crate::solo::{Solo, ack, copy, notice, obituary};

const ARBITER: u32 = 0;

fn member() -> Solo {
    Solo::new(3, 8, Some(ARBITER))
}

/// A member that has held since 120, ten milliseconds after its suspicion.
fn held() -> Solo {
    let mut solo = member();
    assert_eq!(holds(solo.run(120)), [Action::Hold]);
    solo
}

fn doubt(source: u32) -> Message {
    copy(notice(source, 0, Subject::Doubt, &[]))
}

/// Holding, releasing and stopping among what was asked for.
fn holds(solo: &mut Solo) -> Vec<Action> {
    let mut asked = solo.asked();
    asked.retain(|action| matches!(action, Action::Hold | Action::Release | Action::Stop(_)));
    asked
}

fn probes(solo: &mut Solo) -> usize {
    solo.sent().iter().filter(|sent| **sent == (ARBITER, Message::Probe)).count()
}

/// What the arbiter was asked.
fn questions(solo: &mut Solo) -> Vec<Message> {
    solo.sent().into_iter().filter(|(to, _)| *to == ARBITER).map(|(_, question)| question).collect()
}

#[test]
fn a_member_holds_an_eighth_of_the_time_to_confirm_after_its_suspicion() {
    let mut solo = member();
    assert_eq!(holds(solo.run(119)), []);
    let asked = solo.run(120).asked();
    let place = |wanted: fn(&Action) -> bool| asked.iter().position(wanted);
    let copy = |action: &Action| matches!(action, Action::Send { message: Message::Notice(_), .. });
    // First of all, and in the same moment the others on its side are told.
    assert!(place(|action| *action == Action::Hold) < place(copy));
    assert_eq!(holds(solo.run(189)), []);
    assert_eq!(holds(solo.run(190)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn the_observer_of_the_arbiter_holds_as_well() {
    let mut solo = Solo::new(1, 8, Some(ARBITER));
    assert_eq!(holds(solo.run(119)), []);
    assert_eq!(holds(solo.run(120)), [Action::Hold]);
    assert_eq!(holds(solo.hears(ARBITER, Message::ProbeReply)), [Action::Release]);
}

#[test]
fn a_member_that_hears_of_a_doubt_holds_unless_the_arbiter_answers() {
    let mut solo = member();
    assert_eq!(holds(solo.run(20).hears(5, doubt(5)).run(29)), []);
    assert_eq!(holds(solo.run(30)), [Action::Hold]);
    // It has nothing to add to the doubt that it passed on.
    assert!(solo.copies().iter().all(|(_, copy)| copy.source == 5));
    assert_eq!(holds(solo.run(89)), []);
    assert_eq!(holds(solo.run(90)), [Action::Stop(StopReason::CutOff)]);

    let mut solo = member();
    solo.run(20).hears(5, doubt(5)).run(29).hears(ARBITER, Message::ProbeReply);
    assert_eq!(holds(solo.run(109)), []);
}

#[test]
fn a_doubt_does_not_put_off_the_hold_of_a_suspector() {
    let mut solo = member();
    assert_eq!(holds(solo.run(115).hears(5, doubt(5)).run(119)), []);
    assert_eq!(holds(solo.run(120)), [Action::Hold]);
}

/// The others on its side have nothing more to say.
#[test]
fn a_doubt_is_not_forgotten_when_the_own_suspicion_turns_out_to_be_wrong() {
    let mut solo = member();
    solo.run(112).hears(5, doubt(5)).heartbeat(2).run(116).heartbeat(2);
    assert_eq!(holds(solo.run(121)), []);
    assert_eq!(holds(solo.run(122)), [Action::Hold]);
    assert_eq!(holds(solo.run(150).heartbeat(2).run(181)), []);
    assert_eq!(holds(solo.run(182)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn any_word_of_the_arbiter_ends_the_hold() {
    let words = [
        Message::Heartbeat { count: 1 },
        Message::NewObserver,
        Message::Probe,
        Message::ProbeReply,
        Message::ReadyAck,
        Message::Spared { node: 2 },
        ack(3, 0),
        obituary(ARBITER, 0, 2, &[2]),
        doubt(5),
    ];
    for word in words {
        let mut solo = held();
        assert_eq!(holds(solo.hears(ARBITER, word.clone())), [Action::Release], "{word:?}");
        assert_eq!(holds(solo.hears(ARBITER, Message::ProbeReply)), [], "{word:?}");
    }
}

#[test]
fn the_ranks_hear_what_the_arbiter_says_before_they_go_on() {
    let mut solo = held();
    let asked = solo.hears(ARBITER, obituary(ARBITER, 0, 2, &[2])).asked();
    assert!(asked.iter().any(|action| matches!(action, Action::Deliver(_))));
    assert_eq!(asked.last(), Some(&Action::Release));
}

#[test]
fn nobody_else_s_word_ends_the_hold() {
    let mut solo = held();
    solo.hears(5, Message::ProbeReply).hears(5, Message::Probe).hears(2, Message::NewObserver).hears(5, doubt(5));
    solo.hears(5, Message::Spared { node: 2 }).hears(5, obituary(ARBITER, 0, 6, &[6]));
    assert_eq!(holds(solo.run(189)), []);
    assert_eq!(holds(solo.run(190)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn a_contact_that_is_lost_again_leads_to_another_hold_and_another_doubt() {
    let mut solo = held();
    assert_eq!(holds(solo.run(131).hears(ARBITER, Message::ProbeReply)), [Action::Release]);
    assert_eq!(holds(solo.run(140)), []);
    solo.run(141);
    assert!(solo.out.contains(&Action::Hold));
    assert_eq!(solo.copies().iter().filter(|(_, copy)| copy.seq == 1).count(), 5);
    assert_eq!(holds(solo.run(211)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn a_held_member_looks_for_the_arbiter_and_accuses_nobody_for_a_timeout() {
    let mut solo = held();
    assert_eq!(questions(solo.skip().run(130)), vec![Message::Probe; 2]);
    solo.run(131).hears(ARBITER, Message::ProbeReply);
    // The silence may have been that of the cut: the emitter is asked to report, to where it should have.
    assert!(solo.sent().contains(&(2, Message::NewObserver)));
    for now in (135..231).step_by(9) {
        solo.run(now).hears(ARBITER, Message::ProbeReply);
        assert!(questions(&mut solo).iter().all(|question| *question == Message::Probe), "at {now}");
    }
    assert_eq!(questions(solo.run(230).skip().run(231)), [Message::Suspect { node: 2 }]);
}

#[test]
fn a_timer_that_ran_while_its_member_was_held_begins_anew() {
    let mut solo = member();
    assert_eq!(holds(solo.run(95).hears(5, doubt(5)).run(105)), [Action::Hold]);
    assert_eq!(holds(solo.run(108).hears(ARBITER, Message::ProbeReply)), [Action::Release]);
    assert_eq!(questions(solo.run(207)), []);
    assert_eq!(questions(solo.run(208)), [Message::Suspect { node: 2 }]);
}

#[test]
fn a_held_member_whose_emitter_reports_again_asks_for_the_arbiter_and_stops() {
    let mut solo = held();
    solo.run(122).skip().heartbeat(2);
    assert_eq!(solo.asked(), [Action::Send { to: ARBITER, message: Message::Probe }]);
    solo.run(140).heartbeat(2).run(151);
    assert!(!solo.out.contains(&Action::Release));
    assert_eq!(probes(&mut solo), 5);
    // The time since the arbiter's last word counts, whatever the others say.
    assert_eq!(holds(solo.run(189)), []);
    assert_eq!(holds(solo.run(190)), [Action::Stop(StopReason::CutOff)]);

    let mut solo = held();
    solo.run(122).skip().heartbeat(2).run(151).skip().hears(ARBITER, Message::ProbeReply);
    assert_eq!(solo.asked(), [Action::Release]);
    solo.heartbeat(2);
    assert_eq!(solo.run(240).asked().iter().filter(|action| **action == Action::Hold).count(), 0);
}

#[test]
fn a_held_member_whose_emitter_s_death_comes_through_somebody_else_asks_for_the_arbiter_and_stops() {
    let mut solo = held();
    solo.run(122).skip().hears(5, obituary(ARBITER, 0, 2, &[2]));
    assert_eq!(solo.member.emitter(), Some(1));
    assert_eq!(probes(&mut solo), 1);
    assert_eq!(holds(solo.run(189)), []);
    assert_eq!(holds(solo.run(190)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn an_emitter_that_reports_in_the_last_moment_leaves_time_for_the_arbiter_s_answer() {
    let mut solo = held();
    assert_eq!(holds(solo.run(188).heartbeat(2).run(197)), []);
    assert_eq!(holds(solo.run(198)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn a_suspicion_that_is_settled_before_the_hold_leaves_no_question() {
    let mut solo = member();
    solo.run(119).skip().heartbeat(2);
    assert_eq!(solo.run(200).asked(), []);
}

#[test]
fn a_held_member_is_not_released_to_be_stopped() {
    let end = Subject::End { reason: EndReason::LauncherLost };
    let words = [
        (Message::Verdict, StopReason::DeclaredDead),
        (obituary(ARBITER, 0, 3, &[3]), StopReason::DeclaredDead),
        (copy(notice(ARBITER, 0, end, &[])), StopReason::Ended(EndReason::LauncherLost)),
    ];
    for (word, reason) in words {
        assert_eq!(holds(held().hears(ARBITER, word)), [Action::Stop(reason)]);
    }
}

#[test]
fn the_arbiter_never_holds() {
    let mut solo = Solo::new(ARBITER, 8, Some(ARBITER));
    solo.run(20).hears(5, doubt(5)).hears(4, Message::Suspect { node: ARBITER });
    assert_eq!(holds(solo.run(5000)), []);
    assert_eq!(solo.member.dead().count(), 7);
}

#[test]
fn without_an_arbiter_nobody_holds() {
    let mut solo = Solo::new(3, 8, None);
    solo.run(20).hears(5, doubt(5));
    assert_eq!(holds(solo.run(5000)), []);
    assert_eq!(solo.member.dead().count(), 7);
}

#[test]
fn a_pause_gives_the_arbiter_time_before_the_hold_too() {
    let mut solo = member();
    assert_eq!(holds(solo.run(112).pause(1000).call(Member::tick).run(1009)), []);
    assert_eq!(holds(solo.run(1010)), [Action::Hold]);

    let mut solo = member();
    solo.run(12).hears(5, doubt(5)).pause(1000).call(Member::tick);
    assert_eq!(holds(solo.run(1009)), []);
    assert_eq!(holds(solo.run(1010)), [Action::Hold]);
}

#[test]
fn a_member_that_hears_the_arbiter_in_time_never_holds() {
    let mut solo = member();
    for now in (110..400).step_by(9) {
        solo.run(now).hears(ARBITER, Message::ProbeReply);
    }
    assert_eq!(holds(&mut solo), []);
    assert!(!solo.member.is_stopped());
}

#[test]
fn a_resignation_that_is_overdue_stops_a_held_member_once() {
    let mut solo = member();
    solo.run(45).call(Member::resign).run(124);
    assert_eq!(holds(&mut solo), [Action::Hold]);
    let end = Subject::End { reason: EndReason::Finished };
    // Comes before the tick in which it would have given up, and brings both news.
    solo.pause(126).hears(5, copy(notice(ARBITER, 0, end, &[2])));
    assert_eq!(holds(&mut solo), [Action::Stop(StopReason::Ended(EndReason::Finished))]);
}

#[test]
fn a_flag_of_the_arbiter_ends_the_hold() {
    let mut solo = Solo::new(1, 8, Some(ARBITER));
    assert_eq!(holds(solo.run(120)), [Action::Hold]);
    assert_eq!(holds(solo.run(130).call(|member, now, out| member.saw(now, ARBITER, out))), [Action::Release]);
    assert_eq!(holds(solo.run(230)), []);
}

/// Node 3 in its second life, which begins at 0.
fn started_again() -> Solo {
    let config = Config { incarnation: 1, ..config(3, 8, Some(ARBITER)) };
    Solo::fresh(Member::new(config, [], Time::ZERO))
}

#[test]
fn who_is_started_again_asks_the_arbiter_at_once_and_soon_holds() {
    let mut solo = started_again();
    assert_eq!(questions(solo.run(0)), [Message::Probe]);
    assert_eq!(holds(solo.run(7)), []);
    assert_eq!(holds(solo.run(8)), [Action::Hold]);
    // As long as if it had its first suspicion now: the arbiter may have been started again, too.
    assert_eq!(holds(solo.run(179)), []);
    assert_eq!(holds(solo.run(180)), [Action::Stop(StopReason::CutOff)]);

    let mut solo = started_again();
    solo.run(7).hears(ARBITER, Message::ProbeReply).heartbeat(2).run(50);
    assert!(!solo.out.contains(&Action::Hold));
    assert_eq!(questions(&mut solo).len(), 2, "one and its copy");
    assert_eq!(questions(member().run(50)), [], "nothing is in doubt in a first life");
}

#[test]
fn who_is_started_again_stops_with_those_that_doubt() {
    let mut solo = started_again();
    assert_eq!(holds(solo.run(20).hears(5, doubt(5)).run(89)), [Action::Hold]);
    assert_eq!(holds(solo.run(90)), [Action::Stop(StopReason::CutOff)]);
}

#[test]
fn the_ranks_that_a_former_life_held_go_on_when_the_arbiter_is_heard() {
    let mut solo = started_again();
    assert_eq!(holds(solo.call(|member, _, out| member.keep_holding(out))), [Action::Hold]);
    assert_eq!(holds(solo.run(30)), []);
    assert_eq!(holds(solo.hears(ARBITER, Message::ProbeReply)), [Action::Release]);
}

/// The silence that its former life has heard counts, and so do the doubts of others.
#[test]
fn who_is_started_again_behind_a_cut_holds_before_it_is_declared_dead() {
    for seed in 0..100 {
        let mut network = Network::new(6, Some(ARBITER), seed);
        network.run(100 + seed as u32);
        network.split(|node| node == 3 || node == 4);
        network.run(seed as u32);
        network.restart(3);
        while !network.nodes[0].dead().contains(&3) {
            network.run(1);
        }
        let Node { held, stop, .. } = &network.nodes[3];
        assert!(*held || stop.is_some(), "seed {seed}: declared dead while its ranks run");
        network.heal();
        network.run(1000);
        network.assert_settled(&[3, 4]);
        assert!(network.nodes[3].held, "seed {seed}: its ranks went on");
    }
}
