//! Deaths of ranks: who dies is known on every node, and nobody else is held dead.

use std::time::{Duration, Instant};

use crate::cluster::{
    Cluster, LIMIT, Node, PERIOD, TIMEOUT, eventually, launch, send_signal, sleeper, sockets, was_killed,
};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use node_abi::launch::{LaunchData, ToDaemon};
use node_abi::segment::{FLAG_ALL_READY, Phase};
use propagation::{Message, RankReason};
use rdma_heartbeat::session::network::Network;
use rdma_heartbeat::transport::Udp;

const STOP_TIMEOUT: Duration = Duration::from_millis(200);

fn with_stop_timeout(ranks_per_node: &[u32]) -> LaunchData {
    let mut launch = launch(ranks_per_node);
    launch.parameters.stop_timeout = Some(STOP_TIMEOUT);
    launch
}

#[test]
fn a_killed_rank_is_known_everywhere_long_before_the_timeout() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1]));
    let begin = Instant::now();
    cluster.signal_rank(2, Signal::SIGKILL);
    let why = cluster.expect_ranks_dead(&[0, 1, 2], &[2]);
    let took = begin.elapsed();
    assert!(took < TIMEOUT, "{took:?}");
    assert_eq!(why, "rank 2 on node 1 (h2) is dead: the process was killed by signal 9");
    for rank in [0, 1, 3] {
        assert!(cluster.rank_lives(rank));
    }
}

#[test]
fn an_exit_without_finalize_is_a_death_and_one_after_it_is_none() {
    let mut cluster = Cluster::running(launch(&[1, 2]));
    let node = &cluster.nodes[1];
    node.segment.enter(0, node.ranks[&1].id(), Phase::Finalised);
    cluster.signal_rank(1, Signal::SIGTERM);
    cluster.rank_end(1);
    cluster.signal_rank(2, Signal::SIGTERM);
    assert_eq!(
        cluster.expect_ranks_dead(&[0, 1], &[2]),
        "rank 2 on node 1 (h2) is dead: the process was killed by signal 15"
    );
    assert_eq!(cluster.nodes[0].deaths().len(), 1);
}

#[test]
fn several_deaths_at_once_are_all_known() {
    let mut cluster = Cluster::running(launch(&[2, 2, 2]));
    for rank in [1, 2, 4] {
        cluster.signal_rank(rank, Signal::SIGKILL);
    }
    for rank in [1, 2, 4] {
        cluster.expect_ranks_dead(&[0, 1, 2], &[rank]);
    }
}

/// Node 1 is the test.
#[test]
fn deaths_found_in_one_turn_leave_in_one_datagram() {
    let mut launch = launch(&[1, 40]);
    launch.ranks_register = false;
    launch.parameters.timeout = LIMIT;
    let mut sockets = sockets(&launch);
    let roster: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let mut other = Network::new(Box::new(Udp::new(sockets.remove(1).into()).unwrap()), &launch, 1, 0);
    other.set_roster(&roster);
    let mut node = Node::start(&launch, 0, sockets.remove(0), Some(roster), Phase::Running);
    eventually("all ranks are ready", || {
        other.send(0, &Message::Ready);
        (node.segment.flags() & FLAG_ALL_READY != 0).then_some(())
    });
    let daemon = Pid::from_raw(node.daemon.id().try_into().unwrap());
    send_signal(&node.daemon, Signal::SIGSTOP);
    assert!(matches!(waitpid(daemon, Some(WaitPidFlag::WUNTRACED)), Ok(WaitStatus::Stopped(..))));
    for rank in 1..=40 {
        node.tell(&ToDaemon::RankLost { rank, reason: RankReason::Reported });
    }
    send_signal(&node.daemon, Signal::SIGCONT);
    let copies = eventually("a copy arrives", || match other.receive()? {
        Some((0, _, Message::Notice(_))) => Some(1),
        Some((0, _, Message::Bundle(parts))) => Some(parts.len()),
        _ => None,
    });
    assert_eq!(copies, 40);
}

#[test]
fn a_stopped_rank_is_declared_and_killed() {
    let mut cluster = Cluster::running(with_stop_timeout(&[1, 1]));
    let begin = Instant::now();
    cluster.signal_rank(1, Signal::SIGSTOP);
    let why = cluster.expect_ranks_dead(&[0, 1], &[1]);
    assert!(begin.elapsed() >= STOP_TIMEOUT);
    assert_eq!(why, "rank 1 on node 1 (h2) is dead: the process was stopped");
    assert!(was_killed(cluster.rank_end(1)));
    assert!(cluster.rank_lives(0));
}

#[test]
fn a_short_stop_is_no_death() {
    let mut cluster = Cluster::running(with_stop_timeout(&[1, 1]));
    for _ in 0..3 {
        cluster.signal_rank(1, Signal::SIGSTOP);
        cluster.let_pass(&[1], STOP_TIMEOUT / 3);
        cluster.signal_rank(1, Signal::SIGCONT);
        cluster.let_pass(&[1], STOP_TIMEOUT / 3);
    }
    cluster.assert_nobody_declared();
}

