//! Broadcasts: forwarding, believing, and draining after the end (T5 of the paper).

use std::collections::BTreeSet;

use propagation::{Action, EndReason, Fact, Member, Message, NodeReason, RankReason, StopReason, Subject, Time};

use crate::solo::{Solo, ack, copy, notice, obituary};

const EXITED: RankReason = RankReason::Exited { status: 1 };
const END: Subject = Subject::End { reason: EndReason::Finished };

fn rank(rank: u32, node: u32) -> Subject {
    Subject::Rank { rank, node, reason: EXITED }
}

/// Node 3 of 8 with node 0 as the arbiter.
fn member() -> Solo {
    Solo::new(3, 8, Some(0))
}

fn targets(solo: &mut Solo) -> Vec<u32> {
    solo.copies().into_iter().map(|(to, _)| to).collect()
}

#[test]
fn the_first_copy_is_acknowledged_forwarded_and_delivered_in_this_order() {
    let mut solo = member();
    let news = notice(6, 0, rank(40, 6), &[]);
    solo.hears(5, copy(news.clone()));
    let asked = solo.asked();
    assert_eq!(asked[0], Action::Send { to: 5, message: ack(6, 0) });
    // Jumps 4, 2, 1 both ways from 3: 7 1 4 2, but not back to 5.
    let forwarded = |to| Action::Send { to, message: copy(news.clone()) };
    assert_eq!(asked[1..5], [7, 1, 4, 2].map(forwarded));
    let fact = Fact { subject: news.subject, source: 6, suspector: None };
    assert_eq!(asked[5..], [Action::Deliver(fact)]);
}

#[test]
fn later_copies_are_only_acknowledged() {
    let mut solo = member();
    let news = copy(notice(6, 0, rank(40, 6), &[]));
    solo.hears(5, news.clone()).skip().hears(2, news.clone()).hears(2, news);
    assert_eq!(solo.sent(), vec![(2, ack(6, 0)); 2]);
    // The copy from 2 shows that it needs none.
    assert_eq!(targets(solo.run(5)), [7, 1, 4]);
}

#[test]
fn copies_are_repeated_until_acknowledged_or_the_target_dies_or_for_ten_timeouts() {
    let mut solo = Solo::new(3, 8, None);
    solo.call(|member, now, out| member.announce_rank(now, 9, EXITED, out));
    assert_eq!(targets(&mut solo), [7, 5, 1, 4, 2]);
    solo.hears(7, ack(3, 0)).hears(5, ack(3, 0)).hears(1, ack(3, 0)).hears(1, ack(3, 1));
    assert_eq!(targets(solo.run(5)), [4, 2]);
    solo.hears(6, obituary(6, 0, 4, &[4])).skip();
    let mut repeated = 0;
    for step in 1..=120 {
        solo.run(step * 10).heartbeat(2);
        let copies = solo.copies();
        repeated += copies.iter().filter(|(_, copy)| copy.source == 3).count();
    }
    // From 10 ms to 995 ms every 5 ms, to node 2 alone.
    assert_eq!(repeated, 198);
}

/// Nobody can have answered while nothing ran: a machine that was suspended must not keep its news to itself.
#[test]
fn a_pause_is_not_counted_among_the_ten_timeouts() {
    let mut solo = Solo::new(3, 8, None);
    solo.call(|member, now, out| member.announce_rank(now, 9, EXITED, out)).skip();
    assert_eq!(targets(solo.pause(5000).call(Member::tick)), [7, 5, 1, 4, 2]);
    solo.run(5004).skip();
    assert_eq!(targets(solo.run(5005)).len(), 5);
}

#[test]
fn the_graph_is_that_of_the_notice_not_of_the_receiver() {
    // This member does not know yet that 4 is dead, the source did.
    let mut solo = member();
    solo.hears(5, obituary(0, 1, 2, &[2, 4]));
    // Alive in ring order: 0 1 3 5 6 7, k = 2: jumps 2 and 1 from 3 lead to 6, 0, 5, 1; 0 is the source.
    assert_eq!(targets(&mut solo), [6, 1]);

    // The other way round: the list is older than what this member knows.
    let mut solo = member();
    solo.hears(0, obituary(0, 1, 2, &[2, 4])).skip();
    solo.hears(7, obituary(0, 0, 4, &[4]));
    // Alive by the list: 0 1 2 3 5 6 7: jumps lead to 6, 1, 5, 2; 2 is known to be dead.
    assert_eq!(targets(&mut solo), [6, 1, 5]);
}

