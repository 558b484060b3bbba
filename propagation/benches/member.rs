//! What a member does, by the size of the ring: `cargo bench -p propagation`.

use std::hint::black_box;
use std::sync::Arc;

use divan::Bencher;
use propagation::{Action, Config, Member, Message, NodeReason, Notice, Route, Strategy, Subject, Time, graph};

const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const MS: Time = Time::from_millis(1);

fn main() {
    divan::main();
}

fn member(universe: u32, strategy: Strategy) -> Member {
    let me = universe / 3;
    let config = Config { arbiter: None, strategy, ..Config::new(me, universe, 10 * MS, 100 * MS) };
    let mut member = Member::new(config, [], Time::ZERO);
    member.tick(Time::ZERO, &mut vec![]);
    member
}

/// One heartbeat of the emitter, and this node's own one that goes out with it.
#[divan::bench(args = SIZES)]
fn heartbeat(bencher: Bencher, universe: u32) {
    let mut member = member(universe, Strategy::Circulant);
    let (emitter, mut now, mut out) = (member.emitter().unwrap(), Time::ZERO, Vec::with_capacity(4));
    bencher.bench_local(|| {
        now += 10 * MS;
        member.tick(now, &mut out);
        member.handle(now, emitter, Message::Heartbeat { count: 1 }, &mut out);
        assert_eq!(out.len(), 1, "a heartbeat goes out");
        out.clear();
    });
}

/// A look at all timers, none of which has run out.
#[divan::bench(args = SIZES)]
fn timeout_check(bencher: Bencher, universe: u32) {
    let mut member = member(universe, Strategy::Circulant);
    let mut out = Vec::with_capacity(4);
    bencher.bench_local(|| {
        member.tick(black_box(MS), &mut out);
        black_box(member.next_deadline())
    });
}

/// The neighbours in the circulant graph, with 16 dead.
#[divan::bench(args = SIZES)]
fn neighbours(bencher: Bencher, universe: u32) {
    let dead: Vec<_> = (1..=16).map(|part| part * (universe / 20)).collect();
    bencher.bench_local(|| graph::neighbours(universe, black_box(&dead), 0, black_box(universe / 3)));
}

/// The source of the broadcasts: the member's predecessor, so that in the tree nobody else has more copies to pass on.
fn source(universe: u32) -> u32 {
    universe / 3 - 1
}

fn notice(universe: u32, route: Route) -> Message {
    let node = universe / 2;
    let subject = Subject::Node { node, reason: NodeReason::Silent };
    let (source, dead, reasons) = (source(universe), vec![node], vec![(NodeReason::Silent, 1)]);
    Message::Notice(Arc::new(Notice {
        source,
        incarnation: 0,
        seq: 0,
        subject,
        suspector: None,
        dead,
        reasons,
        universe,
        route,
    }))
}

fn first_copy(bencher: Bencher, universe: u32, strategy: Strategy) {
    let fresh = member(universe, strategy);
    let (news, from) = (notice(universe, strategy.into()), source(universe));
    bencher.with_inputs(|| (fresh.clone(), news.clone(), Vec::<Action>::with_capacity(64))).bench_local_values(
        |(mut member, news, mut out)| {
            member.handle(MS, from, news, &mut out);
            assert!(out.len() as u32 >= universe.ilog2(), "copies go out");
            (member, out)
        },
    );
}

/// The first copy of a notice: believed, acknowledged, and passed on to the neighbours.
#[divan::bench(args = SIZES)]
fn first_copy_circulant(bencher: Bencher, universe: u32) {
    first_copy(bencher, universe, Strategy::Circulant);
}

/// The same in the tree.
#[divan::bench(args = SIZES)]
fn first_copy_tree(bencher: Bencher, universe: u32) {
    first_copy(bencher, universe, Strategy::Tree);
}

/// Every further copy.
#[divan::bench(args = SIZES)]
fn further_copy(bencher: Bencher, universe: u32) {
    let mut member = member(universe, Strategy::Circulant);
    let (news, from, mut out) = (notice(universe, Route::Circulant), source(universe), Vec::with_capacity(64));
    member.handle(MS, from, news.clone(), &mut out);
    bencher.bench_local(|| {
        out.clear();
        member.handle(MS, from, news.clone(), &mut out);
    });
}
