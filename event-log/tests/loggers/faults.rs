//! Acceptors, servers and coordinators die and come back.

use event_log::logger::Action;
use event_log::logger::round::{Address, Position};

use super::deployment::{Kind, start, stores, world};
use super::network::{Process, World, determinant};

const RANK: Address = 100;
const REPLACEMENT: Address = 101;
const REPLICATED: [Kind; 4] = [Kind::Classic, Kind::Parallel, Kind::ParallelRemote, Kind::OneSided];

/// A rank that has saved this many.
fn running(kind: Kind, failures: u32, saved: u64) -> World {
    let mut world = world(kind, failures);
    start(&mut world, kind, failures, RANK, 1, true);
    world.settle();
    for id in 1..=saved {
        save(&mut world, RANK, id);
    }
    assert_eq!(world.stable(RANK), saved);
    world
}

/// Saves, and asks again as often as there are servers.
fn save(world: &mut World, at: Address, id: u64) {
    world.save(at, id);
    patience(world, at);
}

fn patience(world: &mut World, at: Address) {
    for _ in 0..8 {
        world.settle();
        world.act(at, |logger, out| logger.retry(out));
        for server in world.processes.clone().into_keys() {
            let mut out = vec![];
            if let (false, Some(Process::Replica(replica))) =
                (world.dead.contains(&server), world.processes.get_mut(&server))
            {
                replica.retry(&mut out);
            }
            world.carry_out(server, 0, out);
        }
    }
    world.settle();
}

/// The coordinator's death is noticed by the next one that lives.
fn take_over(world: &mut World, by: Address) {
    let mut out = vec![];
    world.replica(by).take_over(&mut out);
    world.carry_out(by, 0, out);
    world.settle();
}

/// A process on the node of acceptor `own` takes the rank over.
fn replace(
    world: &mut World,
    kind: Kind,
    failures: u32,
    me: Address,
    own: Address,
    after: Position,
) -> Option<Vec<u64>> {
    start(world, kind, failures, me, own, false);
    patience(world, me);
    world.act(me, |logger, out| logger.recover(after, out));
    patience(world, me);
    world.recovered(me).map(|found| found.iter().map(|one| one.id).collect())
}

#[test]
fn with_f_acceptors_killed_nothing_is_lost_and_nothing_stops() {
    for kind in REPLICATED {
        for f in 1..=2 {
            // The own node's stays; then it is among the dead.
            for dead in [2..=f + 1, 1..=f] {
                let mut world = running(kind, f, 2);
                world.dead.extend(dead.clone());
                if kind == Kind::Classic && dead.contains(&1) {
                    take_over(&mut world, f + 1);
                }
                save(&mut world, RANK, 3);
                assert_eq!(world.stable(RANK), 3, "{kind:?}, {dead:?} of {} dead", 2 * f + 1);
                let found = replace(&mut world, kind, f, REPLACEMENT, 2 * f + 1, Position::START);
                assert_eq!(found, Some(vec![1, 2, 3]), "{kind:?}, {dead:?} dead");
            }
        }
    }
}

#[test]
fn whoever_was_silent_is_asked_last_from_then_on() {
    for kind in [Kind::Parallel, Kind::OneSided, Kind::Classic] {
        let mut world = running(kind, 1, 1);
        world.dead.insert(2);
        save(&mut world, RANK, 2);
        world.sent = 0;
        world.save(RANK, 3);
        world.settle();
        // One of the three is dead, and a save costs no retry and no more messages than before.
        assert_eq!((world.stable(RANK), world.sent), (3, if kind == Kind::Classic { 4 } else { 2 }), "{kind:?}");
    }
}

#[test]
fn with_f_plus_one_killed_it_stops_and_goes_on_when_one_is_back() {
    for kind in REPLICATED {
        let mut world = running(kind, 1, 2);
        world.dead.extend([2, 3]);
        save(&mut world, RANK, 3);
        assert_eq!(world.stable(RANK), 2, "{kind:?} goes on without a quorum");
        assert_eq!(replace(&mut world.clone(), kind, 1, REPLACEMENT, 1, Position::START), None, "{kind:?}");
        // With what it had: its memory survives its process.
        world.dead.remove(&3);
        patience(&mut world, RANK);
        assert_eq!(world.stable(RANK), 3, "{kind:?} does not go on");
        assert_eq!(replace(&mut world, kind, 1, REPLACEMENT, 3, Position::START), Some(vec![1, 2, 3]), "{kind:?}");
    }
}

