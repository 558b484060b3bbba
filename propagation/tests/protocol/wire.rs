//! Envelopes: what goes in comes out, and nothing else does.

use std::ops::Range;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use propagation::bundle::pack;
use propagation::wire::{MAX_LEN, Opener, Rejected, Sealer};
use propagation::{EndReason, Message, NodeReason, Notice, RankReason, Route, Subject};

use crate::check;
use crate::solo::copy;

const JOB: u64 = 0x0123_4567_89ab_cdef;
const KEY: [u8; 32] = [7; 32];
/// The receiver, and which life of it.
const TO: u32 = 3;
const LIFE: u32 = 4;

fn mac(signed: &[u8]) -> [u8; 16] {
    let hash = blake3::Hasher::new_keyed(&KEY).update(signed).update(&TO.to_le_bytes()).finalize();
    *hash.as_bytes().first_chunk().unwrap()
}

fn seal(message: &Message) -> Vec<u8> {
    let mut envelope = vec![];
    Sealer::new(JOB, KEY, 5, 2).seal(TO, LIFE, message, &mut envelope);
    envelope
}

fn open(envelope: &[u8]) -> Result<(u32, Message), Rejected> {
    Opener::new(JOB, KEY, TO, LIFE).open(envelope)
}

/// One that has a bit of everything.
fn example() -> Message {
    let subject = Subject::Rank { rank: 300, node: 4, reason: RankReason::Signaled { signal: 9 } };
    let (suspector, dead, route) = (Some(3), vec![1, 2, 700], Route::Tree);
    let reasons = vec![(NodeReason::Silent, 1), (NodeReason::Left, 2)];
    let universe = 1000;
    copy(Notice { source: 4, incarnation: 1, seq: 77, subject, suspector, dead, reasons, universe, route })
}

/// In the order of their numbers.
const END_REASONS: [EndReason; 5] = [
    EndReason::Finished,
    EndReason::LauncherLost,
    EndReason::InitFailure,
    EndReason::FencingOff,
    EndReason::NoSurvivor,
];

/// An authentic envelope with this body.
fn reseal(body: &[u8]) -> Vec<u8> {
    let mut envelope = seal(&Message::Probe)[..32].to_vec();
    envelope.extend(body);
    let mac = mac(&envelope);
    envelope.extend(mac);
    envelope
}

/// The envelope of `example` with one byte changed and the MAC made anew.
fn resealed(offset: usize, value: u8) -> Vec<u8> {
    let mut envelope = seal(&example());
    envelope[offset] = value;
    let signed = envelope.len() - 16;
    let mac = mac(&envelope[..signed]);
    envelope[signed..].copy_from_slice(&mac);
    envelope
}

#[test]
fn the_layout_is_the_documented_one() {
    let envelope = seal(&Message::Heartbeat { count: 300 });
    let mut expected = b"RW\x04\x00".to_vec();
    expected.extend([0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01]);
    expected.extend([5, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0]);
    expected.extend([0; 8]);
    expected.extend([0, 0xac, 0x02]);
    expected.extend(mac(&expected));
    assert_eq!(envelope, expected);
}

