//! Event loggers: what ranks save survives as many nodes as the job asks for.

use std::time::Duration;

use crate::cluster::relay::Relay;
use crate::cluster::{Cluster, eventually, launch, sockets};
use event_log::determinant::{Determinant, DeterminantId, Event};
use event_log::logger::round::Position;
use logger_client::{Client, Error};
use node_abi::launch::LaunchData;
use node_abi::segment::Phase;

/// Nobody is declared dead while a test has its daemon killed.
const PATIENT: Duration = Duration::from_secs(60);

fn determinants(ids: std::ops::RangeInclusive<DeterminantId>) -> Vec<Determinant> {
    let one = |id: DeterminantId| Determinant {
        id,
        event: Event::Receive,
        communicator: 1,
        source: (id % 7) as u32,
        tag: -(id as i32),
        request: id * 3,
        repetitions: 1,
    };
    ids.map(one).collect()
}

/// A job with a rank on each node whose loggers survive so many nodes, and in which this process is a rank, too.
fn settings(nodes: usize, failures: u32) -> LaunchData {
    let mut launch = launch(&vec![1; nodes]);
    launch.parameters.timeout = PATIENT;
    launch.parameters.event_loggers = Some(failures);
    launch
}

fn job(launch: LaunchData) -> Cluster {
    let cluster = Cluster::running(launch);
    cluster.nodes.iter().for_each(crate::cluster::Node::be_a_rank);
    cluster
}

/// A rank's process on a node.
fn process(cluster: &Cluster, node: usize) -> Client {
    Client::connect_to(&cluster.nodes[node].logger_name()).unwrap()
}

fn first_process(cluster: &Cluster, rank: u32) -> Client {
    let mut client = process(cluster, rank as usize);
    let taken = client.take(rank, 0, Position::START, || {}).unwrap();
    assert_eq!((taken.determinants.len(), taken.output), (0, 0));
    client
}

fn save(client: &mut Client, ids: std::ops::RangeInclusive<DeterminantId>) {
    let last = *ids.end();
    client.save(&determinants(ids)).unwrap();
    client.wait_stable(last, || {}).unwrap();
}

/// How many determinants of a rank each node keeps.
fn kept(cluster: &Cluster, rank: u32) -> Vec<u64> {
    let of = |node: &crate::cluster::Node| {
        node.report().loggers.iter().filter(|held| held.rank == rank).map(|held| held.determinants).sum()
    };
    cluster.nodes.iter().map(of).collect()
}

#[test]
fn what_is_stable_is_on_the_own_node_and_one_more() {
    let cluster = job(settings(4, 1));
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=1000);
    let kept = kept(&cluster, 1);
    assert_eq!((kept[0], kept[1]), (0, 1000), "loggers are on nodes 1, 2 and 3");
    assert!(kept[2..].contains(&1000), "{kept:?}");
    client.output(77);
    client.wait_output(|| {}).unwrap();
    assert_eq!(client.stable_output(), 77);
}

#[test]
fn nothing_is_stable_that_no_other_node_has() {
    let launch = settings(3, 1);
    let sockets = sockets(&launch);
    let relay = Relay::new(&sockets);
    let mut cluster = Cluster::start_with(launch, Phase::Running, sockets, |_| Some(relay.roster()));
    cluster.wait_until_ready();
    cluster.nodes[1].be_a_rank();
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=10);
    relay.cut_off(&[1]);
    client.save(&determinants(11..=20)).unwrap();
    eventually("the own node has it", || (kept(&cluster, 1)[1] == 20).then_some(()));
    cluster.let_pass(&[0, 1, 2], Duration::from_millis(100));
    assert_eq!(client.stable(), 10);
    relay.cut_off(&[]);
    client.wait_stable(20, || {}).unwrap();
}

#[test]
fn one_lost_logger_of_three_is_no_loss_and_two_stop_a_rank_until_one_is_back() {
    let mut cluster = job(settings(3, 1));
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=10);
    cluster.nodes[2].kill_daemon();
    save(&mut client, 11..=20);
    cluster.nodes[0].kill_daemon();
    client.save(&determinants(21..=30)).unwrap();
    cluster.let_pass(&[1], Duration::from_millis(200));
    assert_eq!(client.stable(), 20);
    cluster.nodes[2].restart_daemon();
    client.wait_stable(30, || {}).unwrap();
}

#[test]
fn a_replacement_on_another_node_finds_all_that_was_stable_after_the_node_died() {
    let mut cluster = job(settings(5, 1));
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=700);
    client.output(4321);
    client.wait_output(|| {}).unwrap();
    cluster.nodes[1].kill_daemon();
    for (incarnation, node) in [(1, 0), (2, 3), (3, 4)] {
        let mut replacement = process(&cluster, node);
        let taken = replacement.take(1, incarnation, Position::START, || {}).unwrap();
        let last = 699 + u64::from(incarnation);
        assert_eq!(taken.determinants, determinants(1..=last));
        assert_eq!(taken.output, 4320 + u64::from(incarnation));
        save(&mut replacement, last + 1..=last + 1);
        replacement.output(taken.output + 1);
        replacement.wait_output(|| {}).unwrap();
    }
}

