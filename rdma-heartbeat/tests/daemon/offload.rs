//! A host that is served: its `ringwatchd`, and the one that carries its part in the ring, which here runs on the same
//! machine. The remote shell is a script that ignores the name of the other machine.

use std::io::Write;
use std::time::Instant;

use crate::cluster::{Cluster, Node, TIMEOUT, eventually, launch, send_signal, sockets, was_killed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use node_abi::launch::{Carrier, End, LaunchData, ToDaemon};
use node_abi::segment::Phase;
use propagation::NodeReason;

/// The node that is served.
const SERVED: usize = 1;

/// Path of the remote shell.
const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/agent");

/// A running job on three nodes, of which one is served.
fn cluster(change: impl Fn(&mut LaunchData)) -> Cluster {
    let mut launch = launch(&[1, 2, 1]);
    let sockets = sockets(&launch);
    launch.rendezvous = vec![sockets[0].local_addr().unwrap()];
    launch.agent = AGENT.into();
    change(&mut launch);
    let mut served = launch.clone();
    served.parameters.offload = vec![(platform::say::host(), "127.0.0.1".into())];
    let of = |node: usize| if node == SERVED { &served } else { &launch };
    let start = |(node, socket)| Node::start(of(node), node as u32, socket, None, Phase::Running);
    let nodes = sockets.into_iter().enumerate().map(start).collect();
    let mut cluster = Cluster { nodes, launch };
    cluster.wait_until_ready();
    cluster
}

fn until_served_by(cluster: &Cluster, means: Option<&str>) {
    let node = &cluster.nodes[SERVED];
    eventually("the host is served", || {
        let report = node.report();
        let is_served = report.offload.as_deref() == Some("127.0.0.1") && report.emitter == Some(0);
        (is_served && report.offload_means.as_deref() == means).then_some(())
    });
}

/// Process number of the service.
fn service(cluster: &Cluster) -> Pid {
    let daemon = cluster.nodes[SERVED].daemon.id();
    eventually("the service runs", || {
        // Another thread than the first has started it.
        let threads = std::fs::read_dir(format!("/proc/{daemon}/task")).ok()?.flatten();
        let children: String =
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok()).collect();
        let serves = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == b"--for")
        };
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(serves).map(Pid::from_raw)
    })
}

#[test]
fn a_served_host_is_a_node_like_any_other() {
    let mut cluster = cluster(|_| ());
    until_served_by(&cluster, Some("shared memory"));
    let report = cluster.nodes[SERVED].report();
    assert_eq!((report.emitter, report.observer, report.transport.as_str()), (Some(0), Some(2), "offload"));
    assert_eq!([report.emitter_means.as_deref(), report.observer_means.as_deref()], [Some("udp"); 2]);
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
    cluster.signal_rank(0, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[0]);
    cluster.nodes[2].kill_daemon();
    assert_eq!(cluster.expect_node_dead(&[0, 1], 2).0, NodeReason::Silent);
    let service = service(&cluster);
    cluster.nodes[0].tell(&ToDaemon::Finished);
    assert!(cluster.nodes[SERVED].daemon_exit().success());
    eventually("the service ends with the job", || kill(service, None).is_err().then_some(()));
}

#[test]
fn a_host_that_is_alive_is_not_missed_by_packets_either() {
    let mut cluster = cluster(|launch| launch.parameters.transport = Carrier::Udp);
    until_served_by(&cluster, None);
    cluster.let_pass(&[0, SERVED, 2], TIMEOUT * 3);
    cluster.assert_nobody_declared();
}

#[test]
fn a_silent_host_is_declared_by_its_service_after_one_timeout() {
    for transport in [Carrier::Auto, Carrier::Udp] {
        let mut cluster = cluster(|launch| launch.parameters.transport = transport);
        until_served_by(&cluster, (transport == Carrier::Auto).then_some("shared memory"));
        let begin = Instant::now();
        send_signal(&cluster.nodes[SERVED].daemon, Signal::SIGSTOP);
        assert_eq!(cluster.expect_node_dead(&[0, 2], 1), (NodeReason::Resigned, None));
        let took = begin.elapsed();
        eprintln!("declared after {took:?}");
        assert!(took > TIMEOUT / 2 && took < TIMEOUT * 2, "{took:?}");
        cluster.expect_ranks_dead(&[0, 2], &[1, 2]);
        assert!(cluster.rank_lives(1));
        send_signal(&cluster.nodes[SERVED].daemon, Signal::SIGCONT);
        assert_eq!(cluster.nodes[SERVED].expect_end().0, End::DeclaredDead);
        assert!(was_killed(cluster.rank_end(1)));
        assert!(was_killed(cluster.nodes[SERVED].runtime_end()));
    }
}

