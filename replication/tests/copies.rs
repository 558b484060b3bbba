//! The copies of one message: the unit tests of the thesis (section 5.3), and properties.

use std::sync::Arc;

use event_log::protocol::units::Channel;
use proptest::prelude::*;
use replication::copies::{Copies, Judgement};
use replication::digest::{Digest, Digester, digest};
use replication::message::Body;
use replication::method::{Duty, Method, duty};
use replication::replicas::Indices;
use replication::variant::Sound;

type Payload = Arc<[u8]>;

const CHANNEL: Channel = Channel { communicator: 0, tag: 5 };

fn full(bytes: &[u8]) -> Body<Payload> {
    Body::Full(bytes.into())
}

fn of(bytes: &[u8]) -> Digest {
    digest(CHANNEL, bytes)
}

fn set(list: &[u8]) -> Indices {
    let mut set = Indices::default();
    list.iter().for_each(|index| set.insert(*index));
    set
}

fn judged(copies: &Copies<Payload>, method: Method, living: u8) -> Judgement {
    copies.judge::<Sound>(method, Indices::first(living))
}

fn arrive(copies: &mut Copies<Payload>, from: u8, bytes: &[u8]) {
    copies.arrive::<Sound>(from, CHANNEL, full(bytes));
}

#[test]
fn all_copies_are_identical() {
    let mut copies = Copies::default();
    for from in [1, 0] {
        arrive(&mut copies, from, b"right");
        assert_eq!(judged(&copies, Method::Async, 3), Judgement::Open);
    }
    arrive(&mut copies, 2, b"right");
    assert_eq!(judged(&copies, Method::Async, 3), Judgement::Settled { right: of(b"right"), corrupt: set(&[]) });
    assert!(!copies.settle::<Sound>(of(b"right")));
}

#[test]
fn the_first_two_are_identical_and_the_third_differs() {
    let mut copies = Copies::default();
    arrive(&mut copies, 1, b"right");
    arrive(&mut copies, 2, b"right");
    let all = Indices::first(3);
    assert_eq!(copies.take::<Sound>(Method::Async, all, all, 0).as_deref(), Some(&b"right"[..]));
    arrive(&mut copies, 0, b"wrong");
    assert_eq!(judged(&copies, Method::Async, 3), Judgement::Settled { right: of(b"right"), corrupt: set(&[0]) });
    assert!(!copies.settle::<Sound>(of(b"right")), "what was used is right");
}

#[test]
fn the_first_is_corrupt_and_the_second_and_third_agree() {
    let mut copies = Copies::default();
    let all = Indices::first(3);
    arrive(&mut copies, 0, b"wrong");
    assert_eq!(copies.take::<Sound>(Method::Async, all, all, 0).as_deref(), Some(&b"wrong"[..]));
    arrive(&mut copies, 1, b"right");
    assert_eq!(judged(&copies, Method::Async, 3), Judgement::Open);
    arrive(&mut copies, 2, b"right");
    assert_eq!(judged(&copies, Method::Async, 3), Judgement::Settled { right: of(b"right"), corrupt: set(&[0]) });
    assert!(copies.settle::<Sound>(of(b"right")), "what was used has to be corrected");
}

#[test]
fn a_corrupt_copy_is_not_used_where_the_receiver_has_another_number() {
    let mut copies = Copies::default();
    let all = Indices::first(3);
    arrive(&mut copies, 0, b"wrong");
    assert_eq!(copies.take::<Sound>(Method::Async, all, all, 1), None);
    arrive(&mut copies, 1, b"right");
    assert_eq!(copies.take::<Sound>(Method::Async, all, all, 1), None, "they differ: the third one decides");
    arrive(&mut copies, 2, b"right");
    copies.settle::<Sound>(of(b"right"));
    assert_eq!(copies.take::<Sound>(Method::Async, all, all, 1).as_deref(), Some(&b"right"[..]));
}

#[test]
fn who_was_told_the_length_of_a_corrupt_copy_is_tainted_before_it_uses_the_data() {
    let mut copies = Copies::default();
    let all = Indices::first(3);
    arrive(&mut copies, 0, b"longer");
    assert_eq!(copies.probe::<Sound>(Method::Async, all, all, 0), Some(6));
    arrive(&mut copies, 1, b"right");
    arrive(&mut copies, 2, b"right");
    assert!(copies.settle::<Sound>(of(b"right")));
}

