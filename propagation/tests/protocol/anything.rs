//! Whatever comes in, in whatever order: a member keeps the promises it can keep alone.

use proptest::collection::vec;
use proptest::prelude::*;

use propagation::Strategy as Spreading;
use propagation::{Action, Config, EndReason, Member, Message, NodeId, NodeReason, RankReason, Subject, Time};

use crate::wire::any_message;
use crate::{MS, check, usual};

const UNIVERSE: u32 = 6;

#[derive(Clone, Debug)]
enum Input {
    Message(NodeId, Message),
    Tick,
    Rank(u32),
    Resign,
    Declare(NodeId),
    End,
    Ready,
    Grow,
    Leave,
}

fn any_input() -> impl Strategy<Value = Input> {
    // One more than there are: strangers must be borne, too.
    let message = (0..=UNIVERSE, any_message(0..UNIVERSE + 1));
    prop_oneof![
        20 => message.prop_map(|(from, message)| Input::Message(from, message)),
        10 => Just(Input::Tick),
        1 => (0..4_u32).prop_map(Input::Rank),
        1 => Just(Input::Resign),
        1 => (0..=UNIVERSE).prop_map(Input::Declare),
        1 => Just(Input::End),
        1 => Just(Input::Ready),
        1 => Just(Input::Grow),
        1 => Just(Input::Leave),
    ]
}

/// What must be told only once.
fn identity(subject: Subject) -> (u8, u32) {
    match subject {
        Subject::Node { node, .. } => (0, node),
        Subject::Rank { rank, .. } => (1, rank),
        Subject::End { .. } => (2, 0),
        Subject::Grown => (3, 0),
        Subject::Doubt => panic!("doubt was delivered"),
    }
}

fn feed(member: &mut Member, now: Time, input: Input, out: &mut Vec<Action>) {
    match input {
        Input::Message(from, message) => member.handle(now, from, message, out),
        Input::Tick => {
            member.tick(now, out);
            assert!(member.next_deadline() > now);
        }
        Input::Rank(rank) => member.announce_rank(now, rank, RankReason::Stopped, out),
        Input::Resign => member.resign(now, out),
        Input::Declare(node) => member.declare(now, node, NodeReason::ConnectionLost, out),
        Input::End => member.end(now, EndReason::Finished, out),
        Input::Ready => member.ready(now, out),
        Input::Grow => member.grow(now, UNIVERSE + 1, out),
        Input::Leave => member.leave(now, out),
    }
}

/// A hold is ended by a release or by the stop, and never comes where nobody waits for an arbiter.
fn assert_holds(out: &[Action], waits_for_arbiter: bool) {
    let (mut held, mut stopped) = (false, false);
    for action in out {
        match action {
            Action::Hold => assert!(waits_for_arbiter && !stopped && !std::mem::replace(&mut held, true)),
            Action::Release => assert!(!stopped && std::mem::take(&mut held)),
            Action::Stop(_) => stopped = true,
            _ => {}
        }
    }
}

#[test]
fn no_input_makes_a_member_panic_or_break_a_promise() {
    let inputs = vec((any_input(), 0..80_u32), 1..60);
    let arbiter = prop_oneof![Just(None), (0..UNIVERSE).prop_map(Some)];
    let strategy = prop::sample::select(vec![Spreading::Circulant, Spreading::Tree]);
    let lives = (0..2_u32, any::<bool>());
    check(
        1500,
        (0..UNIVERSE, arbiter, strategy, lives, inputs),
        |(me, arbiter, strategy, (incarnation, held), inputs)| {
            let config = Config { strategy, incarnation, ..usual(me, UNIVERSE, arbiter) };
            let mut member = Member::new(config, [], Time::ZERO);
            let (mut now, mut out) = (Time::ZERO, vec![]);
            if held {
                member.keep_holding(&mut out);
            }
            for (input, pause) in inputs {
                now += pause * MS;
                feed(&mut member, now, input, &mut out);
                let is_dead = |node| member.dead().any(|death| death.node == node);
                assert!(!is_dead(me) && !arbiter.is_some_and(is_dead));
                assert!(!member.emitter().is_some_and(is_dead) && member.emitter() != Some(me));
                assert!(!member.observer().is_some_and(is_dead) && member.observer() != Some(me));
            }
            let sends_to = |action: &Action| match action {
                Action::Send { to, .. } => Some(*to),
                _ => None,
            };
            assert!(out.iter().filter_map(sends_to).all(|to| to != me && to <= UNIVERSE));
            let stops = out.iter().filter(|action| matches!(action, Action::Stop(_))).count();
            assert_eq!(stops, usize::from(member.is_stopped()));
            assert_holds(&out, arbiter.is_some_and(|arbiter| arbiter != me));
            let delivered = |action| match action {
                Action::Deliver(fact) => Some(identity(fact.subject)),
                _ => None,
            };
            let mut subjects: Vec<_> = out.into_iter().filter_map(delivered).collect();
            let told = subjects.len();
            subjects.sort_unstable();
            subjects.dedup();
            assert_eq!(subjects.len(), told);
            // Left alone, it comes to rest or stops.
            member.tick(now + 60_000 * MS, &mut vec![]);
        },
    );
}
