//! Deaths of nodes, of runtime daemons and of `ringwatchd` itself, and a network that falls apart.

use std::time::Instant;

use crate::cluster::relay::Relay;
use crate::cluster::{Cluster, Node, TIMEOUT, eventually, launch, send_signal, sockets, was_killed};
use nix::sys::signal::Signal;
use node_abi::launch::{End, ToDaemon};
use node_abi::segment::{Entry, Phase};
use propagation::{NodeReason, RankReason};

#[test]
fn a_silent_node_is_declared_by_its_observer_after_the_timeout() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1, 1]));
    let begin = Instant::now();
    cluster.nodes[1].kill_daemon();
    assert_eq!(cluster.expect_node_dead(&[0, 2, 3], 1), (NodeReason::Silent, Some(2)));
    let took = begin.elapsed();
    assert!(took > TIMEOUT / 2 && took < TIMEOUT * 2, "{took:?}");
    cluster.expect_ranks_dead(&[0, 2, 3], &[1, 2]);
    // The ring closes over the gap: the next death is seen, too.
    cluster.nodes[2].kill_daemon();
    assert_eq!(cluster.expect_node_dead(&[0, 3], 2), (NodeReason::Silent, Some(3)));
    let report = cluster.nodes[3].report();
    assert_eq!((report.emitter, report.observer), (Some(0), Some(0)));
}

#[test]
fn neighbours_that_die_together_are_all_declared_by_the_observer_behind_them() {
    let mut cluster = Cluster::running(launch(&[1; 7]));
    (2..=5).for_each(|node| cluster.nodes[node].kill_daemon());
    for node in 2..=5 {
        assert_eq!(cluster.expect_node_dead(&[0], node), (NodeReason::Silent, Some(6)));
    }
    (2..=5).for_each(|rank| _ = cluster.expect_ranks_dead(&[0, 1, 6], &[rank]));
    let report = cluster.nodes[6].report();
    assert_eq!((report.emitter, report.observer), (Some(1), Some(0)));
}

#[test]
fn a_restarted_daemon_is_not_missed_and_goes_on_where_the_other_was() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1]));
    for node in 0..3 {
        cluster.nodes[node].kill_daemon();
        cluster.nodes[node].restart_daemon();
    }
    cluster.let_pass(&[0, 1, 2], TIMEOUT * 3);
    cluster.assert_nobody_declared();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
    // A second time, now with a history.
    cluster.nodes[1].kill_daemon();
    cluster.nodes[1].restart_daemon();
    cluster.signal_rank(2, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[2]);
    assert!(cluster.nodes.iter().all(|node| node.deaths().len() == 2));
    assert_eq!(cluster.nodes[1].report().incarnation, 2);
}

#[test]
fn restarted_daemons_that_do_not_know_of_each_others_new_lives_miss_nothing() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1, 1]));
    for _ in 0..2 {
        cluster.nodes.iter_mut().for_each(|node| node.kill_daemon());
        cluster.nodes.iter_mut().for_each(|node| node.restart_daemon());
    }
    cluster.signal_rank(2, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2, 3], &[2]);
    cluster.wait_until_ready();
    cluster.let_pass(&[0, 1, 2, 3], TIMEOUT * 2);
    assert!(cluster.nodes.iter().all(|node| node.deaths() == [Entry::Rank(2)]));
    cluster.nodes[1].kill_daemon();
    assert_eq!(cluster.expect_node_dead(&[0, 2, 3], 1), (NodeReason::Silent, Some(2)));
}

#[test]
fn nodes_meet_although_the_first_daemon_of_node_0_has_died() {
    let mut launch = launch(&[1, 1, 1]);
    let mut sockets = sockets(&launch).into_iter();
    let first = sockets.next().unwrap();
    launch.rendezvous = vec![first.local_addr().unwrap()];
    let mut first = Node::start(&launch, 0, first, None, Phase::Running);
    first.kill_daemon();
    first.restart_daemon();
    let others = (1..).zip(sockets).map(|(me, socket)| Node::start(&launch, me, socket, None, Phase::Running));
    let mut cluster = Cluster { nodes: std::iter::once(first).chain(others).collect(), launch };
    cluster.wait_until_ready();
    cluster.assert_nobody_declared();
}

#[test]
fn node_0_knows_after_a_restart_who_was_ready_before() {
    let mut cluster = Cluster::start(launch(&[1, 1, 1]), Phase::Initialising);
    let enters = |cluster: &Cluster, rank: usize| {
        let node = &cluster.nodes[rank];
        node.segment.enter(0, node.ranks[&node.me].id(), Phase::Running);
    };
    enters(&cluster, 2);
    let segment = &cluster.nodes[0].segment;
    eventually("node 0 has heard", || (0..segment.len()).find(|at| segment.entry(*at) == Some(Entry::Ready(2))));
    cluster.nodes[0].kill_daemon();
    cluster.nodes[0].restart_daemon();
    enters(&cluster, 0);
    enters(&cluster, 1);
    cluster.wait_until_ready();
}

#[test]
fn what_a_restarted_daemon_announces_is_not_taken_for_old_news() {
    let mut launch = launch(&[1, 1, 1]);
    // So that node 0 announces a rank that it will not announce again after its restart.
    launch.ranks_register = false;
    let mut cluster = Cluster::running(launch);
    cluster.nodes[0].tell(&ToDaemon::RankLost { rank: 1, reason: RankReason::Reported });
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
    cluster.nodes[0].kill_daemon();
    cluster.nodes[0].restart_daemon();
    cluster.signal_rank(0, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[0]);
}

