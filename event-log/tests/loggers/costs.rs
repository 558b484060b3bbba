//! Delays and messages of one save in a good run, beside table 5.1 of the thesis.

use event_log::logger::Action;

use super::deployment::{Kind, start, world};
use super::network::{World, determinant};

const RANK: u32 = 100;

/// A rank that has saved its first determinant.
fn running(kind: Kind, failures: u32) -> World {
    let mut world = world(kind, failures);
    start(&mut world, kind, failures, RANK, 1, true);
    world.settle();
    world.save(RANK, 1);
    world.settle();
    assert_eq!(world.stable(RANK), 1, "{kind:?}");
    (world.sent, world.told) = (0, vec![]);
    world
}

/// Delays and messages until determinants up to `last` are stable.
fn cost(mut world: World, last: u64) -> (u32, u32) {
    for id in 2..=last {
        world.act(RANK, |logger, _| logger.save(determinant(id, RANK)).expect("it is the next one"));
    }
    world.act(RANK, |logger, out| logger.flush(out));
    let mut delays = None;
    while delays.is_none() {
        let letter = world.in_flight.remove(0);
        world.hand(letter);
        let is_stable = |(_, action, delays): &(u32, Action, u32)| (*action == Action::Stable(last)).then_some(*delays);
        delays = world.told.iter().find_map(is_stable);
    }
    world.settle();
    (delays.expect("it is stable"), world.sent)
}

#[test]
fn delays_and_messages_are_those_of_the_thesis_for_every_number_of_failures() {
    assert_eq!(cost(running(Kind::Centralised, 0), 2), (2, 2));
    for f in 1..=4 {
        assert_eq!(cost(running(Kind::Classic, f), 2), (4, 2 * f + 2), "classic, f = {f}");
        assert_eq!(cost(running(Kind::Parallel, f), 2), (2, 2 * f), "parallel, f = {f}");
        assert_eq!(cost(running(Kind::ParallelRemote, f), 2), (2, 2 * (f + 1)), "no acceptor here, f = {f}");
        // A write and its completion, and nobody at the acceptor does anything.
        assert_eq!(cost(running(Kind::OneSided, f), 2), (2, 2 * f), "one-sided, f = {f}");
    }
}

#[test]
fn other_ranks_add_nothing_to_the_cost_of_one() {
    for (kind, expected) in [(Kind::Centralised, (2, 2)), (Kind::Classic, (4, 4)), (Kind::Parallel, (2, 2))] {
        for ranks in [2, 16] {
            let mut world = running(kind, 1);
            let mut sent = 0;
            for rank in RANK + 1..RANK + ranks {
                // Addresses tell ranks apart here; the rank number does too.
                start_rank(&mut world, kind, rank);
                world.save(rank, 1);
                world.settle();
                sent = world.sent;
            }
            assert_eq!(sent, (ranks - 1) * expected.1, "{kind:?}");
            world.sent = 0;
            assert_eq!(cost(world, 2), expected, "{kind:?}");
        }
    }
}

fn start_rank(world: &mut World, kind: Kind, rank: u32) {
    use super::network::Process;
    use event_log::logger::client::Client;
    use event_log::logger::group::Group;
    use event_log::logger::parallel::Proposer;
    let process = match kind {
        Kind::Centralised => Process::Client(Client::first(rank, rank, vec![1])),
        Kind::Classic => Process::Client(Client::first(rank, rank, vec![1, 2, 3])),
        _ => Process::Proposer(Proposer::first(rank, rank, Group::with_own(1, &[2, 3]))),
    };
    world.add(rank, process);
}

#[test]
fn what_was_gathered_since_the_last_send_costs_as_much_as_one_determinant() {
    for kind in [Kind::Centralised, Kind::Classic, Kind::Parallel, Kind::OneSided] {
        let last = if kind == Kind::OneSided { 4 } else { 100 };
        assert_eq!(cost(running(kind, 1), last), cost(running(kind, 1), 2), "{kind:?}");
    }
}

#[test]
fn nothing_is_sent_before_the_rank_sends() {
    for kind in [Kind::Centralised, Kind::Classic, Kind::Parallel, Kind::OneSided] {
        let mut world = running(kind, 1);
        world.act(RANK, |logger, _| logger.save(determinant(2, RANK)).expect("it is the next one"));
        assert_eq!((world.sent, world.in_flight.len()), (0, 0));
        world.act(RANK, |logger, out| {
            assert_eq!(logger.outstanding(), 1);
            logger.flush(out);
            // Once: what is under way is not sent again with every send.
            let sent = out.len();
            logger.flush(out);
            assert_eq!(out.len(), sent);
        });
        world.settle();
        assert_eq!(world.stable(RANK), 2);
    }
}
