//! One machine: what it says to whom, and when its calls return.

use std::sync::Arc;

use event_log::protocol::units::{Channel, Envelope, Pattern};
use replication::action::{Action, Input};
use replication::call::{Call, Outcome, Received};
use replication::decisions::{Decision, What};
use replication::finding::Finding;
use replication::machine::{Bound, Config, Machine, OnMismatch};
use replication::message::{Body, Data, Message};
use replication::method::Method;
use replication::replicas::{DegreeError, Degrees, Replica};

type Payload = Arc<[u8]>;
type Actions = Vec<Action<Payload>>;

const CHANNEL: Channel = Channel { communicator: 0, tag: 5 };
const FROM_1: Pattern = Pattern { communicator: 0, source: Some(1), tag: Some(5) };

fn replica(rank: u32, index: u8) -> Replica {
    Replica { rank, index }
}

fn config(rank: u32, index: u8, replicas: u8, method: Method) -> Config {
    Config::new(replica(rank, index), Degrees::uniform(2, replicas).expect("2 or 3"), method)
}

fn machine(config: Config) -> Machine<Payload> {
    Machine::new(config)
}

fn step(machine: &mut Machine<Payload>, input: Input<Payload>) -> Actions {
    let mut actions = Vec::new();
    machine.step(input, &mut actions);
    actions
}

fn copy(index: u8, number: u64, bytes: &[u8]) -> Input<Payload> {
    let message = Message::Copy { number, channel: CHANNEL, body: Body::Full(bytes.into()) };
    Input::Peer { from: replica(1, index), message }
}

fn hash(index: u8, number: u64, bytes: &[u8]) -> Input<Payload> {
    let digest = Payload::from(bytes).digest(CHANNEL);
    let message = Message::Copy { number, channel: CHANNEL, body: Body::Digest(digest) };
    Input::Peer { from: replica(1, index), message }
}

fn receive(machine: &mut Machine<Payload>, pattern: Pattern) -> Actions {
    let Some(Action::Return(Outcome::Posted(request))) = step(machine, Input::Call(Call::Receive { pattern }))
        .into_iter()
        .find(|action| matches!(action, Action::Return(_)))
    else {
        panic!("a receive starts at once")
    };
    step(machine, Input::Call(Call::Wait { request }))
}

fn received(request: u64, bytes: &[u8]) -> Action<Payload> {
    let envelope = Envelope { source: 1, channel: CHANNEL };
    Action::Return(Outcome::Received(vec![Received { request, envelope, payload: bytes.into() }]))
}

fn recipients(actions: &Actions) -> Vec<(u8, bool)> {
    let copy = |action: &Action<Payload>| match action {
        Action::Transmit { to, message: Message::Copy { body, .. } } => Some((to.index, matches!(body, Body::Full(_)))),
        _ => None,
    };
    actions.iter().filter_map(copy).collect()
}

#[test]
fn a_send_goes_to_all_or_to_two_replicas_of_the_receiver() {
    for (method, expected) in [
        (Method::AllToAll, vec![(0, true), (1, true), (2, true)]),
        (Method::Async, vec![(0, true), (1, true), (2, true)]),
        (Method::MsgPlusHash, vec![(1, true), (2, false)]),
        (Method::AsyncHash, vec![(1, true), (2, false)]),
    ] {
        let mut sender = machine(config(0, 1, 3, method));
        let payload: Payload = b"hello".as_slice().into();
        let actions = step(&mut sender, Input::Call(Call::Send { to: 1, channel: CHANNEL, payload }));
        assert_eq!(recipients(&actions), expected, "{method:?}");
        assert_eq!(actions.last(), Some(&Action::Return(Outcome::Done)));
    }
}

#[test]
fn a_method_that_is_not_lazy_waits_for_the_comparison_and_a_lazy_one_does_not() {
    for (method, is_lazy, second) in [
        (Method::AllToAll, false, copy(1, 1, b"hello")),
        (Method::MsgPlusHash, false, hash(1, 1, b"hello")),
        (Method::Async, true, copy(1, 1, b"hello")),
        (Method::AsyncHash, true, hash(1, 1, b"hello")),
    ] {
        let mut receiver = machine(config(0, 0, 2, method));
        assert_eq!(receive(&mut receiver, FROM_1), []);
        let early = step(&mut receiver, copy(0, 1, b"hello"));
        assert_eq!(early == [received(1, b"hello")], is_lazy, "{method:?}: {early:?}");
        let late = step(&mut receiver, second);
        assert_eq!(late == [received(1, b"hello")], !is_lazy, "{method:?}: {late:?}");
        assert_eq!(receiver.unverified(), 0);
    }
}