#[test]
fn the_centralised_logger_blocks_when_it_is_killed() {
    let mut world = running(Kind::Centralised, 0, 2);
    world.dead.insert(1);
    save(&mut world, RANK, 3);
    assert_eq!((world.stable(RANK), world.processes.get_mut(&RANK).unwrap().logger().outstanding()), (2, 1));
}

#[test]
fn a_coordinator_that_dies_is_followed_by_another_that_knows_everything_it_told() {
    let mut world = running(Kind::Classic, 1, 2);
    // Three ranks have commands on their way; one of the acceptors gets only some of them.
    world.save(RANK, 3);
    let command = world.in_flight.remove(0);
    world.hand(command);
    world.dead.insert(1);
    world.in_flight.clear();
    take_over(&mut world, 3);
    assert!(world.replica(3).is_coordinator());
    patience(&mut world, RANK);
    assert_eq!(world.stable(RANK), 3);
    // The first one comes back, and does not know that it was replaced.
    world.dead.clear();
    assert!(world.replica(1).is_coordinator());
    save(&mut world, RANK, 4);
    assert_eq!(world.stable(RANK), 4);
    world.dead.insert(3);
    take_over(&mut world, 2);
    assert_eq!(replace(&mut world, Kind::Classic, 1, REPLACEMENT, 2, Position::START), Some(vec![1, 2, 3, 4]));
}

#[test]
fn the_earlier_process_of_a_rank_can_save_nothing_any_more_and_is_told() {
    for kind in REPLICATED.into_iter().chain([Kind::Centralised]) {
        let failures = u32::from(kind != Kind::Centralised);
        let mut world = running(kind, failures, 2);
        let own = *stores(kind, failures).last().unwrap();
        assert_eq!(
            replace(&mut world, kind, failures, REPLACEMENT, own, Position::START),
            Some(vec![1, 2]),
            "{kind:?}"
        );
        save(&mut world, REPLACEMENT, 3);
        save(&mut world, RANK, 3);
        assert_eq!((world.stable(REPLACEMENT), world.stable(RANK)), (3, 2), "{kind:?}");
        let is_deposed = |(at, action, _): &(Address, Action, u32)| *at == RANK && matches!(action, Action::Deposed(_));
        assert!(world.told.iter().any(is_deposed), "{kind:?}");
        let found = replace(&mut world, kind, failures, REPLACEMENT + 1, own, Position::START);
        assert_eq!(found, Some(vec![1, 2, 3]), "{kind:?}");
        let found = world.recovered(REPLACEMENT + 1).unwrap();
        assert_eq!(found[2], determinant(3, REPLACEMENT), "{kind:?}");
    }
}

#[test]
fn a_recovery_is_larger_than_a_message_and_comes_in_parts() {
    for kind in [Kind::Centralised, Kind::Classic, Kind::Parallel] {
        let failures = u32::from(kind != Kind::Centralised);
        let mut world = running(kind, failures, 0);
        world.act(RANK, |logger, _| {
            (1..=2000).for_each(|id| logger.save(determinant(id, RANK)).expect("it is the next one"));
        });
        world.act(RANK, |logger, out| logger.flush(out));
        patience(&mut world, RANK);
        assert_eq!(world.stable(RANK), 2000, "{kind:?}");
        let own = *stores(kind, failures).last().unwrap();
        let found = replace(&mut world, kind, failures, REPLACEMENT, own, Position::START);
        assert_eq!(found, Some((1..=2000).collect()), "{kind:?}");
    }
}

