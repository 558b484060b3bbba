//! `ringwatch status` on a node lists the job's ring as that node sees it.

use std::time::Duration;

use serde_json::Value;
use system_tests::clock::wait_until;
use system_tests::lab::run;
use system_tests::{Job, Running, in_lab};

/// The reports of the daemons on a host.
fn ask(host: &str) -> Vec<Value> {
    let text = run("rw-on", &[host, "ringwatch", "status", "--json"]);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("ringwatch status --json on {host}: {error}: {text}"))
}

/// The report of the one job there is.
fn report(host: &str) -> Value {
    let reports = ask(host);
    assert_eq!(reports.len(), 1, "{host} has one job: {reports:?}");
    reports[0].clone()
}

fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} is a number in {report}"))
}

/// A job that goes on until it is told to end.
fn start(lab: &system_tests::Lab) -> Running<'_> {
    let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
    job.wait_until_blocked();
    job
}

/// What one node says about the dead, as soon as it knows of so many.
fn dead(host: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let all = wait_until(Duration::from_secs(5), || {
        found = report(host)["dead"].as_array().cloned().unwrap_or_default();
        found.len() >= count
    });
    assert!(all && found.len() == count, "{host} knows of {count} dead: {found:?}");
    found
}

#[test]
fn every_node_shows_who_watches_whom() {
    in_lab(|lab| {
        let job = start(lab);
        for (index, host) in (0u64..).zip(["h1", "h2", "h3", "h4"]) {
            let report = report(host);
            assert_eq!(report["host"], host);
            assert_eq!(number(&report, "node"), index);
            assert_eq!(number(&report, "universe"), 4);
            assert_eq!(number(&report, "emitter"), (index + 3) % 4, "{host}");
            assert_eq!(number(&report, "observer"), (index + 1) % 4, "{host}");
            assert_eq!(report["stage"], "watching");
            assert_eq!(number(&report, "period_us"), 20_000);
            assert_eq!(number(&report, "timeout_us"), 300_000);
            assert_eq!(number(&report, "pid"), u64::try_from(job.watcher(host).pid).unwrap());
            let age = number(&report, "last_heartbeat_us");
            assert!(age < 300_000, "{host}: the last heartbeat is {age} us old");
            let ranks: Vec<u64> = report["ranks"].as_array().unwrap().iter().map(|rank| number(rank, "rank")).collect();
            assert_eq!(ranks, [index * 2, index * 2 + 1]);
            for rank in report["ranks"].as_array().unwrap() {
                let known = job.pid(u32::try_from(number(rank, "rank")).unwrap());
                assert_eq!(number(rank, "pid"), u64::try_from(known).unwrap());
                assert_eq!(rank["dead"], false);
            }
            assert_eq!(report["dead"].as_array().unwrap().len(), 0);
        }
        job.end();
        job.finish().finished_without(&[]);
    });
}

#[test]
fn every_node_shows_who_is_dead_since_when_and_who_said_so() {
    in_lab(|lab| {
        let mut job = start(lab);
        let at = job.signal_rank(5, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 6, 7]);
        for host in ["h1", "h2", "h3", "h4"] {
            let dead = dead(host, 1);
            assert_eq!((number(&dead[0], "rank"), number(&dead[0], "node")), (5, 2), "{host}");
            assert_eq!(number(&dead[0], "source"), 2, "{host}: the node of the rank said so");
            assert_eq!(dead[0]["source_host"], "h3", "{host}");
            let reason = dead[0]["reason"].as_str().unwrap();
            assert!(reason.contains("signal:9"), "{host}: {reason}");
            let age = Duration::from_micros(number(&dead[0], "age_us"));
            let passed = system_tests::clock::now() - at;
            assert!(age <= passed && age + Duration::from_secs(1) > passed, "{host}: dead for {age:?} of {passed:?}");
        }
        let _ = job.split(&["h2"], false);
        job.wait_until_repaired(&[0, 1, 4, 6, 7]);
        for host in ["h1", "h3", "h4"] {
            let dead = dead(host, 4);
            let ranks: Vec<u64> = dead.iter().filter_map(|one| one["rank"].as_u64()).collect();
            assert_eq!(ranks, [5, 2, 3], "{host}");
            let node = dead.iter().find(|one| one["rank"].is_null()).expect("the node itself is listed");
            assert_eq!((number(node, "node"), node["reason"].as_str().unwrap()), (1, "silent"), "{host}");
            assert_eq!(number(node, "suspector"), 2, "{host}: its observer suspected it");
            assert_eq!(node["suspector_host"], "h3", "{host}");
        }
        // The ring has closed around the dead.
        assert_eq!(number(&report("h1"), "observer"), 2);
        assert_eq!(number(&report("h3"), "emitter"), 0);
        job.end();
        job.finish().recovered(&[2, 3, 5]);
    });
}