#[test]
fn the_whole_list_is_believed_and_each_death_delivered_once() {
    let mut solo = member();
    solo.hears(5, obituary(0, 1, 6, &[4, 6]));
    let nodes = |facts: Vec<Fact>| {
        let node = |fact: Fact| match fact.subject {
            Subject::Node { node, .. } => node,
            other => panic!("unexpected {other:?}"),
        };
        facts.into_iter().map(node).collect::<Vec<_>>()
    };
    assert_eq!(nodes(solo.facts()), [6, 4]);
    solo.hears(5, obituary(0, 0, 4, &[4]));
    assert_eq!(nodes(solo.facts()), []);
}

#[test]
fn a_rank_is_delivered_once_whoever_announces_it() {
    let mut solo = member();
    solo.hears(5, copy(notice(6, 0, rank(40, 6), &[])));
    solo.hears(5, copy(notice(7, 0, rank(40, 6), &[])));
    assert_eq!(solo.facts().len(), 1);
    solo.call(|member, now, out| member.announce_rank(now, 40, EXITED, out));
    assert_eq!(solo.asked(), []);
}

#[test]
fn a_local_rank_is_announced_and_delivered_here_too() {
    let mut solo = member();
    solo.call(|member, now, out| member.announce_rank(now, 9, EXITED, out));
    let asked = solo.asked();
    let fact = Fact { subject: rank(9, 3), source: 3, suspector: None };
    assert_eq!((asked.len(), &asked[5]), (6, &Action::Deliver(fact)));
}

#[test]
fn a_broadcast_of_a_source_that_died_since_is_still_passed_on() {
    let mut solo = member();
    solo.hears(0, obituary(0, 0, 6, &[6])).skip();
    solo.hears(5, copy(notice(6, 0, rank(40, 6), &[])));
    assert!(!solo.out.is_empty());
    assert_eq!(targets(&mut solo), [7, 1, 4, 2]);
}

#[test]
fn two_lives_of_a_source_are_told_apart() {
    let mut solo = member();
    let old = notice(6, 0, rank(40, 6), &[]);
    let mut new = notice(6, 0, rank(41, 6), &[]);
    new.incarnation = 1;
    solo.hears(5, copy(new)).hears(5, copy(old));
    assert_eq!(solo.facts().len(), 2);
}

#[test]
fn news_of_the_own_death_is_not_argued_with() {
    for message in [obituary(0, 0, 3, &[3]), obituary(0, 0, 6, &[3, 6])] {
        let mut solo = member();
        solo.hears(5, message);
        let stop = Action::Stop(StopReason::DeclaredDead);
        assert_eq!(solo.asked(), [Action::Send { to: 5, message: ack(0, 0) }, stop]);
        assert!(solo.member.drained());
    }
}

#[test]
fn impossible_notices_are_not_believed() {
    let impossible = [
        notice(8, 0, rank(1, 1), &[]),
        notice(6, 0, rank(1, 8), &[]),
        notice(6, 0, rank(1, 1), &[4, 2]),
        notice(6, 0, rank(1, 1), &[2, 8]),
        notice(6, 0, rank(1, 1), &[6]),
        notice(6, 0, rank(1, 1), &[0]),
        notice(6, 0, END, &[]),
        notice(0, 0, Subject::Node { node: 5, reason: NodeReason::Silent }, &[4]),
    ];
    for notice in impossible {
        let mut solo = member();
        solo.hears(5, copy(notice.clone()));
        assert_eq!(solo.asked().len(), 1, "{notice:?}");
    }
}

#[test]
fn messages_of_strangers_and_of_oneself_are_ignored() {
    let mut solo = member();
    solo.hears(8, obituary(0, 0, 2, &[2])).hears(3, obituary(0, 0, 2, &[2]));
    assert_eq!(solo.asked(), []);
}

