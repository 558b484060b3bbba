//! `ringwatch status`, as a user calls it.

#[path = "../../rdma-heartbeat/tests/cluster/mod.rs"]
mod cluster;

use std::process::{Command, Output};

use cluster::{Cluster, launch};
use nix::sys::signal::Signal;

fn ringwatch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringwatch")).args(arguments).output().unwrap()
}

#[test]
fn status_tells_who_is_dead_since_when_and_who_said_so() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1]));
    let job = cluster.launch.nspace.clone();
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
    cluster.nodes[2].kill_daemon();
    cluster.expect_node_dead(&[0, 1], 2);

    let output = ringwatch(&["status", "--json", "--job", &job]);
    assert!(output.status.success());
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reports.as_array().unwrap().len(), 2);
    let report = &reports[1];
    assert_eq!((&report["node"], &report["emitter"], &report["observer"]), (&1.into(), &0.into(), &0.into()));
    assert_eq!(report["transport"], "udp");
    assert!(report["last_heartbeat_us"].as_u64().unwrap() < 10_000_000);
    assert!(report["counters"]["heartbeats received"].as_u64().unwrap() > 0);
    let dead = |n: usize| &report["dead"][n];
    assert_eq!((&dead(0)["rank"], &dead(0)["source"], &dead(0)["reason"]), (&1.into(), &1.into(), &"signal:9".into()));
    assert_eq!((&dead(1)["rank"], &dead(1)["reason"]), (&3.into(), &"node-lost".into()));
    assert_eq!((&dead(2)["node"], &dead(2)["suspector"], &dead(2)["reason"]), (&2.into(), &0.into(), &"silent".into()));
    assert_eq!(report["ranks"][0]["dead"], true);
    assert_eq!((&report["ranks"][1]["phase"], &report["ranks"][1]["dead"]), (&"running".into(), &false.into()));

    let text = String::from_utf8(ringwatch(&["status", "--job", &job]).stdout).unwrap();
    for part in [
        "node 1 of 3",
        "watches node 0 (h1) by udp: last heartbeat",
        "is watched by node 0 (h1)",
        "signal:9",
        "running, dead",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[test]
fn without_a_daemon_status_says_so() {
    let output = ringwatch(&["status", "--job", "no such job"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
    assert!(ringwatch(&["version"]).stdout.starts_with(b"ringwatch "));
}