#[test]
fn a_service_that_is_killed_is_started_again_and_nobody_is_missed() {
    let mut cluster = cluster(|_| ());
    for _ in 0..2 {
        until_served_by(&cluster, Some("shared memory"));
        let service = service(&cluster);
        kill(service, Signal::SIGKILL).unwrap();
        eventually("the service is gone", || kill(service, None).is_err().then_some(()));
    }
    until_served_by(&cluster, Some("shared memory"));
    cluster.let_pass(&[0, SERVED, 2], TIMEOUT * 3);
    cluster.assert_nobody_declared();
    cluster.signal_rank(2, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[2]);
}

#[test]
fn a_rank_that_dies_while_there_is_no_service_is_announced_by_the_next() {
    let mut cluster = cluster(|_| ());
    until_served_by(&cluster, Some("shared memory"));
    kill(service(&cluster), Signal::SIGKILL).unwrap();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
}

#[test]
fn a_host_without_its_service_ends_as_the_others_declare_it() {
    let mut cluster = cluster(|_| ());
    until_served_by(&cluster, Some("shared memory"));
    let service = service(&cluster);
    let begin = Instant::now();
    kill(service, Signal::SIGSTOP).unwrap();
    assert_eq!(cluster.nodes[SERVED].expect_end().0, End::CutOff);
    let took = begin.elapsed();
    eprintln!("the host gave up after {took:?}");
    assert!(was_killed(cluster.rank_end(1)) && was_killed(cluster.rank_end(2)));
    assert!(took < TIMEOUT * 2, "before anybody can rely on its end: {took:?}");
    assert_eq!(cluster.expect_node_dead(&[0, 2], 1), (NodeReason::Silent, Some(2)));
    kill(service, Signal::SIGCONT).unwrap();
    eventually("the service ends, too", || kill(service, None).is_err().then_some(()));
    assert!(cluster.rank_lives(0) && cluster.rank_lives(3));
}

#[test]
fn a_restarted_daemon_of_a_served_host_gets_another_service_and_is_not_missed() {
    let mut cluster = cluster(|_| ());
    until_served_by(&cluster, Some("shared memory"));
    for _ in 0..2 {
        cluster.nodes[SERVED].kill_daemon();
        cluster.nodes[SERVED].restart_daemon();
        let name = cluster.nodes[SERVED].status_name();
        eventually("it is served again", || {
            let report = rdma_heartbeat::report::status::ask(&name).ok()?;
            (report.offload_means.as_deref() == Some("shared memory")).then_some(())
        });
    }
    cluster.let_pass(&[0, SERVED, 2], TIMEOUT * 3);
    cluster.assert_nobody_declared();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
}

#[test]
fn a_lost_prted_takes_a_served_host_down_at_once() {
    let mut cluster = cluster(|_| ());
    until_served_by(&cluster, Some("shared memory"));
    let begin = Instant::now();
    send_signal(&cluster.nodes[SERVED].runtime, Signal::SIGKILL);
    assert_eq!(cluster.expect_node_dead(&[0, 2], 1), (NodeReason::Resigned, None));
    assert!(begin.elapsed() < TIMEOUT, "{:?}", begin.elapsed());
    assert!(was_killed(cluster.rank_end(1)));
}

#[test]
fn a_machine_that_cannot_be_reached_is_said_to_be() {
    let mut launch = launch(&[1, 1]);
    let sockets = sockets(&launch);
    launch.rendezvous = vec![sockets[0].local_addr().unwrap()];
    launch.agent = "false".into();
    launch.parameters.offload = vec![(platform::say::host(), "127.0.0.1".into())];
    let socket = sockets.into_iter().nth(1).unwrap();
    let node = Node::start(&launch, 1, socket, None, Phase::Running);
    eventually("the log says so", || node.stderr().contains("the service of this host has ended").then_some(()));
}

#[test]
fn who_serves_is_particular_about_who_calls() {
    use std::process::{Command, Stdio};
    let ask = |words: &[&str], input: &[u8]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringwatchd"));
        let pipes = command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for input in [&b""[..], b"GET / HTTP/1.0\r\n\r\n", &[3, 0, 0, 0, 1, 2, 3]] {
        let (status, text) = ask(&["--for", "n1"], input);
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains("is started by ringwatchd of that host"), "{text}");
    }
    assert_eq!(ask(&["--for"], b"").0, Some(2));
}