#[test]
fn who_was_replaced_saves_nothing_any_more() {
    let cluster = job(settings(3, 1));
    let mut old = first_process(&cluster, 1);
    save(&mut old, 1..=5);
    let mut new = process(&cluster, 2);
    assert_eq!(new.take(1, 1, Position::START, || {}).unwrap().determinants, determinants(1..=5));
    old.save(&determinants(6..=6)).unwrap();
    assert_eq!(old.wait_stable(6, || {}), Err(Error::Deposed));
    // Nor under a new connection.
    drop(old);
    let mut old = process(&cluster, 1);
    assert_eq!(old.take(1, 0, Position::START, || {}), Err(Error::Deposed));
    // And nobody is the process with an incarnation that was there.
    drop(new);
    let mut new = process(&cluster, 2);
    assert_eq!(new.take(1, 1, Position::START, || {}), Err(Error::Deposed));
    drop(new);
    let mut new = process(&cluster, 2);
    assert_eq!(new.take(1, 2, Position::START, || {}).unwrap().determinants, determinants(1..=5));
    save(&mut new, 6..=9);
    let mut last = process(&cluster, 0);
    assert_eq!(last.take(1, 3, Position::START, || {}).unwrap().determinants, determinants(1..=9));
}

#[test]
fn datagrams_that_are_lost_or_come_twice_lose_and_double_nothing() {
    let launch = settings(3, 1);
    let sockets = sockets(&launch);
    let relay = Relay::new(&sockets);
    let mut cluster = Cluster::start_with(launch, Phase::Running, sockets, |_| Some(relay.roster()));
    cluster.wait_until_ready();
    cluster.nodes.iter().for_each(crate::cluster::Node::be_a_rank);
    relay.go_bad();
    let mut client = first_process(&cluster, 1);
    for id in 1..=40 {
        save(&mut client, id..=id);
    }
    save(&mut client, 41..=300);
    client.output(9);
    client.wait_output(|| {}).unwrap();
    let mut new = process(&cluster, 2);
    let taken = new.take(1, 1, Position::START, || {}).unwrap();
    assert_eq!((taken.determinants, taken.output), (determinants(1..=300), 9));
}

#[test]
fn a_rank_goes_on_when_the_daemon_of_its_node_is_started_again() {
    let mut cluster = job(settings(3, 1));
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=10);
    // Those that saw this process as a rank of theirs would take it for one that they have to watch.
    cluster.nodes[1].be_no_rank();
    cluster.nodes[1].kill_daemon();
    client.save(&determinants(11..=20)).unwrap();
    cluster.nodes[1].restart_daemon();
    let beats = cluster.nodes[1].segment.beats();
    eventually("it turns", || (cluster.nodes[1].segment.beats() > beats + 1).then_some(()));
    cluster.nodes[1].be_a_rank();
    client.wait_stable(20, || {}).unwrap();
    assert_eq!(kept(&cluster, 1)[1], 20);
    save(&mut client, 21..=30);
    let mut new = process(&cluster, 0);
    assert_eq!(new.take(1, 1, Position::START, || {}).unwrap().determinants, determinants(1..=30));
}

#[test]
fn what_a_checkpoint_has_is_removed_and_a_replacement_begins_behind_it() {
    let cluster = job(settings(3, 1));
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=100);
    let checkpoint = client.position();
    assert_eq!(checkpoint.id, 100);
    save(&mut client, 101..=110);
    client.trim(checkpoint.id);
    eventually("it is removed", || kept(&cluster, 1).iter().all(|kept| *kept <= 10).then_some(()));
    let mut new = process(&cluster, 2);
    assert_eq!(new.take(1, 1, Position::START, || {}), Err(Error::NewerCheckpoint(100)));
    drop(new);
    let mut new = process(&cluster, 0);
    assert_eq!(new.take(1, 2, checkpoint, || {}).unwrap().determinants, determinants(101..=110));
}

#[test]
fn a_rank_is_told_when_too_many_of_its_loggers_are_dead() {
    let mut launch = settings(3, 0);
    launch.parameters.timeout = crate::cluster::TIMEOUT;
    let mut cluster = job(launch);
    let mut client = first_process(&cluster, 1);
    save(&mut client, 1..=10);
    cluster.nodes[1].kill_daemon();
    cluster.expect_node_dead(&[0, 2], 1);
    let mut new = process(&cluster, 2);
    let error = Error::TooFew { living: 0, needed: 1 };
    assert_eq!(new.take(1, 1, Position::START, || {}), Err(error));
}

#[test]
fn a_process_that_is_no_rank_of_the_node_saves_nothing() {
    let cluster = Cluster::running(settings(1, 0));
    let mut stranger = process(&cluster, 0);
    assert_eq!(stranger.take(0, 0, Position::START, || {}), Err(Error::TurnedAway));
    assert_eq!(kept(&cluster, 0), [0]);
}

#[test]
fn a_job_that_does_not_ask_for_loggers_has_none() {
    let cluster = Cluster::running(launch(&[1, 1]));
    assert!(Client::connect_to(&cluster.nodes[0].logger_name()).is_err());
}