#[test]
fn with_two_replicas_a_difference_is_found_and_not_settled() {
    for method in Method::ALL {
        let mut copies = Copies::default();
        arrive(&mut copies, 0, b"one");
        let other = if method.sends_digests() { Body::Digest(of(b"other")) } else { full(b"other") };
        copies.arrive::<Sound>(1, CHANNEL, other);
        assert_eq!(judged(&copies, method, 2), Judgement::Undecided { one: set(&[0]), others: set(&[1]) });
    }
}

#[test]
fn a_message_and_a_digest_that_differ_are_settled_by_the_third_sender() {
    let mut copies = Copies::default();
    arrive(&mut copies, 1, b"wrong");
    copies.arrive::<Sound>(0, CHANNEL, Body::Digest(of(b"right")));
    assert_eq!(judged(&copies, Method::AsyncHash, 3), Judgement::Ask(2));
    copies.note_asked(2);
    assert_eq!(judged(&copies, Method::AsyncHash, 3), Judgement::Open);
    arrive(&mut copies, 2, b"right");
    assert_eq!(judged(&copies, Method::AsyncHash, 3), Judgement::Settled { right: of(b"right"), corrupt: set(&[1]) });
}

#[test]
fn who_sends_two_things_under_one_number_is_not_believed() {
    let mut copies = Copies::default();
    copies.arrive::<Sound>(0, CHANNEL, Body::Digest(of(b"right")));
    arrive(&mut copies, 0, b"wrong");
    assert!(matches!(judged(&copies, Method::AsyncHash, 1), Judgement::Undecided { .. }));
}

#[test]
fn the_same_bytes_with_another_tag_are_another_message() {
    let other = Channel { tag: 6, ..CHANNEL };
    assert_ne!(digest(CHANNEL, b"bytes"), digest(other, b"bytes"));
}

/// What reaches one receiver of a message of three senders, of which one may be corrupt.
fn votes() -> impl Strategy<Value = (Vec<u8>, Option<u8>)> {
    (Just(vec![0_u8, 1, 2]).prop_shuffle(), proptest::option::of(0_u8..3))
}

proptest! {
    #[test]
    fn of_three_senders_one_may_be_corrupt_in_any_order((order, corrupt) in votes(), lazy in any::<bool>(), me in 0_u8..3) {
        let method = if lazy { Method::Async } else { Method::AllToAll };
        let all = Indices::first(3);
        let mut copies = Copies::default();
        let mut used: Option<Payload> = None;
        for from in order {
            arrive(&mut copies, from, if corrupt == Some(from) { b"wrong" } else { b"right" });
            if used.is_none() {
                used = copies.take::<Sound>(method, all, all, me);
            }
        }
        let is_right = used.as_deref().is_none_or(|used| used == b"right");
        prop_assert!(is_right || lazy && corrupt == Some(me), "only the receiver of the corrupt sender's number may use it");
        let expected = corrupt.map_or_else(Indices::default, |corrupt| set(&[corrupt]));
        prop_assert_eq!(judged(&copies, method, 3), Judgement::Settled { right: of(b"right"), corrupt: expected });
        prop_assert_eq!(copies.settle::<Sound>(of(b"right")), !is_right);
    }

    #[test]
    fn each_receiver_gets_the_message_and_a_digest_of_another_sender(living in 1_u8..8, to in 0_u8..3) {
        let senders: Vec<u8> = (0..3).filter(|index| living & 1 << index != 0).collect();
        let duties: Vec<Duty> = senders.iter().map(|me| duty(Method::AsyncHash, set(&senders), *me, to)).collect();
        let count = |duty| duties.iter().filter(|other| **other == duty).count();
        prop_assert_eq!(count(Duty::Full), 1);
        prop_assert_eq!(count(Duty::Digest), usize::from(senders.len() > 1));
    }

    #[test]
    fn pieces_have_the_digest_of_the_whole(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        cuts in proptest::collection::vec(0_usize..2000, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut digester = Digester::new(CHANNEL);
        let mut from = 0;
        for cut in cuts {
            digester.update(&bytes[from..cut]);
            from = cut;
        }
        digester.update(&bytes[from..]);
        prop_assert_eq!(digester.finish(), of(&bytes));
    }

    #[test]
    fn one_flipped_bit_changes_the_digest(
        mut bytes in proptest::collection::vec(any::<u8>(), 1..5000),
        place in any::<proptest::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let before = of(&bytes);
        let place = place.index(bytes.len());
        bytes[place] ^= 1_u8 << bit;
        prop_assert_ne!(of(&bytes), before);
    }
}