#[test]
fn at_the_bound_a_receive_waits_until_something_is_verified() {
    let bound = Bound { unverified: 1, kept: 1 << 20 };
    let mut receiver = machine(Config { bound, ..config(0, 0, 2, Method::AsyncHash) });
    step(&mut receiver, copy(0, 1, b"one"));
    step(&mut receiver, copy(0, 2, b"two"));
    assert_eq!(receive(&mut receiver, FROM_1), [received(1, b"one")]);
    assert_eq!(receive(&mut receiver, FROM_1), []);
    assert_eq!(step(&mut receiver, hash(1, 1, b"one")), [received(2, b"two")]);
}

#[test]
fn a_send_waits_where_too_much_is_kept_and_asks_for_reports() {
    let bound = Bound { unverified: 9, kept: 4 };
    let mut sender = machine(Config { bound, ..config(0, 0, 2, Method::Async) });
    let send = || {
        let payload: Payload = b"hello".as_slice().into();
        Input::Call(Call::Send { to: 1, channel: CHANNEL, payload })
    };
    step(&mut sender, send());
    let asks = [0, 1].map(|index| Action::Transmit { to: replica(1, index), message: Message::PleaseReport });
    assert_eq!(step(&mut sender, send()), asks);
    let settled = |index| Input::Peer { from: replica(1, index), message: Message::Settled { up_to: 1 } };
    step(&mut sender, settled(0));
    assert_eq!(step(&mut sender, settled(1)).last(), Some(&Action::Return(Outcome::Done)));
}

#[test]
fn what_no_majority_settles_ends_the_job_or_is_reported() {
    for on_mismatch in [OnMismatch::End, OnMismatch::Report] {
        let mut receiver = machine(Config { on_mismatch, ..config(0, 1, 2, Method::AllToAll) });
        step(&mut receiver, copy(0, 1, b"one"));
        let found = step(&mut receiver, copy(1, 1, b"two"));
        let sentence = |finding: &Finding| {
            assert_eq!(
                finding.to_string(),
                "message 1 from rank 1 to rank 0 (tag 5, communicator 0): replica 0 and replica 1 of the sender differ, \
                 and no majority settles it"
            );
        };
        match (&found[..], on_mismatch) {
            ([Action::End(finding)], OnMismatch::End) => {
                sentence(finding);
                assert_eq!(step(&mut receiver, Input::Call(Call::Finalize)), []);
            }
            ([Action::Report(finding)], OnMismatch::Report) => {
                sentence(finding);
                assert_eq!(receive(&mut receiver, FROM_1), [received(1, b"one")]);
            }
            _ => panic!("{on_mismatch:?}: {found:?}"),
        }
    }
}

#[test]
fn a_receive_from_any_source_waits_for_the_replica_that_decides() {
    let any = Pattern { source: None, ..FROM_1 };
    let mut follower = machine(config(0, 1, 2, Method::Async));
    step(&mut follower, copy(1, 1, b"hello"));
    assert_eq!(receive(&mut follower, any), []);
    let mut leader = machine(config(0, 0, 2, Method::Async));
    step(&mut leader, copy(1, 1, b"hello"));
    let decided = step(&mut leader, Input::Call(Call::Receive { pattern: any }));
    let message = decided.iter().find_map(|action| match action {
        Action::Transmit { to: Replica { rank: 0, index: 1 }, message } => Some(message.clone()),
        _ => None,
    });
    let message = message.expect("it is told");
    let known = Action::Transmit { to: replica(0, 0), message: Message::Known { up_to: 1 } };
    assert_eq!(step(&mut follower, Input::Peer { from: replica(0, 0), message }), [received(1, b"hello"), known]);
    // Nothing leaves the one that decides before the other one knows.
    let payload: Payload = b"answer".as_slice().into();
    assert_eq!(step(&mut leader, Input::Call(Call::Wait { request: 1 })), [received(1, b"hello")]);
    assert_eq!(step(&mut leader, Input::Call(Call::Send { to: 1, channel: CHANNEL, payload })), []);
    let sent = step(&mut leader, Input::Peer { from: replica(0, 1), message: Message::Known { up_to: 1 } });
    assert_eq!(recipients(&sent), [(0, true), (1, true)]);
}

