//! What a step of the event loggers' machines takes, without any I/O: `cargo bench -p event-log`.
#![allow(missing_docs)]

use divan::Bencher;
use divan::counter::ItemsCount;
use event_log::determinant::{Determinant, Event};
use event_log::logger::acceptor::Reply;
use event_log::logger::centralised::Server;
use event_log::logger::entry::Entry;
use event_log::logger::group::Group;
use event_log::logger::ledger::{Command, What};
use event_log::logger::message::Message;
use event_log::logger::onesided::Writer;
use event_log::logger::onesided::region::Region;
use event_log::logger::onesided::slot::{decode, encode};
use event_log::logger::parallel::{Acceptors, Proposer};
use event_log::logger::round::Round;
use event_log::logger::{Action, Logger};

/// Determinants in one message.
const BATCHES: [u64; 3] = [1, 10, 100];

fn main() {
    divan::main();
}

fn determinant(id: u64) -> Determinant {
    Determinant { id, event: Event::Receive, communicator: 0, source: 3, tag: 1, request: id, repetitions: 1 }
}

/// The centralised server keeps the determinants of one command.
#[divan::bench(args = BATCHES)]
fn server(bencher: Bencher, batch: u64) {
    let (mut server, mut last) = (Server::default(), 0);
    let writer = Round::first(9);
    bencher.counter(ItemsCount::new(batch)).bench_local(|| {
        let what = What::Save((last + 1..=last + batch).map(determinant).collect());
        last += batch;
        let outcome = server.handle(&Command { rank: 0, writer, what });
        // As after a checkpoint: what is kept stays bounded.
        if last % (100 * batch) == 0 {
            server.handle(&Command { rank: 0, writer, what: What::Trim(last) });
        }
        outcome
    });
}

/// All of one save of the parallel logger but the network: the rank's proposer, its own acceptor and a remote one.
#[divan::bench(args = BATCHES)]
fn parallel(bencher: Bencher, batch: u64) {
    let mut proposer = Proposer::first(0, 9, Group::with_own(1, &[2, 3]));
    let (mut stores, mut last) = ([Acceptors::default(), Acceptors::default(), Acceptors::default()], 0);
    let mut actions = Vec::new();
    bencher.counter(ItemsCount::new(batch)).bench_local(|| {
        for _ in 0..batch {
            last += 1;
            proposer.save(determinant(last)).expect("it is the next one");
        }
        proposer.flush(&mut actions);
        if last % (100 * batch) == 0 {
            proposer.trim(last - batch, &mut actions);
        }
        while let Some(action) = actions.pop() {
            let (Action::Send { to, message } | Action::Store { to, message }) = action else { continue };
            let Message::Request { rank, request } = message else { continue };
            if let Some(reply) = stores[to as usize - 1].handle(rank, request) {
                proposer.handle(to, Message::Reply { rank, reply }, &mut actions);
            }
        }
        assert_eq!(proposer.outstanding(), 0, "it is stable");
    });
}

/// An acceptor accepts the determinants of one request.
#[divan::bench(args = BATCHES)]
fn acceptor(bencher: Bencher, batch: u64) {
    use event_log::logger::acceptor::{Acceptor, Request};
    let (mut acceptor, mut last, round) = (Acceptor::<Entry>::default(), 0, Round::first(9));
    bencher.counter(ItemsCount::new(batch)).bench_local(|| {
        let entry = |id| Entry { origin: round, is_first: false, determinant: determinant(id) };
        let values = (last + 1..=last + batch).map(entry).collect();
        let reply = acceptor.handle(Request::Accept { round, first: last + 1, values });
        last += batch;
        if last % (100 * batch) == 0 {
            acceptor.trim(last);
        }
        assert!(matches!(reply, Some(Reply::Accepted { .. })));
    });
}

/// All of one save of the one-sided logger but the network: the slots, and the copies into two regions.
#[divan::bench(args = BATCHES)]
fn one_sided(bencher: Bencher, batch: u64) {
    let mut actions = Vec::new();
    let mut writer = Writer::first(0, 9, Group::with_own(1, &[2, 3]), &mut actions);
    let (mut regions, mut last) = ([1, 2, 3].map(|_| Region::new(1024)), 0);
    let mut carry_out = |writer: &mut Writer, actions: &mut Vec<Action>| {
        while let Some(action) = actions.pop() {
            let (Action::Send { to, message } | Action::Store { to, message }) = action else { continue };
            let Message::Operation { rank, operation } = message else { continue };
            let completion = regions[to as usize - 1].handle(operation);
            writer.handle(to, Message::Completion { rank, completion }, actions);
        }
    };
    carry_out(&mut writer, &mut actions);
    bencher.counter(ItemsCount::new(batch)).bench_local(|| {
        for _ in 0..batch {
            last += 1;
            writer.save(determinant(last)).expect("it is the next one");
        }
        writer.flush(&mut actions);
        carry_out(&mut writer, &mut actions);
        assert_eq!(writer.outstanding(), 0, "it is stable");
        writer.trim(last, &mut actions);
    });
}

/// The bytes of a slot, written and read.
#[divan::bench]
fn slot(bencher: Bencher) {
    let entry = Entry { origin: Round::first(9), is_first: false, determinant: determinant(5) };
    bencher.bench_local(|| decode(&encode(divan::black_box(Round::first(9)), divan::black_box(&entry))));
}