#[test]
fn a_rank_that_dies_while_the_daemon_is_away_is_found() {
    let mut cluster = Cluster::running(launch(&[1, 1]));
    cluster.nodes[1].kill_daemon();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.rank_end(1);
    cluster.nodes[1].restart_daemon();
    cluster.expect_ranks_dead(&[0, 1], &[1]);
}

#[test]
fn a_lost_prted_takes_its_node_down_at_once() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1]));
    let begin = Instant::now();
    send_signal(&cluster.nodes[1].runtime, Signal::SIGKILL);
    assert_eq!(cluster.expect_node_dead(&[0, 2], 1), (NodeReason::Resigned, None));
    let took = begin.elapsed();
    assert!(took < TIMEOUT, "{took:?}");
    cluster.expect_ranks_dead(&[0, 2], &[1, 2]);
    for rank in [1, 2] {
        assert!(was_killed(cluster.rank_end(rank)));
    }
    assert!(cluster.nodes[1].daemon_exit().success());
    assert!(cluster.rank_lives(0) && cluster.rank_lives(3));
}

#[test]
fn a_stopped_prted_is_killed_and_its_node_lost() {
    let mut launch = launch(&[1, 1]);
    launch.parameters.stop_timeout = Some(TIMEOUT);
    let mut cluster = Cluster::running(launch);
    // Stopping mpirun itself is the user's right.
    send_signal(&cluster.nodes[0].runtime, Signal::SIGSTOP);
    send_signal(&cluster.nodes[1].runtime, Signal::SIGSTOP);
    assert_eq!(cluster.expect_node_dead(&[0], 1).0, NodeReason::Resigned);
    assert!(was_killed(cluster.nodes[1].runtime_end()));
    assert!(was_killed(cluster.rank_end(1)));
    cluster.let_pass(&[0], TIMEOUT * 2);
    assert!(cluster.nodes[0].runtime_lives() && cluster.rank_lives(0));
}

#[test]
fn a_connection_that_the_runtime_lost_is_the_end_of_the_node() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1]));
    cluster.nodes[0].tell(&ToDaemon::ConnectionLost(2));
    assert_eq!(cluster.expect_node_dead(&[0, 1], 2), (NodeReason::ConnectionLost, None));
    assert_eq!(cluster.nodes[2].expect_end().0, End::DeclaredDead);
    assert!(was_killed(cluster.rank_end(2)));
    assert!(was_killed(cluster.nodes[2].runtime_end()));
    assert!(cluster.nodes[2].daemon_exit().success());
}

#[test]
fn a_daemon_that_was_stopped_for_too_long_ends_its_node_when_it_wakes() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1]));
    send_signal(&cluster.nodes[1].daemon, Signal::SIGSTOP);
    assert_eq!(cluster.expect_node_dead(&[0, 2], 1), (NodeReason::Silent, Some(2)));
    assert!(cluster.rank_lives(1));
    send_signal(&cluster.nodes[1].daemon, Signal::SIGCONT);
    assert_eq!(cluster.nodes[1].expect_end().0, End::DeclaredDead);
    assert!(was_killed(cluster.rank_end(1)));
    assert!(was_killed(cluster.nodes[1].runtime_end()));
}

#[test]
fn of_two_halves_only_the_one_with_prterun_goes_on() {
    let launch = launch(&[1, 1, 1, 1]);
    let sockets = sockets(&launch);
    let relay = Relay::new(&sockets);
    let mut cluster = Cluster::start_with(launch, Phase::Running, sockets, |_| Some(relay.roster()));
    cluster.wait_until_ready();
    let begin = Instant::now();
    relay.cut_off(&[2, 3]);
    // While it is not known which side goes on, the ranks of this one wait.
    for node in [2, 3] {
        let pid = cluster.nodes[node].ranks[&(node as u32)].id();
        eventually("a rank without contact is held", || is_stopped(pid).then_some(()));
    }
    for node in [2, 3] {
        assert_eq!(cluster.nodes[node].expect_end().0, End::CutOff);
        assert!(was_killed(cluster.rank_end(node as u32)));
    }
    let took = begin.elapsed();
    assert!(took < TIMEOUT * 2 + TIMEOUT / 2, "{took:?}");
    for node in [2, 3] {
        assert!(was_killed(cluster.nodes[node].runtime_end()));
        assert!(cluster.nodes[node].daemon_exit().success());
        assert_eq!(cluster.nodes[node].deaths(), [], "nobody was declared on the side that was cut off");
        cluster.expect_node_dead(&[0, 1], node as u32);
    }
    // A healed link does not bring the dead back, and those who live go on.
    relay.cut_off(&[]);
    cluster.let_pass(&[0, 1], TIMEOUT * 3);
    assert!(cluster.rank_lives(0) && cluster.rank_lives(1));
    let deaths = cluster.nodes[0].deaths();
    assert_eq!(deaths.len(), 4, "{deaths:?}");
    let report = cluster.nodes[0].report();
    assert_eq!((report.emitter, report.observer), (Some(1), Some(1)));
}

fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

#[test]
fn the_loss_of_prteruns_node_ends_all_others() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1]));
    let begin = Instant::now();
    cluster.nodes[0].kill_daemon();
    for node in [1, 2] {
        assert_eq!(cluster.nodes[node].expect_end().0, End::CutOff);
        assert!(was_killed(cluster.rank_end(node as u32)));
    }
    let took = begin.elapsed();
    assert!(took < TIMEOUT * 2 + TIMEOUT / 2, "{took:?}");
}
