//! Nodes behind a silent emitter: which of them are asked, and when they are suspected together with it.

use proptest::collection::vec;
use proptest::prelude::*;

use propagation::{Action, Config, Member, Message, NodeId, Time};

use crate::network::Network;
use crate::solo::{Solo, obituary};
use crate::{check, usual};

const ARBITER: NodeId = 0;

/// Node `me` of 12, which watches the node before it, as in a real job.
fn member(me: NodeId) -> Solo {
    Solo::with(Member::new(usual(me, 12, Some(ARBITER)), [], Time::ZERO))
}

fn suspect(node: NodeId) -> (NodeId, Message) {
    (ARBITER, Message::Suspect { node })
}

/// Who was sent a probe, in order.
fn probed(solo: &mut Solo) -> Vec<NodeId> {
    solo.sent().into_iter().filter(|(_, message)| *message == Message::Probe).map(|(to, _)| to).collect()
}

/// Whom the arbiter was told to be silent, in order.
fn suspected(solo: &mut Solo) -> Vec<NodeId> {
    let node = |(_, message)| if let Message::Suspect { node } = message { Some(node) } else { None };
    solo.sent().into_iter().filter_map(node).collect()
}

/// Runs to this millisecond while the arbiter answers.
fn run(solo: &mut Solo, from: u32, until: u32) -> &mut Solo {
    for now in (from..until).step_by(5) {
        solo.run(now).hears(ARBITER, Message::ProbeReply);
    }
    solo.run(until)
}

/// The milliseconds from the death of these nodes of 64 until all others know all of them.
fn known_after(gone: &[NodeId], seed: u64) -> u32 {
    let mut network = Network::new(64, Some(ARBITER), seed);
    network.run(150 + seed as u32 % 10);
    gone.iter().for_each(|&node| network.kill(node));
    let start = network.now;
    while network.survivors().iter().any(|&node| network.nodes[node as usize].dead() != gone) {
        network.run(1);
    }
    let after = network.now - start;
    network.run(50);
    network.assert_settled(gone);
    after.as_millis() as u32
}

#[test]
fn neighbours_that_die_at_once_are_known_to_all_within_twice_the_time_of_one_alone() {
    let longest = |count: u32| {
        let gone: Vec<NodeId> = (20..20 + count).collect();
        (0..2).map(|seed| known_after(&gone, 7 * seed)).max().expect("two runs")
    };
    let alone = longest(1);
    for count in [2, 4, 8] {
        let time = longest(count);
        assert!(time <= 200 && time <= 2 * alone, "{count} neighbours: {time} ms, one alone {alone} ms");
    }
    // For each further eight the time until the next copy of the question.
    let time = longest(32);
    assert!(time <= 200 + 4 * 5, "{time} ms");
}

#[test]
fn neighbours_that_are_cut_off_at_once_are_known_to_the_others_within_two_timeouts() {
    for (count, seed) in [2, 4, 8].into_iter().zip(1..) {
        let cut: Vec<NodeId> = (20..20 + count).collect();
        let mut network = Network::new(64, Some(ARBITER), seed);
        network.run(200);
        network.split(|node| cut.contains(&node));
        network.run(220);
        let rest: Vec<NodeId> = (0..64).filter(|node| !cut.contains(node)).collect();
        assert_eq!(network.survivors(), rest);
        network.assert_settled(&cut);
    }
}

/// One reply for one question: no heartbeat, no other observer, no timer.
#[test]
fn whoever_is_asked_answers_and_remains_what_it_was() {
    let mut solo = member(3);
    solo.run(4).skip();
    let before = solo.member.clone();
    solo.hears(7, Message::Probe);
    assert_eq!(solo.out, [Action::Send { to: 7, message: Message::ProbeReply }]);
    assert_eq!(solo.member, before);
}

#[test]
fn nobody_is_asked_while_the_emitter_reports() {
    let mut solo = member(10);
    for now in (10..1000).step_by(70) {
        solo.run(now).heartbeat(9);
    }
    assert_eq!(solo.asked(), []);
}

