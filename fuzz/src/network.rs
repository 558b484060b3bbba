//! What comes from other nodes.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use event_log::logger::round::Position;
use group_client::packet;
use group_client::process::Process;
use group_client::question::Question;
use propagation::wire::{BODY_AT, Opener, Sealer};
use propagation::{
    Action, Config, EndReason, Member, Message, NodeId, NodeReason, RankReason, RingOrder, Strategy, Time,
};
use rdma_heartbeat::history::courier::{Collector, Reporter, Told};
use rdma_heartbeat::history::{Event, History};
use rdma_heartbeat::logger::store::Store;
use rdma_heartbeat::logger::words::{self, Word};
use rdma_heartbeat::logger::writer::{Outcome, Writer};
use rdma_heartbeat::session::rendezvous::{Rendezvous, Step};
use rdma_heartbeat::transport::verbs::words::{Answer, Offer, understand};
use rdma_heartbeat::transport::{AtOnce, Flags, SharedMemory};
use recommended_group::config::Config as GroupConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bytes::Bytes;

const KEY: [u8; 32] = [7; 32];
const JOB: u64 = 1;
const UNIVERSE: u32 = 5;
const MS: Time = Duration::from_millis(1);
/// Most steps of one sequence.
const STEPS: usize = 400;

/// A datagram of a stranger: nobody who lacks the key is believed.
pub fn datagram(bytes: &[u8]) {
    assert!(Opener::new(JOB, KEY, 1, 0).open(bytes).is_err());
}

/// A datagram whose header and MAC are right: it is a message, of whom the header says, once; or it is refused.
pub fn authentic_datagram(bytes: &[u8]) {
    let mut envelope = Vec::new();
    Sealer::new(JOB, KEY, 3, 0).seal(1, 0, &Message::Probe, &mut envelope);
    envelope.truncate(BODY_AT);
    envelope.extend_from_slice(bytes);
    let mac = blake3::Hasher::new_keyed(&KEY).update(&envelope).update(&1_u32.to_le_bytes()).finalize();
    envelope.extend_from_slice(&mac.as_bytes()[..16]);
    let mut opener = Opener::new(JOB, KEY, 1, 0);
    if let Ok((from, message)) = opener.open(&envelope) {
        assert_eq!(from, 3);
        let mut again = Vec::new();
        Sealer::new(JOB, KEY, 3, 1).seal(1, 0, &message, &mut again);
        assert_eq!(opener.open(&again), Ok((3, message)));
    }
    assert!(opener.open(&envelope).is_err());
}

/// Any messages at any time: the machine keeps what it promises, and what it asks for is bounded.
pub fn member(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let Some(kind) = bytes.byte() else { return };
    let me = u32::from(kind) % UNIVERSE;
    let arbiter = if kind & 0x80 == 0 { Some(0) } else { None };
    let strategy = if kind & 0x40 == 0 { Strategy::Circulant } else { Strategy::Tree };
    let backwards = RingOrder::new((0..UNIVERSE).rev().collect()).expect("a permutation");
    let order = if kind & 0x20 == 0 { RingOrder::default() } else { backwards };
    let former = if kind & 0x10 == 0 { None } else { Some((me + 2) % UNIVERSE) };
    let dead = former.filter(|dead| arbiter != Some(*dead));
    let incarnation = u32::from(kind & 0x08 != 0);
    let config = Config { arbiter, strategy, order, incarnation, ..Config::new(me, UNIVERSE, 10 * MS, 100 * MS) };
    let mut member = Member::new(config, dead, Time::ZERO);
    if kind & 0x04 != 0 {
        member.keep_holding(&mut Vec::new());
    }
    let (mut now, mut stops, mut delivered, mut heard) = (Time::ZERO, 0, 0, 0);
    for _ in 0..STEPS {
        let Some((what, pause)) = bytes.byte().zip(bytes.byte()) else { break };
        now += u32::from(pause) * MS;
        let mut out = Vec::new();
        heard += act(&mut member, &mut bytes, what, now, &mut out);
        assert!(out.len() < 10_000, "a single input asks for a few things");
        for action in &out {
            match action {
                // A notice may tell of nodes that have joined.
                Action::Send { to, .. } => assert!(*to != me),
                Action::Stop(_) => stops += 1,
                Action::Deliver(_) => delivered += 1,
                _ => {}
            }
        }
        let is_dead = |node: Option<NodeId>| node.is_some_and(|node| member.dead().any(|death| death.node == node));
        assert!(!is_dead(Some(me)) && !is_dead(arbiter) && !is_dead(member.emitter()) && !is_dead(member.observer()));
    }
    assert_eq!(stops, u32::from(member.is_stopped()));
    // Each node, those that have joined included, the end, and ranks, each of which has cost a message.
    assert!(delivered <= heard + member.config().universe as usize + 1);
}