#[test]
fn the_end_is_passed_on_before_the_stop_and_drains() {
    let mut solo = member();
    solo.hears(5, copy(notice(6, 0, rank(40, 6), &[]))).skip();
    solo.hears(5, copy(notice(0, 0, END, &[])));
    let asked = solo.asked();
    let fact = Fact { subject: END, source: 0, suspector: None };
    let stop = Action::Stop(StopReason::Ended(EndReason::Finished));
    assert_eq!(asked[asked.len() - 2..], [Action::Deliver(fact), stop]);
    solo.out = asked;
    assert_eq!(targets(&mut solo), [7, 1, 4, 2]);
    // From now on only the end matters.
    assert!(solo.member.is_stopped() && !solo.member.drained());
    let again = solo.run(5).copies();
    assert!(again.len() == 4 && again.iter().all(|(_, copy)| copy.subject == END));
    solo.hears(7, ack(0, 0)).hears(1, ack(0, 0)).hears(4, ack(0, 0)).skip();
    solo.hears(2, copy(notice(0, 0, END, &[])));
    assert_eq!(solo.asked(), [Action::Send { to: 2, message: ack(0, 0) }]);
    assert!(solo.member.drained());
    assert_eq!(solo.member.next_deadline(), Time::MAX);
}

#[test]
fn draining_takes_no_longer_than_a_timeout() {
    let mut solo = Solo::new(0, 8, Some(0));
    solo.call(|member, now, out| member.end(now, EndReason::Finished, out));
    solo.call(|member, now, out| member.end(now, EndReason::Finished, out));
    assert_eq!(solo.facts().len(), 1);
    assert!(!solo.run(99).member.drained());
    assert!(solo.run(100).member.drained());
}

#[test]
fn a_stopped_member_ignores_every_input() {
    let mut solo = member();
    solo.hears(5, Message::Verdict).skip();
    solo.hears(5, obituary(0, 0, 2, &[2])).call(Member::ready).call(Member::resign);
    solo.call(|member, now, out| member.announce_rank(now, 9, EXITED, out));
    assert_eq!(solo.run(1000).asked(), []);
}

#[test]
fn a_broadcast_waits_for_no_other() {
    // Hundreds are under way, none of which is acknowledged; each is passed on in the call in which it arrives.
    let mut solo = member();
    for seq in 0..300 {
        solo.skip().hears(5, copy(notice(6, seq, rank(seq as u32, 6), &[])));
        assert_eq!(targets(&mut solo), [7, 1, 4, 2], "broadcast {seq}");
    }
}

#[test]
fn deaths_found_at_one_moment_travel_in_one_list() {
    let mut solo = Solo::new(3, 8, None);
    for node in [1, 5, 6] {
        solo.call(|member, now, out| member.declare(now, node, NodeReason::ConnectionLost, out));
    }
    let lists: Vec<_> = solo.copies().into_iter().map(|(_, copy)| copy.dead).collect();
    assert_eq!(lists.last().unwrap(), &[1, 5, 6]);
    // Whoever hears the last notice first knows all of them at once.
    let mut other = Solo::new(7, 8, None);
    assert_eq!(other.hears(3, obituary(3, 2, 6, &[1, 5, 6])).facts().len(), 3);
}

#[test]
fn a_source_says_again_what_too_many_deaths_may_have_swallowed() {
    let mut solo = member();
    let about_rank = |solo: &mut Solo| -> Vec<_> {
        solo.copies()
            .into_iter()
            .filter(|(_, notice)| notice.source == 3)
            .map(|(to, notice)| (to, notice.dead))
            .collect()
    };
    solo.call(|member, now, out| member.announce_rank(now, 9, EXITED, out)).skip();
    // Eight participants bear two deaths.
    solo.hears(1, obituary(0, 0, 7, &[7])).hears(1, obituary(0, 1, 6, &[6, 7]));
    assert_eq!(about_rank(&mut solo), []);
    solo.hears(1, obituary(0, 2, 5, &[5, 6, 7]));
    let again = about_rank(&mut solo);
    assert_eq!(again.iter().map(|(to, _)| *to).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 4]));
    assert!(again.iter().all(|(_, dead)| *dead == [5, 6, 7]), "{again:?}");
    // The five that are left bear one more.
    solo.hears(1, obituary(0, 3, 4, &[4, 5, 6, 7]));
    assert_eq!(about_rank(&mut solo), []);
    solo.hears(1, obituary(0, 4, 2, &[2, 4, 5, 6, 7]));
    assert_eq!(about_rank(&mut solo).len(), 2);
}
