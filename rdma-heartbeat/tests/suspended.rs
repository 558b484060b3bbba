//! A batch system suspends the whole job: everything is stopped within 300 ms and goes on much later. Nobody is lost.

mod cluster;

use std::time::Duration;

use cluster::{Cluster, launch, send_signal, was_killed};
use nix::sys::signal::Signal;
use node_abi::launch::LaunchData;

const NODES: usize = 4;
/// Between the first process that is stopped and the last.
const SKEW: Duration = Duration::from_millis(300);

/// As many turns of the daemons as take three seconds with the default times.
const SETTLED: Duration = Duration::from_millis(600);

/// The default times.
fn with_default_times() -> LaunchData {
    let mut launch = launch(&[2, 1, 2, 1]);
    launch.parameters.period = Duration::from_millis(100);
    launch.parameters.timeout = Duration::from_secs(1);
    launch.parameters.stop_timeout = Some(Duration::from_secs(2));
    launch
}

/// Sends a signal to everything on all nodes, one node after the other.
fn to_everybody(cluster: &Cluster, signal: Signal, order: impl Iterator<Item = usize>, daemons: bool, runtimes: bool) {
    for (count, node) in order.enumerate() {
        if count > 0 {
            std::thread::sleep(SKEW / (NODES as u32 - 1));
        }
        let node = &cluster.nodes[node];
        if daemons {
            send_signal(&node.daemon, signal);
        }
        if runtimes {
            send_signal(&node.runtime, signal);
        }
        node.ranks.values().for_each(|rank| send_signal(rank, signal));
    }
}

/// Suspends for longer than any timeout, resumes in the other order, and sees that a stopped rank is still found.
fn nobody_is_lost(daemons: bool, runtimes: bool) {
    let mut cluster = Cluster::running(with_default_times());
    to_everybody(&cluster, Signal::SIGSTOP, 0..NODES, daemons, runtimes);
    std::thread::sleep(Duration::from_secs(5));
    to_everybody(&cluster, Signal::SIGCONT, (0..NODES).rev(), daemons, runtimes);
    cluster.let_pass(&[0, 1, 2, 3], SETTLED);
    cluster.assert_nobody_declared();
    for node in &mut cluster.nodes {
        assert!(node.daemon.try_wait().unwrap().is_none() && node.runtime_lives());
    }
    // Whoever is stopped alone is dead as ever.
    cluster.signal_rank(3, Signal::SIGSTOP);
    cluster.expect_ranks_dead(&[0, 1, 2, 3], &[3]);
    assert!(was_killed(cluster.rank_end(3)));
}

/// Everything is stopped, or all but the daemons, or the ranks alone: three jobs at once, since each only waits.
#[test]
fn whatever_is_suspended_nobody_is_lost() {
    std::thread::scope(|scope| {
        for (daemons, runtimes) in [(true, true), (false, true), (false, false)] {
            let what = format!("daemons {daemons}, runtimes {runtimes}");
            let job = move || nobody_is_lost(daemons, runtimes);
            std::thread::Builder::new().name(what).spawn_scoped(scope, job).expect("a thread");
        }
    });
}

#[test]
fn a_daemon_that_was_late_says_so_and_declares_nobody() {
    let mut cluster = Cluster::running(with_default_times());
    for node in [0, 2] {
        send_signal(&cluster.nodes[node].daemon, Signal::SIGSTOP);
    }
    // Shorter than the others' patience, longer than half of it.
    std::thread::sleep(Duration::from_millis(700));
    for node in [0, 2] {
        send_signal(&cluster.nodes[node].daemon, Signal::SIGCONT);
    }
    cluster.let_pass(&[0, 1, 2, 3], SETTLED);
    cluster.assert_nobody_declared();
    for node in [0, 2] {
        assert!(cluster.nodes[node].stderr().contains("kept from running"), "{}", cluster.nodes[node].stderr());
    }
}
