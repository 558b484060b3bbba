//! For an hour nobody who lives is declared dead, or even suspected, at short periods and under different loads; what
//! comes out is the smallest period without a false declaration, and without a false suspicion.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use system_tests::lab::HOSTS;
use system_tests::{Job, Lab};

/// All soaks together, in seconds; `SYSTEM_TESTS_SOAK` asks for another time.
const HOUR: u64 = 3600;
/// Microseconds, the longest first.
const PERIODS: [u64; 3] = [10_000, 5000, 2500];
const WORKLOADS: [Workload; 3] = [Workload::Compute, Workload::Exchange, Workload::Overload];
/// Fewest busy threads on each host beside the ranks; one for each processor of the machine where that is more, so that
/// the four hosts oversubscribe it four times.
const OVERLOAD: usize = 4;

/// What the ranks do, two on each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// They compute for 150 ms, every fourth time for 1.2 s, and then speak with each other.
    Compute,
    /// They send each other messages without a pause.
    Exchange,
    /// The same, while others keep the processors busy.
    Overload,
}

/// What came of one soak.
#[derive(Debug)]
struct Soaked {
    period: u64,
    workload: Workload,
    suspected: usize,
    declared: usize,
    /// The longest silence between two heartbeats, in microseconds.
    silence: u64,
}

/// Runs a job without any fault and reads in its history what it took for one.
fn soak(lab: &Lab, period: u64, workload: Workload, span: Duration) -> Soaked {
    let history = lab.folder().join("history.jsonl");
    let mut job = Job::new()
        .with_default_times()
        .parameter("period", &format!("{period}us"))
        .parameter("events", &history.display().to_string())
        .limit(span + Duration::from_secs(60));
    let seconds = format!("{}s", span.as_secs());
    job = match workload {
        Workload::Compute => job.arguments(&["--op", "none", "--hold", "--mix", "compute"]),
        Workload::Exchange | Workload::Overload => job.arguments(&["--op", "ring", "--busy"]),
    };
    let mut loads = Loads(Vec::new());
    if workload == Workload::Overload {
        let threads =
            std::thread::available_parallelism().map_or(OVERLOAD, |count| count.get().max(OVERLOAD)).to_string();
        let load = |host| {
            let words = [host, "ringwatch", "load", "--threads", &threads, "--time", &seconds];
            Command::new("rw-on").args(words).spawn().expect("rw-on can be started")
        };
        loads.0.extend(HOSTS.map(load));
    }
    let mut job = job.start(lab);
    if workload == Workload::Compute {
        job.wait_for("carries-on", &job.ranks());
    } else {
        job.wait_until_blocked();
    }
    std::thread::sleep(span);
    job.end();
    // A rank that was declared would make mpirun end otherwise; how, the history tells.
    let outcome = job.finish();
    drop(loads);
    let mut soaked = Soaked { period, workload, suspected: 0, declared: 0, silence: 0 };
    let mut ended = 0;
    for event in events(&history) {
        match event["event"].as_str() {
            Some("suspected") => soaked.suspected += 1,
            Some("node-dead" | "rank-dead") if event["node"] == 0 => soaked.declared += 1,
            Some("measured") if event["what"] == "silence" => {
                let counts = event["counts"].as_array().expect("a list");
                let longest = counts.last().and_then(|pair| pair[0].as_u64()).expect("a time");
                soaked.silence = soaked.silence.max(longest);
            }
            Some("farewell") => ended += 1,
            _ => {}
        }
    }
    let whole = ended == HOSTS.len() || soaked.declared > 0;
    outcome.require(whole, &format!("every node tells what it measured, not {ended}"));
    outcome.require(soaked.declared > 0 || outcome.status == 0, "a job without failures ends with status 0");
    soaked
}

fn events(history: &Path) -> Vec<Value> {
    let text = fs::read_to_string(history).expect("the history is kept");
    text.lines().map(|line| serde_json::from_str(line).expect("lines of JSON")).collect()
}

/// A figure that is to be seen also where the test passes, whose output is kept back.
fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Processes that end with the soak.
struct Loads(Vec<Child>);

impl Drop for Loads {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
#[ignore = "takes an hour: a part of scripts/test --full"]
fn nobody_is_suspected_in_an_hour_of_soaking() {
    let lab = Lab::open();
    let seconds = std::env::var("SYSTEM_TESTS_SOAK").map_or(HOUR, |text| text.parse().expect("seconds"));
    let span = Duration::from_secs(seconds / (PERIODS.len() * WORKLOADS.len()) as u64);
    let mut all = Vec::new();
    for period in PERIODS {
        for workload in WORKLOADS {
            let soaked = soak(&lab, period, workload, span);
            report(&format!("{span:?}: {soaked:?}"));
            all.push(soaked);
        }
    }
    for workload in WORKLOADS {
        let smallest = |is_clean: fn(&Soaked) -> bool| {
            let clean = all.iter().filter(|soaked| soaked.workload == workload).take_while(|soaked| is_clean(soaked));
            clean.last().map_or("none".into(), |soaked| format!("{} us", soaked.period))
        };
        let (declared, suspected) = (smallest(|soaked| soaked.declared == 0), smallest(|soaked| soaked.suspected == 0));
        report(&format!("{workload:?}: smallest period without a false declaration {declared}, suspicion {suspected}"));
    }
    let promised = |soaked: &&Soaked| {
        soaked.period == PERIODS[0] || (soaked.period == PERIODS[2] && soaked.workload != Workload::Overload)
    };
    let broken: Vec<_> = all.iter().filter(promised).filter(|soaked| soaked.declared + soaked.suspected > 0).collect();
    assert!(broken.is_empty(), "somebody was suspected or declared who lived: {broken:?}");
}