/// All messages but notices and bundles, and their bodies.
fn plain_messages() -> Vec<(Message, Vec<u8>)> {
    let (source, incarnation, seq, node) = (300, 1, 77, 300);
    let addresses = ["1.2.3.4:300", "1.2.3.5:300", "[102::304]:5"].map(|address| address.parse().unwrap()).to_vec();
    let v6 = [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 5, 1];
    let messages = [
        (Message::Heartbeat { count: 300 }, &[0, 0xac, 2][..]),
        (Message::NewObserver, &[1]),
        (Message::Suspect { node }, &[2, 0xac, 2]),
        (Message::Ack { source, incarnation, seq }, &[4, 0xac, 2, 1, 77]),
        (Message::Probe, &[5]),
        (Message::ProbeReply, &[6]),
        (Message::Verdict, &[7]),
        (Message::Ready, &[8]),
        (Message::ReadyAck, &[9]),
        (Message::Hello { node, port: 5 }, &[10, 0xac, 2, 5]),
        (
            Message::Roster { part: 1, parts: 300, addresses },
            &[&[11, 1, 0xac, 2, 2][..], &[0, 1, 2, 3, 4, 0xac, 2, 2], &v6].concat(),
        ),
        (Message::Spared { node }, &[12, 0xac, 2]),
        (Message::Complete { source, incarnation, seq }, &[13, 0xac, 2, 1, 77]),
        (Message::Done { source, incarnation, seq }, &[14, 0xac, 2, 1, 77]),
        (Message::Leave, &[15]),
        (Message::Records { incarnation, first: 2, sent_us: 3, lines: vec![200, 9] }, &[16, 1, 2, 3, 2, 200, 9]),
        (Message::RecordsHeard { incarnation, count: 300 }, &[17, 1, 0xac, 2]),
        (Message::AllStopped { ranks: 300 }, &[18, 0xac, 2]),
        (Message::JobSuspended, &[19]),
        (Message::Transport { word: vec![200, 9] }, &[20, 2, 200, 9]),
        (Message::NewLife, &[22]),
        (Message::Logger { word: vec![200, 9] }, &[23, 2, 200, 9]),
        (Message::Group { word: vec![200, 9] }, &[24, 2, 200, 9]),
    ];
    messages.map(|(message, body): (_, &[u8])| (message, body.to_vec())).into()
}

#[test]
fn the_bodies_of_all_other_messages_are_the_documented_ones() {
    for (message, body) in plain_messages() {
        let envelope = seal(&message);
        assert_eq!(envelope[32..envelope.len() - 16], body, "{message:?}");
    }
}

#[test]
fn the_body_of_a_notice_is_the_documented_one() {
    let envelope = seal(&example());
    let body = [
        &[3, 4, 1, 77][..],
        // Rank 300 of node 4, ended by signal 9.
        &[1, 0xac, 0x02, 4, 1, 18],
        &[1, 3],
        // 1, 2, 700: none skipped before 2, 697 before 700.
        &[3, 1, 0, 0xb9, 0x05],
        // One silent, two that left.
        &[2, 0, 1, 3, 2],
        &[0xe8, 0x07, 1],
    ];
    assert_eq!(envelope[32..envelope.len() - 16], body.concat());
}

#[test]
fn subjects_and_their_reasons_have_the_documented_numbers() {
    let node = |number, reason| (Subject::Node { node: 5, reason }, vec![0, 5, number]);
    let rank = |bytes: &[u8], reason| (Subject::Rank { rank: 7, node: 5, reason }, [&[1, 7, 5], bytes].concat());
    let subjects = [
        node(0, NodeReason::Silent),
        node(1, NodeReason::Resigned),
        node(2, NodeReason::ConnectionLost),
        node(3, NodeReason::Left),
        // Zigzag: 2 is 4, -1 is 1.
        rank(&[0, 4], RankReason::Exited { status: 2 }),
        rank(&[0, 1], RankReason::Exited { status: -1 }),
        rank(&[1, 18], RankReason::Signaled { signal: 9 }),
        rank(&[2], RankReason::Stopped),
        rank(&[3], RankReason::Reported),
        rank(&[4], RankReason::Early),
        rank(&[5, 22], RankReason::DumpsCore { signal: 11 }),
        (Subject::Doubt, vec![3]),
        (Subject::Grown, vec![4]),
    ];
    let ends = END_REASONS.iter().zip(0..).map(|(&reason, number)| (Subject::End { reason }, vec![2, number]));
    for (subject, bytes) in subjects.into_iter().chain(ends) {
        let Message::Notice(notice) = example() else { panic!("a notice") };
        let envelope = seal(&copy(Notice { subject, ..(*notice).clone() }));
        assert_eq!(envelope[36..36 + bytes.len()], bytes, "{subject:?}");
    }
}

