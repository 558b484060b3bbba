//! Event loggers: ranks of a job that asks for them reach that of their node, and what they save outlives `ringwatchd`.

use serde_json::Value;
use system_tests::lab::run;
use system_tests::programs::compile;
use system_tests::{Job, in_lab};

/// How many determinants each rank has on a host.
fn kept(host: &str) -> Vec<(u64, u64)> {
    let reports: Value = serde_json::from_str(&run("rw-on", &[host, "ringwatch", "status", "--json"])).expect("JSON");
    let held = reports[0]["loggers"].as_array().expect("a list").iter();
    held.map(|held| (held["rank"].as_u64().expect("a rank"), held["determinants"].as_u64().expect("a number")))
        .collect()
}

#[test]
fn what_a_rank_saves_outlives_the_ringwatchd_of_its_node() {
    in_lab(|lab| {
        let hosts = ["h1", "h2", "h3"];
        let job = Job::new().on(&hosts, 1).parameter("event_loggers", "1").diarist(&compile("logs", "mpicc"));
        let mut job = job.start(lab);
        job.wait_for("stable", &[0, 1, 2]);
        for (rank, host) in (0..).zip(hosts) {
            assert!(kept(host).contains(&(rank, 1)), "{host}: {:?}", kept(host));
        }
        job.replaces_watcher("h2", libc::SIGKILL);
        job.wait_for("found", &[1]);
        job.end();
        let outcome = job.finish();
        let found = outcome.diaries.first(1, "found").and_then(|entry| entry.number(0));
        outcome.require(found == Some(1), &format!("the determinant of rank 1 is found again, not {found:?}"));
        for rank in 0..3 {
            outcome.finalized(rank);
        }
        outcome.left_nothing();
    });
}