/// Returns how many messages it was, or other inputs.
fn act(member: &mut Member, bytes: &mut Bytes, what: u8, now: Time, out: &mut Vec<Action>) -> usize {
    let mut count = 1;
    match what {
        0..=9 => member.tick(now, out),
        10 => member.resign(now, out),
        11 => member.ready(now, out),
        12 => member.end(now, EndReason::Finished, out),
        13 => member.declare(now, u32::from(bytes.byte().unwrap_or(0)), NodeReason::ConnectionLost, out),
        14 => member.announce_rank(now, u32::from(bytes.byte().unwrap_or(0)), RankReason::Stopped, out),
        15 => member.leave(now, out),
        16 => member.grow(now, UNIVERSE + u32::from(bytes.byte().unwrap_or(0)), out),
        from => {
            if let Some(message) = bytes.value() {
                if let Message::Bundle(parts) = &message {
                    count = parts.len();
                }
                member.handle(now, u32::from(from) % (UNIVERSE + 1), message, out);
            }
        }
    }
    count
}

/// Any messages while the nodes meet: a roster names every node once, and nobody is asked to send without bound.
pub fn rendezvous(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let Some(kind) = bytes.byte() else { return };
    let place = |number: u8| SocketAddr::from(([10, 0, 1, number], u16::from(number)));
    let (me, node_0) = (u32::from(kind) % UNIVERSE, [place(0), place(7)]);
    let mut rendezvous = Rendezvous::new(me, UNIVERSE, 1, &node_0, Time::ZERO, Duration::from_secs(30));
    for step in 0..STEPS {
        let Some(from) = bytes.byte() else { break };
        let Some(message) = bytes.value::<Message>() else { break };
        let mut out = Vec::new();
        rendezvous.handle(u32::from(from) % (UNIVERSE + 1), place(from), &message, &mut out);
        rendezvous.tick(u32::try_from(step).unwrap_or(0) * MS, &mut out);
        assert!(out.len() <= 2 + 2 * UNIVERSE as usize);
        for done in out {
            if let Step::Complete(roster) = done {
                assert_eq!(roster.len(), UNIVERSE as usize);
                return;
            }
        }
    }
}

/// Any records of another node, and any answers of node 0.
pub fn records(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let (mut collector, mut history) = (Collector::default(), History::new(&crate::local::launch(), 0, None));
    let mut reporter = Reporter::new(0, MS);
    let mut sent = 0;
    for step in 0..STEPS {
        let now = Duration::from_secs(1) + u32::try_from(step).unwrap_or(0) * MS;
        reporter.add(&Told { at_us: 1, host: "h".into(), event: Event::Held });
        reporter.tick(now, |_| sent += 1);
        match bytes.value() {
            Some(Message::Records { incarnation, first, sent_us, lines }) => {
                let add = |at, told: Told| history.add(1, &told.host, at, told.event);
                let answer = collector.take(1, now, (incarnation, first, sent_us), &lines, add);
                assert!(matches!(answer, Message::RecordsHeard { .. }));
            }
            Some(Message::RecordsHeard { count, .. }) => reporter.heard(count),
            Some(_) => {}
            None => break,
        }
    }
    assert!(sent <= 8 * STEPS);
}

/// What a peer says about its RDMA port: it can be said again, and neither a part of it nor more than it is understood.
pub fn offers(bytes: &[u8]) {
    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
        let Ok(word) = understand::<T>(bytes) else { return };
        let again = postcard::to_stdvec(&word).expect("what was read can be written");
        assert_eq!(understand(&again), Ok(word));
        assert!(again.len() <= size_of::<T>() + size_of::<T>() / 4, "numbers take a byte more for each seven bits");
        assert!((0..again.len()).all(|length| understand::<T>(&again[..length]).is_err()));
        assert!(understand::<T>(&[&again[..], &[0]].concat()).is_err());
    }
    check::<Offer>(bytes);
    check::<Answer>(bytes);
}