#[test]
fn the_body_of_a_bundle_is_the_documented_one_and_holds_no_other() {
    let ack = Message::Ack { source: 4, incarnation: 1, seq: 77 };
    let packed = pack(vec![(TO, ack), (TO, example()), (TO, Message::Done { source: 4, incarnation: 1, seq: 5 })]);
    let envelope = seal(&packed[0].1);
    let notice = &seal(&example())[32..];
    let notice = &notice[1..notice.len() - 16];
    let body = [&[21, 3][..], &[1, 4, 1, 77], &[0], notice, &[3, 4, 1, 5]].concat();
    assert_eq!((packed.len(), &envelope[32..envelope.len() - 16]), (1, &body[..]));
    assert_eq!(open(&reseal(&body)), Ok((5, packed[0].1.clone())));
    // As deep as a datagram allows.
    for depth in [1, 2, 29_000] {
        assert_eq!(open(&reseal(&[21, 1].repeat(depth))), Err(Rejected::Malformed));
    }
    assert_eq!(open(&reseal(&[&[21, 1][..], &body].concat())), Err(Rejected::Malformed));
    // Far more parts than there are bytes.
    assert_eq!(open(&reseal(&[21, 0xff, 0xff, 0xff, 0xff, 0x0f])), Err(Rejected::Malformed));
}