#[test]
fn what_a_checkpoint_includes_is_removed_and_an_older_checkpoint_is_refused() {
    for kind in REPLICATED.into_iter().chain([Kind::Centralised]) {
        let failures = u32::from(kind != Kind::Centralised);
        let mut world = running(kind, failures, 3);
        let checkpoint = world.processes.get_mut(&RANK).unwrap().logger().stable();
        world.act(RANK, |logger, out| logger.trim(checkpoint.id, out));
        world.settle();
        // More than a region has room for without the trim.
        (4..=7).for_each(|id| save(&mut world, RANK, id));
        assert_eq!(world.stable(RANK), 7, "{kind:?}");
        let own = *stores(kind, failures).last().unwrap();
        let mut other = world.clone();
        assert_eq!(
            replace(&mut world, kind, failures, REPLACEMENT, own, checkpoint),
            Some(vec![4, 5, 6, 7]),
            "{kind:?}"
        );
        assert_eq!(replace(&mut other, kind, failures, REPLACEMENT, own, Position::START), None, "{kind:?}");
        let says =
            |(at, action, _): &(Address, Action, u32)| *at == REPLACEMENT && *action == Action::NewerCheckpoint(3);
        assert!(other.told.iter().any(says), "{kind:?}: {:?}", other.told);
        for process in world.processes.values() {
            let holdings: Vec<_> = match process {
                Process::Server(server) => server.holdings().collect(),
                Process::Replica(replica) => replica.holdings().collect(),
                Process::Acceptors(acceptors) => acceptors.holdings().collect(),
                _ => vec![],
            };
            for holding in holdings {
                assert!(holding.trimmed == 3 && holding.count <= 4, "{kind:?}: {holding:?}");
            }
        }
    }
}

#[test]
fn a_full_region_says_so_and_goes_on_after_a_checkpoint() {
    let mut world = running(Kind::OneSided, 1, 4);
    save(&mut world, RANK, 5);
    assert_eq!(world.stable(RANK), 4);
    assert!(world.told.iter().any(|(_, action, _)| *action == Action::Full));
    world.act(RANK, |logger, out| logger.trim(4, out));
    world.settle();
    assert_eq!(world.stable(RANK), 5);
    let Some(Process::Regions(regions)) = world.processes.get(&1) else { panic!("it has regions") };
    // The first one's slot was used again.
    let holding = regions[&0].holding(0);
    assert_eq!((holding.trimmed, holding.last, holding.count), (1, 5, 4));
}

#[test]
fn in_the_classic_logger_one_rank_that_never_checkpoints_does_not_keep_the_others_entries() {
    use event_log::logger::client::Client;
    let mut world = running(Kind::Classic, 1, 50);
    let other = RANK + 50;
    world.add(other, Process::Client(Client::first(9, other, vec![1, 2, 3])));
    save(&mut world, other, 1);
    world.act(RANK, |logger, out| logger.trim(50, out));
    world.settle();
    let holdings: Vec<_> = world.replica(1).holdings().map(|holding| (holding.rank, holding.count)).collect();
    assert_eq!(holdings, [(0, 0), (9, 1)]);
}

#[test]
fn an_id_out_of_order_is_refused_with_a_sentence() {
    let mut world = running(Kind::Parallel, 1, 2);
    let error = world.processes.get_mut(&RANK).unwrap().logger().save(determinant(5, RANK)).unwrap_err();
    assert_eq!(error.to_string(), "the next determinant to save has id 3, not 5: save them in order");
}

#[test]
fn a_first_process_that_is_replaced_before_it_has_its_regions_stops() {
    let mut world = world(Kind::OneSided, 1);
    start(&mut world, Kind::OneSided, 1, RANK, 1, true);
    let late = std::mem::take(&mut world.in_flight);
    assert_eq!(replace(&mut world, Kind::OneSided, 1, REPLACEMENT, 2, Position::START), Some(vec![]));
    world.in_flight = late;
    patience(&mut world, RANK);
    let is_deposed = |(at, action, _): &(Address, Action, u32)| *at == RANK && matches!(action, Action::Deposed(_));
    assert!(world.told.iter().any(is_deposed) && world.recovered(RANK).is_none());
    save(&mut world, REPLACEMENT, 1);
    assert_eq!(world.stable(REPLACEMENT), 1);
}