/// Any words about flags, of both neighbours, and heartbeats between them: nobody who has not raised a flag in the slot
/// is seen to have, and no heartbeat is taken for acknowledged.
pub fn words(bytes: &[u8]) {
    let (mut bytes, address) = (Bytes(bytes), SocketAddr::from(([127, 0, 0, 1], 7)));
    let workshop = Box::new(AtOnce::new(SharedMemory));
    let mut flags = Flags::new(Some(workshop), false, KEY, 2, 0, 100 * MS);
    flags.settle(Some(1), Some(3));
    let mut now = Time::ZERO;
    for _ in 0..STEPS {
        let Some((what, pause)) = bytes.byte().zip(bytes.byte()) else { break };
        now += u32::from(pause) * MS;
        let from = u32::from(what) % UNIVERSE;
        if what & 0x80 == 0 {
            // Itself behind a length, as a datagram carries it.
            let Some(word) = bytes.value::<Vec<u8>>() else { break };
            let _ = flags.take(now, from, address, &word);
        } else {
            let _ = flags.heard(now, from, address);
        }
        while flags.tend(now).is_some() {}
        assert!(!flags.raise(3), "nobody reads them");
        assert_eq!(flags.look(now), None);
    }
    assert_eq!((flags.incoming(), flags.outgoing(), flags.counters().seen), (None, None, 0));
}

/// What another node's event logger says: it can be said again, and neither the node that keeps a sequence nor the
/// writer of one asks for anything without bound.
pub fn logger_words(bytes: &[u8]) {
    let Some(said) = words::read(bytes) else { return };
    let again = words::pack(&said).concat();
    assert_eq!(words::read(&again).as_ref(), Some(&said));
    let who = node_abi::event_loggers::Writer { rank: 1, incarnation: 1, attempt: 0 };
    let (mut writer, mut store) = (Writer::new(who, 1, &[1, 2, 3], false), Store::open(None, true));
    let mut out = Outcome::default();
    writer.take(Time::ZERO, Position::START, &mut out);
    for (step, word) in (0_u32..).zip(said) {
        let mut out = Outcome::default();
        match word {
            Word::Request { rank, output, request } => {
                if let Some(answer) = store.handle(rank, output, request) {
                    assert!(words::pack(&[answer]).concat().len() <= words::MOST_BYTES);
                }
            }
            word => writer.hear(step * MS, 1 + step % 3, word, &mut out),
        }
        writer.tick(step * 20 * MS, &mut out);
        assert!(out.words.len() <= 3 * STEPS && out.packets.len() <= STEPS);
        assert!(out.words.iter().all(|(_, word)| words::pack(std::slice::from_ref(word)).len() == 1));
    }
}

/// What other processes of a group of recommended processes say: it can be said again, and whatever they say, a process
/// keeps a round of which it is a member, and asks for little.
pub fn group_packets(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let Some(me) = bytes.byte().map(|me| u32::from(me) % UNIVERSE) else { return };
    let mut process = Process::new(GroupConfig::new(me, UNIVERSE), Question::new(None), Time::ZERO);
    let mut now = Time::ZERO;
    for _ in 0..STEPS {
        let Some((what, length)) = bytes.byte().zip(bytes.byte()) else { return };
        now += u32::from(what) * 10 * MS;
        let (word, rest) = bytes.0.split_at(usize::from(length).min(bytes.0.len()));
        bytes.0 = rest;
        match what {
            0..32 => process.timer(now),
            32..48 => process.arrive(what % 2 == 0),
            48..52 => process.died(u32::from(length)),
            _ => {
                let Some(said) = packet::read(word, UNIVERSE) else { continue };
                assert_eq!(packet::read(&packet::write(&said), UNIVERSE).as_ref(), Some(&said));
                process.receive(now, u32::from(what) % UNIVERSE, said);
            }
        }
        let work = process.work();
        assert!(work.packets.len() <= STEPS && work.tests.len() < UNIVERSE as usize);
        assert!(work.packets.iter().all(|(to, said)| *to < UNIVERSE && packet::write(said).len() < 1000));
        assert!(process.round().members.contains(me));
    }
}