/// Its predecessor has told the plugin.
#[test]
fn a_ringwatchd_that_was_started_again_knows_since_when_and_who_said_so() {
    in_lab(|lab| {
        let mut job = start(lab);
        let _ = job.signal_rank(5, libc::SIGKILL);
        job.wait_until_repaired(&job.others(&[5]));
        let _ = job.kill_host("h4");
        job.wait_until_repaired(&job.others(&[5, 6, 7]));
        let before = dead("h2", 4);
        job.replaces_watcher("h2", libc::SIGKILL);
        let after = dead("h2", 4);
        for (one, old) in after.iter().zip(&before) {
            for name in ["rank", "node", "reason", "source", "suspector"] {
                assert_eq!(one[name], old[name], "{name} in {one} and {old}");
            }
            assert!(number(one, "age_us") > number(old, "age_us"), "{one} after {old}");
        }
        assert_eq!(number(&report("h2"), "incarnation"), 1);
        job.end();
        job.finish().recovered(&[5, 6, 7]);
    });
}

#[test]
fn the_text_for_people_says_the_same() {
    in_lab(|lab| {
        let mut job = start(lab);
        let _ = job.signal_rank(7, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 5, 6]);
        let text = run("rw-on", &["h2", "ringwatch", "status"]);
        for part in [
            "node 1 of 4 (h2)",
            "watches node 0 (h1)",
            "is watched by node 2 (h3)",
            "last heartbeat",
            "rank 7",
            "signal:9",
        ] {
            assert!(text.contains(part), "'{part}' is in\n{text}");
        }
        job.end();
        job.finish().recovered(&[7]);
    });
}

#[test]
fn two_jobs_of_one_node_are_told_apart() {
    in_lab(|lab| {
        // Two mpirun bind their ranks to the same processors, and waiting ranks keep each other from them. Where they
        // yield instead, Linux 6.18 has let those of one host run alone for a minute.
        let options = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "0"];
        let job = Job::new().on(&["h1", "h2"], 2).options(&options);
        let job = job.arguments(&["--op", "allreduce", "--hold"]);
        let mut first = job.start(lab);
        let mut second = job.start(lab);
        first.wait_until_blocked();
        second.wait_until_blocked();
        let reports = ask("h2");
        assert_eq!(reports.len(), 2, "{reports:?}");
        let name = reports[1]["job"].as_str().unwrap();
        assert_ne!(reports[0]["job"], name);
        let text = run("rw-on", &["h2", "ringwatch", "status", "--json", "--job", name]);
        let one: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert!(one.len() == 1 && one[0]["job"] == name, "{text}");
        // A failure in one job is none in the other.
        let _ = first.signal_rank(3, libc::SIGKILL);
        first.wait_until_repaired(&[0, 1, 2]);
        first.end();
        first.finish().beside_others().recovered(&[3]);
        second.end();
        second.finish().finished_without(&[]);
    });
}

#[test]
fn without_a_job_there_is_one_sentence_and_a_status() {
    in_lab(|_| {
        let output = std::process::Command::new("rw-on").args(["h1", "ringwatch", "status"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.starts_with("ringwatch: no ringwatchd") && text.trim().lines().count() == 1, "{text}");
    });
}