#[test]
fn a_traced_rank_is_not_held_dead_by_a_stop() {
    let mut cluster = Cluster::running(with_stop_timeout(&[1, 2]));
    let traced = Pid::from_raw(cluster.nodes[1].ranks[&1].id() as i32);
    ptrace::attach(traced).unwrap();
    assert!(matches!(waitpid(traced, None), Ok(WaitStatus::Stopped(..))));
    // The other one is stopped later and not traced: when it is declared, the first has had its time twice.
    cluster.let_pass(&[1], STOP_TIMEOUT);
    cluster.signal_rank(2, Signal::SIGSTOP);
    cluster.expect_ranks_dead(&[0, 1], &[2]);
    assert_eq!(cluster.nodes[0].deaths().len(), 1);
    assert!(cluster.rank_lives(1));
    ptrace::detach(traced, None).unwrap();
}

#[test]
fn what_the_runtime_reports_of_ranks_that_do_not_register_is_announced_once() {
    let mut launch = launch(&[1, 1, 1]);
    launch.ranks_register = false;
    let mut cluster = Cluster::running(launch);
    let reason = RankReason::Exited { status: 3 };
    for rank in [2, 2, 99] {
        cluster.nodes[0].tell(&ToDaemon::RankLost { rank, reason });
    }
    let why = cluster.expect_ranks_dead(&[0, 1, 2], &[2]);
    assert_eq!(why, "rank 2 on node 2 (h3) is dead: the process exited with status 3");
    // What is held dead is dead.
    assert!(was_killed(cluster.rank_end(2)));
    cluster.let_pass(&[0, 1, 2], PERIOD * 5);
    assert!(cluster.nodes.iter().all(|node| node.deaths().len() == 1));
}

#[test]
fn a_rank_that_has_left_the_runtime_and_lives_on_is_ended() {
    let mut cluster = Cluster::running(launch(&[1, 2]));
    cluster.nodes[1].tell(&ToDaemon::RankLost { rank: 2, reason: RankReason::Reported });
    let why = cluster.expect_ranks_dead(&[0, 1], &[2]);
    assert_eq!(why, "rank 2 on node 1 (h2) is dead: the process was reported as failed");
    assert!(was_killed(cluster.rank_end(2)));
}

#[test]
fn how_a_rank_ends_that_has_just_left_the_runtime_is_seen() {
    let mut cluster = Cluster::running(launch(&[1, 2]));
    cluster.nodes[1].tell(&ToDaemon::RankLost { rank: 2, reason: RankReason::Reported });
    cluster.signal_rank(2, Signal::SIGTERM);
    let why = cluster.expect_ranks_dead(&[0, 1], &[2]);
    assert_eq!(why, "rank 2 on node 1 (h2) is dead: the process was killed by signal 15");
}

#[test]
fn a_rank_that_registers_is_left_to_its_own_node() {
    let mut cluster = Cluster::running(launch(&[1, 2]));
    // It has finalised, which prterun cannot know.
    let node = &cluster.nodes[1];
    node.segment.enter(0, node.ranks[&1].id(), Phase::Finalised);
    let reason = RankReason::Exited { status: 1 };
    for rank in [1, 2] {
        cluster.nodes[0].tell(&ToDaemon::RankLost { rank, reason });
    }
    cluster.let_pass(&[0, 1], PERIOD * 3);
    cluster.assert_nobody_declared();
    for rank in [1, 2] {
        cluster.nodes[1].tell(&ToDaemon::RankLost { rank, reason });
    }
    cluster.expect_ranks_dead(&[0, 1], &[2]);
    assert!(was_killed(cluster.rank_end(2)));
    assert_eq!(cluster.nodes[0].deaths().len(), 1);
    assert!(cluster.rank_lives(1));
}

#[test]
fn a_slot_cannot_be_used_to_have_the_runtime_killed() {
    let mut cluster = Cluster::start(launch(&[1, 2]), Phase::Unknown);
    let node = &cluster.nodes[1];
    node.segment.enter(0, node.runtime.id(), Phase::Running);
    node.segment.enter(1, node.ranks[&2].id(), Phase::Running);
    let node = &cluster.nodes[0];
    node.segment.enter(0, node.ranks[&0].id(), Phase::Running);
    cluster.wait_until_ready();
    let reason = RankReason::Reported;
    cluster.nodes[1].tell(&ToDaemon::RankLost { rank: 1, reason });
    cluster.nodes[1].tell(&ToDaemon::RankLost { rank: 2, reason });
    cluster.expect_ranks_dead(&[0, 1], &[1]);
    cluster.expect_ranks_dead(&[0, 1], &[2]);
    assert!(was_killed(cluster.rank_end(2)));
    assert!(cluster.nodes[1].runtime_lives());
    assert!(cluster.rank_lives(1));
}

#[test]
fn a_job_on_one_node_needs_no_network() {
    let mut cluster =
        Cluster::start_with(launch(&[2]), Phase::Running, crate::cluster::sockets(&launch(&[2])), |_| None);
    cluster.wait_until_ready();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0], &[1]);
    cluster.nodes[0].tell(&ToDaemon::Finished);
    assert!(cluster.nodes[0].daemon_exit().success());
    assert!(cluster.rank_lives(0));
}

#[test]
fn a_rank_that_registers_late_is_watched() {
    let mut cluster = Cluster::start(launch(&[1, 1]), Phase::Unknown);
    cluster.let_pass(&[0, 1], PERIOD * 3);
    for node in &cluster.nodes {
        node.segment.enter(0, node.ranks[&node.me].id(), Phase::Running);
    }
    cluster.wait_until_ready();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[1]);
    let mut stranger = sleeper();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
