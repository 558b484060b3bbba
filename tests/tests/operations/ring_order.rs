//! Ring order and broadcast strategy are parameters of the job: every node takes them from the launch, and failures are
//! survived with each.

use std::fs;

use serde_json::Value;
use system_tests::lab::run;
use system_tests::{Job, Lab, Running, in_lab};

const HOSTS: [&str; 4] = ["h1", "h2", "h3", "h4"];

fn report(host: &str) -> Value {
    let text = run("rw-on", &[host, "ringwatch", "status", "--json"]);
    let reports: Value = serde_json::from_str(&text).expect("the status is JSON");
    reports[0].clone()
}

/// A job that goes on until it is told to end.
fn started(lab: &Lab, job: Job) -> Running<'_> {
    let mut job = job.arguments(&["--op", "allreduce", "--hold"]).start(lab);
    job.wait_until_blocked();
    job
}

/// A rank and a node are killed one after the other, and the others go on.
fn survives_a_rank_and_a_node(mut job: Running<'_>) {
    let _ = job.signal_rank(5, libc::SIGKILL);
    job.wait_until_repaired(&[0, 1, 2, 3, 4, 6, 7]);
    let _ = job.kill_host("h2");
    job.wait_until_repaired(&[0, 1, 4, 6, 7]);
    job.end();
    job.finish().recovered(&[2, 3, 5]);
}

#[test]
fn a_rank_and_a_node_die_and_the_tree_tells() {
    in_lab(|lab| {
        let job = started(lab, Job::new().parameter("strategy", "tree"));
        for host in HOSTS {
            let report = report(host);
            assert_eq!((&report["strategy"], &report["ring_order"]), (&"tree".into(), &"ids".into()), "{host}");
        }
        survives_a_rank_and_a_node(job);
    });
}

#[test]
fn a_rank_and_a_node_die_on_a_ring_by_a_topology_file() {
    in_lab(|lab| {
        let path = lab.folder().join("racks");
        fs::write(&path, "h1 left\nh2 left\nh3 right\nh4 right # the last\n").expect("the folder can be written");
        let path = path.to_str().expect("a plain path");
        let job = started(lab, Job::new().parameter("ring_order", path));
        // Racks alternate: nodes 0, 2, 1, 3.
        for (host, emitter, observer) in [("h1", 3, 2), ("h3", 0, 1), ("h2", 2, 3), ("h4", 1, 0)] {
            let report = report(host);
            assert_eq!(report["ring_order"], path, "{host}");
            assert_eq!((&report["emitter"], &report["observer"]), (&emitter.into(), &observer.into()), "{host}");
        }
        let text = run("rw-on", &["h4", "ringwatch", "status"]);
        assert!(text.contains("ring: 0 (h1) > 2 (h3) > 1 (h2) > 3 (h4) > 0 (h1), each watched by the next"), "{text}");
        survives_a_rank_and_a_node(job);
    });
}

#[test]
fn a_topology_file_that_lacks_a_host_or_a_rack_stops_the_launch() {
    in_lab(|lab| {
        let path = lab.folder().join("racks");
        let lacks_a_host = ("h1 left\nh2 left\nh3 right\n", "the host h4", "the launch is stopped");
        for (lines, words, end) in [lacks_a_host, ("h1 left\nh2\n", "line 2", "nothing was launched")] {
            fs::write(&path, lines).expect("the folder can be written");
            let job = Job::new().parameter("ring_order", path.to_str().expect("a plain path"));
            let outcome = job.arguments(&["--op", "none"]).run(lab);
            outcome.require(outcome.diaries.all("initialised").next().is_none(), "no rank leaves MPI_Init");
            outcome.was_refused(&["psensor_ringwatch_ring_order", words, end]);
        }
    });
}
