//! What a member costs in memory, counted at the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use propagation::wire::{Opener, Sealer};
use propagation::{Action, Config, Member, Message, NodeId, NodeReason, Notice, Strategy, Subject, Time};

const MS: Time = Time::from_millis(1);

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        HELD.set(HELD.get() + layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `work` returns, the number of its allocations, and by how many bytes it changed what is held.
fn count<T>(work: impl FnOnce() -> T) -> (T, usize, isize) {
    let (allocations, held) = (ALLOCATIONS.get(), HELD.get());
    let result = work();
    (result, ALLOCATIONS.get() - allocations, HELD.get() - held)
}

fn member(me: NodeId, universe: u32, arbiter: Option<NodeId>) -> Member {
    Member::new(Config { arbiter, ..Config::new(me, universe, 10 * MS, 100 * MS) }, [], Time::ZERO)
}

/// A member that exchanges heartbeats for 1000 periods.
fn idle(member: &mut Member, out: &mut Vec<Action>) {
    let emitter = member.emitter().unwrap();
    for period in 1..=1000 {
        let now = 10 * MS * period;
        member.tick(now, out);
        member.handle(now + MS, emitter, Message::Heartbeat { count: u64::from(period) }, out);
        assert!(out.iter().any(|action| matches!(action, Action::Send { message: Message::Heartbeat { .. }, .. })));
        out.clear();
    }
}

#[test]
fn heartbeats_cost_no_allocation_in_a_ring_of_any_size() {
    let mut out = Vec::with_capacity(4);
    for universe in [1_000, 10_000, 100_000, 1_000_000] {
        for arbiter in [None, Some(0)] {
            let (mut member, allocations, held) = count(|| member(universe / 2, universe, arbiter));
            assert_eq!((allocations, held), (0, 0), "a new member of {universe}");
            let ((), allocations, held) = count(|| idle(&mut member, &mut out));
            assert_eq!((allocations, held), (0, 0), "1000 periods in a ring of {universe}");
        }
    }
}

#[test]
fn a_heartbeat_as_bytes_costs_no_allocation_either() {
    let (mut sealer, mut opener) = (Sealer::new(1, [7; 32], 5, 0), Opener::new(1, [7; 32], 6, 0));
    let mut buffer = Vec::with_capacity(64);
    let mut pass = |number| {
        let heartbeat = Message::Heartbeat { count: number };
        sealer.seal(6, 0, &heartbeat, &mut buffer);
        assert_eq!(opener.open(&buffer), Ok((5, heartbeat)));
    };
    // With the first one the receiver begins to remember what it had from this sender.
    pass(0);
    let ((), allocations, held) = count(|| (1..=1000).for_each(pass));
    assert_eq!((allocations, held), (0, 0));
}

#[test]
fn what_refuses_repeated_datagrams_grows_with_those_who_sent_some() {
    for senders in [1, 40, 1000] {
        let (_opener, _, held) = count(|| {
            let (mut opener, mut buffer) = (Opener::new(1, [7; 32], u32::MAX, 0), vec![]);
            for sender in 0..senders {
                Sealer::new(1, [7; 32], sender, 0).seal(u32::MAX, 0, &Message::Probe, &mut buffer);
                assert!(opener.open(&buffer).is_ok());
            }
            opener
        });
        println!("{senders} senders: {held} bytes");
        assert!(held <= 600 * senders as isize + 3000);
    }
}

#[test]
fn memory_grows_with_the_dead_and_not_with_the_ring() {
    for deaths in [1, 10, 100, 1000] {
        let bytes = bytes_after(1_000_000, deaths);
        println!("{deaths} deaths: {bytes} bytes");
        assert_eq!(bytes, bytes_after(10_000, deaths));
        assert!(bytes <= 120 * deaths as usize + 1000, "{bytes} bytes for {deaths} deaths");
    }
}

/// The bytes that a member holds which declared so many deaths, all copies of which were acknowledged.
fn bytes_after(universe: u32, deaths: u32) -> usize {
    let (_member, _, held) = count(|| {
        let mut member = member(0, universe, None);
        for death in 0..deaths {
            let mut out = vec![];
            member.declare(MS, 2 + 3 * death, NodeReason::ConnectionLost, &mut out);
            for action in std::mem::take(&mut out) {
                if let Action::Send { to, message: Message::Notice(notice) } = action {
                    let (source, incarnation, seq) = (notice.source, notice.incarnation, notice.seq);
                    member.handle(MS, to, Message::Ack { source, incarnation, seq }, &mut out);
                }
            }
        }
        member
    });
    usize::try_from(held).unwrap()
}

#[test]
fn who_only_hears_of_deaths_remembers_no_more_over_either_graph() {
    for strategy in [Strategy::Circulant, Strategy::Tree] {
        for deaths in [1, 10, 100, 1000] {
            let bytes = bytes_after_hearing(1_000_000, deaths, strategy);
            println!("{strategy:?}, {deaths} deaths: {bytes} bytes");
            assert_eq!(bytes, bytes_after_hearing(10_000, deaths, strategy));
            assert!(bytes <= 120 * deaths as usize + 1000, "{bytes} bytes for {deaths} deaths");
        }
    }
}

/// The bytes that a member holds which passed so many deaths on, each of which is done with.
fn bytes_after_hearing(universe: u32, deaths: u32, strategy: Strategy) -> usize {
    const SOURCE: NodeId = 3;
    let (_member, _, held) = count(|| {
        let config = Config { arbiter: None, strategy, ..Config::new(4, universe, 10 * MS, 100 * MS) };
        let mut member = Member::new(config, [], Time::ZERO);
        for seq in 0..deaths {
            let dead: Vec<NodeId> = (0..=seq).map(|death| 6 + 3 * death).collect();
            let subject = Subject::Node { node: dead[seq as usize], reason: NodeReason::ConnectionLost };
            let (incarnation, seq, route) = (0, u64::from(seq), strategy.into());
            let notice = Notice {
                source: SOURCE,
                incarnation,
                seq,
                subject,
                suspector: None,
                reasons: vec![(NodeReason::ConnectionLost, dead.len() as u32)],
                dead,
                universe,
                route,
            };
            let mut out = vec![];
            member.handle(MS, SOURCE, Message::Notice(notice.into()), &mut out);
            for action in std::mem::take(&mut out) {
                let Action::Send { to, message: Message::Notice(_) } = action else { continue };
                let answer = match strategy {
                    Strategy::Circulant => Message::Ack { source: SOURCE, incarnation, seq },
                    Strategy::Tree => Message::Complete { source: SOURCE, incarnation, seq },
                };
                member.handle(MS, to, answer, &mut out);
            }
            if strategy == Strategy::Tree {
                member.handle(MS, SOURCE, Message::Done { source: SOURCE, incarnation, seq }, &mut out);
            }
        }
        assert_eq!(member.dead().count(), deaths as usize);
        member
    });
    usize::try_from(held).unwrap()
}