#[test]
fn all_replicas_return_the_clock_of_one() {
    let mut leader = machine(config(0, 0, 2, Method::Async));
    let mut follower = machine(config(0, 1, 2, Method::Async));
    assert_eq!(step(&mut follower, Input::Call(Call::Clock { own: 999 })), []);
    let told = step(&mut leader, Input::Call(Call::Clock { own: 7 }));
    assert!(told.contains(&Action::Return(Outcome::Clock(7))));
    let Some(Action::Transmit { message, .. }) = told.into_iter().next() else { panic!("it is told first") };
    let returned = step(&mut follower, Input::Peer { from: replica(0, 0), message });
    assert_eq!(returned.first(), Some(&Action::Return(Outcome::Clock(7))));
}

/// The message has come here before the cancel was decided, and at the replica that decides after it.
#[test]
fn a_cancelled_receive_gives_its_message_to_the_next_one() {
    let mut follower = machine(config(0, 1, 2, Method::Async));
    for _ in 0..2 {
        step(&mut follower, Input::Call(Call::Receive { pattern: FROM_1 }));
    }
    step(&mut follower, copy(0, 1, b"one"));
    step(&mut follower, copy(1, 1, b"one"));
    let undecided = step(&mut follower, Input::Call(Call::Cancel { request: 1 }));
    assert!(!undecided.iter().any(|action| matches!(action, Action::Return(_))), "{undecided:?}");
    let what = What::Cancelled { request: 1, is_cancelled: true };
    let told = Message::Decided(Decision { id: 1, what });
    let cancelled = step(&mut follower, Input::Peer { from: replica(0, 0), message: told });
    assert!(cancelled.contains(&Action::Return(Outcome::Cancelled(true))), "{cancelled:?}");
    let waited = step(&mut follower, Input::Call(Call::Wait { request: 2 }));
    assert!(waited.contains(&received(2, b"one")), "{waited:?}");
}

#[test]
fn the_end_waits_for_verification_of_what_was_received() {
    let mut receiver = machine(config(0, 0, 2, Method::AsyncHash));
    step(&mut receiver, copy(0, 1, b"hello"));
    receive(&mut receiver, FROM_1);
    assert_eq!(step(&mut receiver, Input::Call(Call::Finalize)), []);
    let end = Action::Return(Outcome::Finalized { compared: 1, uncompared: 0 });
    assert!(step(&mut receiver, hash(1, 1, b"hello")).contains(&end));
}

#[test]
fn the_end_waits_until_receivers_have_verified_what_was_sent() {
    let mut sender = machine(config(0, 0, 2, Method::AsyncHash));
    let payload: Payload = b"hello".as_slice().into();
    step(&mut sender, Input::Call(Call::Send { to: 1, channel: CHANNEL, payload }));
    let asks = [0, 1].map(|index| Action::Transmit { to: replica(1, index), message: Message::PleaseReport });
    assert_eq!(step(&mut sender, Input::Call(Call::Finalize)), asks);
    let settled = |index| Input::Peer { from: replica(1, index), message: Message::Settled { up_to: 1 } };
    let end = Action::Return(Outcome::Finalized { compared: 0, uncompared: 0 });
    assert!(!step(&mut sender, settled(0)).contains(&end));
    assert!(step(&mut sender, settled(1)).contains(&end));
}

#[test]
fn the_last_replica_of_a_rank_is_lost_with_it() {
    let mut receiver = machine(config(0, 0, 2, Method::Async));
    assert_eq!(step(&mut receiver, Input::Died(replica(1, 0))), []);
    assert_eq!(step(&mut receiver, Input::Died(replica(1, 1))), [Action::Lost(1)]);
    assert!(!receiver.is_alive(1));
}

#[test]
fn processes_are_numbered_by_replica_first() {
    let degrees = Degrees::partial(4, 3, &[1, 3]).expect("ranks of four");
    let all: Vec<(u32, u8)> = degrees.all().map(|replica| (replica.rank, replica.index)).collect();
    assert_eq!(all, [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2), (3, 2)]);
    assert_eq!((degrees.process(replica(3, 1)), degrees.process(replica(2, 1))), (Some(5), None));
    assert_eq!(degrees.replica(6), Some(replica(1, 2)));
    assert_eq!(Degrees::uniform(4, 4), Err(DegreeError::Degree(4)));
    assert_eq!(Degrees::partial(4, 2, &[4]), Err(DegreeError::Rank(4, 4)));
}