/// Without the MAC: what a body damaged on its way through a buggy peer that has the key does.
#[test]
fn every_truncation_and_every_flipped_bit_of_an_authentic_body_is_refused_or_another_message() {
    let bundle = pack(vec![(TO, example()), (TO, example())]).remove(0).1;
    for sent in plain_messages().into_iter().map(|(message, _)| message).chain([example(), bundle]) {
        let envelope = seal(&sent);
        let body = &envelope[32..envelope.len() - 16];
        for len in 0..body.len() {
            assert_eq!(open(&reseal(&body[..len])), Err(Rejected::Malformed), "{len} of {sent:?}");
        }
        for bit in 0..body.len() * 8 {
            let mut body = body.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            let opened = open(&reseal(&body));
            let is_harmless = opened.map_or_else(|error| error == Rejected::Malformed, |(_, message)| message != sent);
            assert!(is_harmless, "bit {bit} of {sent:?}");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let envelope = seal(&example());
    for len in 0..envelope.len() {
        assert!(open(&envelope[..len]).is_err(), "{len}");
    }
    assert_eq!(open(&envelope[..47]), Err(Rejected::Truncated));
    assert_eq!(open(&envelope[..48]), Err(Rejected::Forged));
}

#[test]
fn every_flipped_bit_is_refused() {
    let mut envelope = seal(&example());
    for bit in 0..envelope.len() * 8 {
        envelope[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&envelope).is_err(), "bit {bit}");
        envelope[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(open(&envelope), Ok((5, example())));
}

#[test]
fn each_refusal_has_its_reason() {
    let envelope = seal(&example());
    assert_eq!(open(&vec![0; MAX_LEN + 1]), Err(Rejected::Oversized));
    assert_eq!(open(&resealed(0, b'X')), Err(Rejected::NotOurs));
    assert_eq!(open(&resealed(2, 9)), Err(Rejected::Version(9)));
    assert_eq!(open(&resealed(3, 1)), Err(Rejected::Malformed));
    assert_eq!(open(&resealed(32, 99)), Err(Rejected::Malformed));
    // A shorter message in the place of the longer one leaves bytes over.
    assert_eq!(open(&resealed(32, 5)), Err(Rejected::Malformed));
    assert_eq!(Opener::new(JOB + 1, KEY, TO, LIFE).open(&envelope), Err(Rejected::Job));
    assert_eq!(Opener::new(JOB, [8; 32], TO, LIFE).open(&envelope), Err(Rejected::Forged));
    // A verdict that one node was sent must not end another.
    assert_eq!(Opener::new(JOB, KEY, TO + 1, LIFE).open(&envelope), Err(Rejected::Forged));
}

#[test]
fn a_repetition_is_refused_but_overtaking_is_not() {
    let mut sealer = Sealer::new(JOB, KEY, 5, 0);
    let mut envelopes: Vec<_> = (0..1984)
        .map(|count| {
            let mut envelope = vec![];
            sealer.seal(TO, LIFE, &Message::Heartbeat { count }, &mut envelope);
            envelope
        })
        .collect();
    envelopes.reverse();
    let mut opener = Opener::new(JOB, KEY, TO, LIFE);
    assert!(envelopes.iter().all(|envelope| opener.open(envelope).is_ok()));
    assert!(envelopes.iter().all(|envelope| opener.open(envelope) == Err(Rejected::Replayed)));
}

#[test]
fn a_new_life_of_a_sender_replaces_the_old_one_and_nobody_else() {
    let sealed = |me, incarnation| {
        let mut envelope = vec![];
        Sealer::new(JOB, KEY, me, incarnation).seal(TO, LIFE, &Message::Probe, &mut envelope);
        envelope
    };
    let mut opener = Opener::new(JOB, KEY, TO, LIFE);
    assert!(opener.open(&sealed(5, 1)).is_ok());
    assert!(opener.open(&sealed(6, 0)).is_ok());
    assert!(opener.open(&sealed(5, 2)).is_ok());
    assert_eq!(opener.open(&sealed(5, 1)), Err(Rejected::Replayed));
}

#[test]
fn what_was_meant_for_another_life_of_the_receiver_is_refused_once_and_its_sender_known() {
    let sealed = |from, life| {
        let mut envelope = vec![];
        Sealer::new(JOB, KEY, from, 2).seal(TO, life, &Message::Probe, &mut envelope);
        envelope
    };
    let mut opener = Opener::new(JOB, KEY, TO, LIFE);
    assert_eq!(opener.life_of(5), 0);
    for (from, life) in [(5, 0), (6, LIFE - 1), (7, LIFE + 1)] {
        assert_eq!(opener.open(&sealed(from, life)), Err(Rejected::OtherLife(from)));
        assert_eq!(opener.open(&sealed(from, life)), Err(Rejected::Replayed));
        assert_eq!(opener.life_of(from), 2, "it can be answered");
    }
    let mut passed_off = sealed(5, LIFE - 1);
    passed_off[20] += 1;
    assert_eq!(opener.open(&passed_off), Err(Rejected::Forged));
    assert!(opener.open(&sealed(8, LIFE)).is_ok());
}

#[test]
fn forgeries_do_not_use_up_counters() {
    let envelope = seal(&example());
    let mut forged = envelope.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut opener = Opener::new(JOB, KEY, TO, LIFE);
    assert_eq!(opener.open(&forged), Err(Rejected::Forged));
    assert!(opener.open(&envelope).is_ok());
}

#[test]
fn sealing_needs_no_memory_when_there_is_room() {
    let mut buffer = Vec::with_capacity(512);
    let before = buffer.as_ptr();
    let mut sealer = Sealer::new(JOB, KEY, 5, 0);
    for _ in 0..3 {
        sealer.seal(TO, LIFE, &example(), &mut buffer);
    }
    assert_eq!((buffer.as_ptr(), buffer.capacity()), (before, 512));
}

#[test]
fn the_end_of_a_very_large_job_fits() {
    let subject = Subject::End { reason: EndReason::NoSurvivor };
    let dead = (1..50_000).map(|node| node * 5).collect();
    let source = 0;
    let (reasons, universe, route) = (vec![(NodeReason::Silent, 49_999)], 250_000, Route::Circulant);
    let message =
        copy(Notice { source, incarnation: 0, seq: 0, subject, suspector: None, dead, reasons, universe, route });
    assert_eq!(open(&seal(&message)), Ok((5, message)));
}

fn any_node_reason() -> impl Strategy<Value = NodeReason> {
    prop::sample::select(vec![NodeReason::Silent, NodeReason::Resigned, NodeReason::ConnectionLost, NodeReason::Left])
}

fn any_subject(nodes: Range<u32>) -> impl Strategy<Value = Subject> {
    let node_reason = any_node_reason();
    let rank_reason = prop_oneof![
        any::<i32>().prop_map(|status| RankReason::Exited { status }),
        any::<i32>().prop_map(|signal| RankReason::Signaled { signal }),
        Just(RankReason::Stopped),
        Just(RankReason::Reported),
        Just(RankReason::Early),
        any::<i32>().prop_map(|signal| RankReason::DumpsCore { signal })
    ];
    prop_oneof![
        (nodes.clone(), node_reason).prop_map(|(node, reason)| Subject::Node { node, reason }),
        (nodes.clone(), nodes, rank_reason).prop_map(|(rank, node, reason)| Subject::Rank { rank, node, reason }),
        prop::sample::select(END_REASONS.to_vec()).prop_map(|reason| Subject::End { reason }),
        Just(Subject::Doubt),
        Just(Subject::Grown)
    ]
}

/// Any message whatever, about these nodes.
pub fn any_message(nodes: Range<u32>) -> impl Strategy<Value = Message> {
    let id = (nodes.clone(), any::<u32>(), any::<u64>());
    let dead = btree_set(nodes.clone(), 0..20).prop_map(|set| set.into_iter().collect());
    let suspector = proptest::option::of(nodes.clone());
    let reasons = prop::collection::vec((any_node_reason(), 0..9_u32), 0..3);
    let universe = nodes.end.saturating_sub(1)..=nodes.end;
    let route = prop::sample::select(vec![Route::Circulant, Route::Tree, Route::Rescue]);
    let notice = (id.clone(), any_subject(nodes.clone()), suspector, dead, reasons, universe, route).prop_map(
        |((source, incarnation, seq), subject, suspector, dead, reasons, universe, route)| {
            copy(Notice { source, incarnation, seq, subject, suspector, dead, reasons, universe, route })
        },
    );
    let notice = notice.boxed();
    let part = prop_oneof![
        notice.clone(),
        id.clone().prop_map(|(source, incarnation, seq)| Message::Ack { source, incarnation, seq }),
        id.clone().prop_map(|(source, incarnation, seq)| Message::Complete { source, incarnation, seq }),
        id.clone().prop_map(|(source, incarnation, seq)| Message::Done { source, incarnation, seq }),
    ];
    let bundle = vec(part.prop_map(|part| (0, part)), 2..5).prop_map(|parts| pack(parts).remove(0).1);
    prop_oneof![
        any::<u64>().prop_map(|count| Message::Heartbeat { count }),
        bundle,
        Just(Message::NewObserver),
        nodes.clone().prop_map(|node| Message::Suspect { node }),
        nodes.prop_map(|node| Message::Spared { node }),
        notice,
        id.clone().prop_map(|(source, incarnation, seq)| Message::Ack { source, incarnation, seq }),
        id.clone().prop_map(|(source, incarnation, seq)| Message::Complete { source, incarnation, seq }),
        id.prop_map(|(source, incarnation, seq)| Message::Done { source, incarnation, seq }),
        Just(Message::Leave),
        Just(Message::Probe),
        Just(Message::ProbeReply),
        Just(Message::Verdict),
        Just(Message::Ready),
        Just(Message::ReadyAck),
        any::<(u32, u16)>().prop_map(|(node, port)| Message::Hello { node, port }),
        (any::<(u16, u16)>(), vec(any::<std::net::SocketAddr>(), 0..9))
            .prop_map(|((part, parts), addresses)| Message::Roster { part, parts, addresses: plain(addresses) }),
        (any::<(u32, u64, u64)>(), vec(any::<u8>(), 0..99))
            .prop_map(|((incarnation, first, sent_us), lines)| Message::Records { incarnation, first, sent_us, lines }),
        any::<(u32, u64)>().prop_map(|(incarnation, count)| Message::RecordsHeard { incarnation, count }),
        any::<u32>().prop_map(|ranks| Message::AllStopped { ranks }),
        Just(Message::JobSuspended),
        Just(Message::NewLife),
        vec(any::<u8>(), 0..99).prop_map(|word| Message::Transport { word }),
        vec(any::<u8>(), 0..99).prop_map(|word| Message::Logger { word }),
        vec(any::<u8>(), 0..99).prop_map(|word| Message::Group { word }),
    ]
}

/// Flow labels and scopes of IPv6 have no meaning on another host and are not sent.
fn plain(addresses: Vec<std::net::SocketAddr>) -> Vec<std::net::SocketAddr> {
    addresses.into_iter().map(|address| (address.ip(), address.port()).into()).collect()
}

#[test]
fn every_message_comes_out_as_it_went_in() {
    check(300, any_message(0..u32::MAX), |message| assert_eq!(open(&seal(&message)), Ok((5, message))));
}

#[test]
fn any_bytes_are_taken_without_a_panic() {
    check(300, vec(any::<u8>(), 0..200), |bytes| assert!(open(&bytes).is_err()));
}

#[test]
fn any_body_is_taken_without_a_panic() {
    check(1000, vec(any::<u8>(), 0..64), |body| {
        assert!(matches!(open(&reseal(&body)), Ok(_) | Err(Rejected::Malformed)));
    });
}