#[test]
fn the_nodes_behind_a_silent_emitter_are_asked_after_three_quarters_of_the_timeout() {
    let mut solo = member(10);
    assert_eq!(solo.run(50).heartbeat(9).run(124).asked(), []);
    assert_eq!(probed(solo.run(125)), [8, 7, 6, 5, 4, 3, 2, 1]);
    // Copies, for datagrams get lost.
    solo.run(127).hears(4, Message::ProbeReply).run(134);
    assert_eq!(probed(&mut solo), [8, 7, 6, 5]);
    // Behind one that is alive nobody is asked: it has an observer. The nearest ends it.
    assert_eq!(probed(solo.hears(8, Message::ProbeReply).run(149)), []);
    assert_eq!(solo.run(150).sent(), [suspect(9)]);
}

#[test]
fn further_nodes_are_asked_as_long_as_none_answers() {
    let mut solo = Solo::with(Member::new(usual(29, 30, Some(ARBITER)), [25], Time::ZERO));
    // The dead are not asked.
    let behind: Vec<NodeId> = (1..28).rev().filter(|node| *node != 25).collect();
    assert_eq!(probed(solo.run(85)), behind[..8]);
    assert_eq!(probed(solo.run(90)), behind[..16]);
    assert_eq!(probed(solo.hears(12, Message::ProbeReply).run(95)), behind[..14]);
    assert_eq!(probed(solo.run(100)), behind[..14]);
}

#[test]
fn nobody_is_asked_from_the_arbiter_on_or_without_one() {
    assert_eq!(probed(member(3).run(100)), [1, 1, 1, 1]);
    assert_eq!(probed(member(1).run(109)), []);
    // The arbiter's own emitter, and round the ring.
    assert_eq!(probed(member(0).run(85)), [10, 9, 8, 7, 6, 5, 4, 3]);
    for settings in [usual(5, 12, None), Config { trial: Time::ZERO, ..usual(5, 12, Some(0)) }] {
        let mut solo = Solo::with(Member::new(settings, [], Time::ZERO));
        assert_eq!(probed(solo.run(109)), []);
    }
}

#[test]
fn the_silent_are_suspected_with_the_next_emitter_after_a_whole_timeout() {
    let mut solo = member(5);
    solo.run(50).heartbeat(4).run(127).hears(1, Message::ProbeReply);
    run(&mut solo, 150, 163).hears(ARBITER, obituary(ARBITER, 0, 4, &[4]));
    assert_eq!(solo.member.emitter(), Some(3));
    // The nodes were asked first at 125.
    assert_eq!(suspected(run(solo.skip(), 163, 224)), []);
    assert_eq!(suspected(solo.run(225)), [2, 3]);
    solo.hears(ARBITER, obituary(ARBITER, 1, 2, &[2, 4])).hears(ARBITER, obituary(ARBITER, 2, 3, &[2, 3, 4]));
    assert_eq!(solo.member.emitter(), Some(1));
    // It answered: it has a timeout as every new emitter.
    assert_eq!(suspected(run(solo.skip(), 225, 324)), []);
    assert_eq!(suspected(solo.run(325)), [1]);
}

#[test]
fn an_arbiter_that_takes_long_is_told_of_them_while_the_emitter_is_suspected() {
    let mut solo = member(5);
    solo.run(87).hears(1, Message::ProbeReply);
    assert!(suspected(run(&mut solo, 110, 184)).iter().all(|node| *node == 4));
    assert_eq!(suspected(solo.run(185)), [2, 3, 4]);
}

#[test]
fn the_arbiter_tries_the_candidates_of_its_own_emitter_together() {
    let mut solo = member(0);
    solo.run(87).hears(7, Message::ProbeReply).run(185).skip();
    let dead = |solo: &Solo| solo.member.dead().map(|death| death.node).collect::<Vec<_>>();
    assert_eq!((dead(&solo), solo.member.emitter()), (vec![11], Some(10)));
    solo.run(190).hears(8, Message::ProbeReply).run(195);
    assert_eq!((dead(&solo), solo.member.emitter()), (vec![9, 10, 11], Some(8)));
}

