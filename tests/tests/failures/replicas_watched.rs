//! What tools tell of replicas, and what a slow replica costs the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use system_tests::lab::run;
use system_tests::programs::compile;
use system_tests::replaced::processes_of;
use system_tests::replicated::{RANKS, replicated};
use system_tests::{Job, Lab, Running, in_lab, process};

const LIMIT: Duration = Duration::from_secs(60);
/// The messages before which a process stops itself.
const BEFORE: u32 = 20;
/// How long it is stopped.
const STOPPED: Duration = Duration::from_secs(1);

/// Rank 0 sends so many messages to each other one, and a process stops itself.
fn bounded(folder: &Path, (messages, bytes): (u32, u32), stops: u32, parameters: &[(&str, &str)]) -> Job {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let program = PATH.get_or_init(|| compile("bounded", "mpicc")).display().to_string();
    let numbers = [messages, bytes, stops, BEFORE].map(|number| number.to_string());
    let words: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let folder = folder.display().to_string();
    let job = replicated(2, parameters).parameter("stop_timeout", "60s").limit(LIMIT);
    job.program(&[&[&*program, &*folder], &words[..]].concat())
}

/// The number that a process has written into its file of this name.
fn told(folder: &Path, name: &str, process: u32) -> u32 {
    let text = fs::read_to_string(folder.join(format!("{name}.{process}"))).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// A job in which that process is stopped.
fn stopped<'a>(lab: &'a Lab, job: &Job, process: u32) -> (Running<'a>, i32) {
    let mut job = job.start(lab);
    let pid = processes_of(&job, "bounded", 2 * RANKS, LIMIT)[process as usize];
    job.wait("a process has stopped itself", LIMIT, |_| process::state(pid) == Some('T'));
    (job, pid)
}

/// What each rank prints has the sum of what it was sent.
fn is_right(stdout: &str, messages: u32) -> bool {
    let sum: u32 = (0..messages).map(|number| number % 256).sum();
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    lines == (0..RANKS).map(|rank| format!("rank {rank}: {}", if rank == 0 { 0 } else { sum })).collect::<Vec<_>>()
}

fn records(history: &Path, event: &str) -> Vec<Value> {
    let text = fs::read_to_string(history).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|record| record["event"] == event).collect()
}

#[test]
fn tools_name_replicas_and_know_what_they_have_found() {
    in_lab(|lab| {
        let history = lab.folder().join("history.jsonl");
        let flip = [("corrupt", "0.1:2"), ("replicas_on_mismatch", "report")];
        let job = bounded(&lab.folder(), (40, 1000), 5, &flip).parameter("events", &history.display().to_string());
        let (job, pid) = stopped(lab, &job, 5);
        let text = run("rw-on", &["h3", "ringwatch", "status"]);
        assert!(text.contains("running, replica 1 of rank 1\n"), "{text}");
        let reports: Value =
            serde_json::from_str(&run("rw-on", &["h3", "ringwatch", "status", "--json"])).expect("JSON");
        let ranks = reports[0]["ranks"].as_array().expect("a list");
        let known = ranks.iter().find(|rank| rank["rank"] == 5).expect("process 5 is on this host");
        assert_eq!((known["replica"]["of"].as_u64(), known["replica"]["index"].as_u64()), (Some(1), Some(1)));
        process::signal(pid, libc::SIGKILL);
        let outcome = job.finish();
        let line = "ringwatch: rank 5 (replica 1 of rank 1) on h3 was killed by signal 9; 7 ranks go on";
        outcome.require(outcome.losses() == [line], &format!("the loss is '{line}'"));
        outcome.require(is_right(&outcome.stdout, 40), "the result is right").left_nothing();
        let replicas = records(&history, "replica");
        outcome.require(replicas.len() == 2 * RANKS as usize, &format!("each process is a replica: {replicas:?}"));
        let dead = records(&history, "rank-dead");
        let is_named = dead.iter().any(|record| record["replica"]["of"] == 1 && record["replica"]["index"] == 1);
        outcome.require(is_named, &format!("the history names the dead replica: {dead:?}"));
        let findings = records(&history, "finding");
        let is_said = |record: &Value| {
            record["kind"] == "undecided"
                && record["sentence"].as_str().is_some_and(|text| text.contains("message 1 from rank 0 to rank 2"))
        };
        outcome.require(findings.iter().any(is_said), &format!("the history has the flip: {findings:?}"));
        let text = run("ringwatch", &["events", &history.display().to_string()]);
        let line = "rank 5 (replica 1 of rank 1) of node 2 (h3) is dead (killed by signal 9)";
        outcome.require(text.contains(line), &format!("'{line}' is in {text}"));
    });
}

#[test]
fn what_ends_a_job_is_in_its_history() {
    in_lab(|lab| {
        let history = lab.folder().join("ended.jsonl");
        let job = bounded(&lab.folder(), (200, 1000), 99, &[("corrupt", "0.1:300")]);
        let outcome = job.parameter("events", &history.display().to_string()).run(lab);
        outcome.require(outcome.status != 0, "the job ends").left_nothing();
        let findings = records(&history, "finding");
        let is_said = findings.iter().any(|record| record["kind"] == "undecided");
        outcome.require(is_said, &format!("the history says why: {findings:?}"));
    });
}

/// A process is stopped for a second: another one goes on, by so many messages at least and at most, and waits there.
fn waits_at_the_bound(
    sizes: (u32, u32),
    (stops, watched): (u32, u32),
    parameter: (&str, &str),
    (least, most): (u32, u32),
) {
    in_lab(|lab| {
        let folder = lab.folder();
        let (mut job, pid) = stopped(lab, &bounded(&folder, sizes, stops, &[parameter]), stops);
        let reached = || told(&folder, "messages", watched);
        job.wait("the fast ones go on to the bound", LIMIT, |_| reached() >= BEFORE + least);
        // So long lasts the fault.
        std::thread::sleep(STOPPED);
        let last = reached();
        process::signal(pid, libc::SIGCONT);
        let outcome = job.finish();
        outcome.require(last <= BEFORE + most, &format!("process {watched} waits, also at message {last}"));
        outcome.require(outcome.status == 0 && is_right(&outcome.stdout, sizes.0), "the result is right");
        let memory = told(&folder, "most", watched);
        eprintln!("{}: waits at message {last}, has had {memory} KiB", parameter.0);
        outcome.require(memory < 100 << 10, &format!("it has not kept all: {memory} KiB")).left_nothing();
    });
}

#[test]
fn a_sender_waits_where_it_keeps_too_much_for_a_slow_replica() {
    // Four messages of 256 KiB are the bound of 1 MiB, of which some may be earlier ones; three times 200 are 150 MiB.
    waits_at_the_bound((200, 256 << 10), (RANKS + 1, 0), ("replicas_memory", "1"), (0, 6));
}

#[test]
fn a_receiver_waits_where_too_much_is_not_verified() {
    waits_at_the_bound((200, 1000), (RANKS, 1), ("replicas_unverified", "8"), (7, 9));
}

#[test]
fn a_bound_that_is_none_is_refused() {
    in_lab(|lab| {
        for (name, value) in [("replicas_memory", "0"), ("replicas_unverified", "-3")] {
            let outcome = bounded(&lab.folder(), (1, 1), 99, &[(name, value)]).run(lab);
            let sentence = format!("there is no replication: hook_ringwatch_{name} is a number above 0, not {value}");
            outcome.require(outcome.stderr.matches(&sentence).count() == 1, &format!("'{sentence}' is said once"));
            outcome.require(outcome.status != 0, "mpirun says so").left_nothing();
        }
    });
}