#[test]
fn an_emitter_that_reports_or_is_spared_ends_the_questions() {
    let ends: [fn(&mut Solo); 3] = [
        |solo| _ = solo.heartbeat(9),
        |solo| _ = solo.call(|member, now, out| member.saw(now, 9, out)),
        |solo| _ = solo.hears(ARBITER, Message::Spared { node: 9 }),
    ];
    for end in ends {
        let mut solo = member(10);
        end(run(&mut solo, 100, 111));
        assert_eq!(probed(run(solo.skip(), 111, 185)), []);
        // All are asked anew with its next silence, and have a timeout from there.
        assert_eq!(probed(run(&mut solo, 185, 187)).len(), 8);
        assert!(suspected(run(&mut solo, 187, 285)).iter().all(|node| *node == 9));
        assert_eq!(suspected(solo.run(286)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}

#[test]
fn a_candidate_that_only_the_arbiter_reaches_is_not_suspected_again_with_its_emitter() {
    let mut solo = member(5);
    run(&mut solo, 100, 186).skip();
    solo.hears(ARBITER, Message::Spared { node: 2 });
    assert_eq!(suspected(run(&mut solo, 186, 194)), [3, 4]);
}

/// As long as the suspect is not the emitter of its accuser, no probation comes of it: whoever does not hear its
/// neighbours, though they live, must not take all of them along.
#[test]
fn a_candidate_is_tried_every_time() {
    let mut solo = Solo::new(ARBITER, 8, Some(ARBITER));
    for now in (10..500).step_by(10) {
        solo.run(now).heartbeat(7).skip();
        if now % 110 != 0 {
            continue;
        }
        solo.hears(4, Message::Suspect { node: 2 });
        assert!(solo.sent().contains(&(2, Message::Probe)), "at {now}");
        assert_eq!(solo.hears(2, Message::ProbeReply).sent(), [(4, Message::Spared { node: 2 })]);
    }
    assert_eq!(solo.member.dead().count(), 0);
}

#[test]
fn a_pause_or_a_hold_begins_the_candidates_time_anew() {
    let mut solo = member(5);
    solo.run(100).pause(300).call(Member::tick).skip();
    assert!(run(&mut solo, 300, 474).sent().iter().all(|sent| *sent != suspect(3)));
    assert_eq!(suspected(run(&mut solo, 474, 475)).len(), 3 + 1);

    let mut solo = member(5);
    assert!(solo.run(180).out.contains(&Action::Hold));
    solo.hears(ARBITER, Message::ProbeReply).skip();
    // The emitter has a timeout from here, and they from three quarters of it on.
    assert_eq!(suspected(run(&mut solo, 180, 279)), []);
    assert!(suspected(run(&mut solo, 279, 354)).iter().all(|node| *node == 4));
    assert_eq!(suspected(run(&mut solo, 354, 355)).len(), 3 + 1);
}

#[test]
fn nobody_who_was_asked_and_lives_is_declared_despite_loss_delay_and_pauses() {
    let pauses = vec((1..64_u32, 0..300_u32, 1..=50_u32), 0..20);
    check(20, (any::<u64>(), 1..=12_u32, pauses), |(seed, count, mut pauses)| {
        let mut network = Network::new(64, Some(ARBITER), seed);
        (network.loss, network.duplication, network.delay) = (50, 50, 50..=4000);
        network.run(150);
        let start = network.now;
        let first = 1 + (seed % 40) as NodeId;
        let gone: Vec<NodeId> = (first..first + count).collect();
        gone.iter().for_each(|&node| network.kill(node));
        pauses.sort_unstable_by_key(|&(_, at, _)| at);
        let mut paused = vec![];
        for (node, at, length) in pauses {
            network.run(at.saturating_sub((network.now - start).as_millis() as u32));
            // More than once is more than is borne.
            if !paused.contains(&node) {
                network.pause(node, length);
                paused.push(node);
            }
        }
        network.run(1500);
        network.assert_settled(&gone);
        assert_eq!(network.survivors().len(), 64 - gone.len());
    });
}
