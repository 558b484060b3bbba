//! For an hour nobody who lives is declared dead, or even suspected, at short periods and under different loads; what
//! comes out is the smallest period without a false declaration, and without a false suspicion. Where the machine is
//! itself a virtual one its processors may stand still, which is counted apart: a thread of the highest priority on
//! each sees that.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use system_tests::lab::HOSTS;
use system_tests::{Job, Lab, clock};

/// All soaks together, in seconds; `SYSTEM_TESTS_SOAK` asks for another time.
const HOUR: u64 = 3600;
/// Microseconds, the longest first.
const PERIODS: [u64; 3] = [10_000, 5000, 2500];
const WORKLOADS: [Workload; 3] = [Workload::Compute, Workload::Exchange, Workload::Overload];
/// Fewest busy threads on each host beside the ranks; one for each processor of the machine where that is more, so that
/// the four hosts oversubscribe it four times.
const OVERLOAD: usize = 4;

/// The default timeout.
const PERIODS_TO_TIMEOUT: u64 = 10;
/// How often a processor shows that it runs.
const TURN: Duration = Duration::from_millis(1);

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
    /// Suspicions and declarations while a processor of the machine stood still.
    standing_still: usize,
    /// The longest time in which one did, in microseconds.
    stood_still: u128,
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
    let witnesses = Witnesses::start();
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
    let stalls = witnesses.stop();
    let longest = stalls.iter().flatten().map(|stall| (stall.end - stall.begin).as_micros()).max().unwrap_or(0);
    let mut soaked =
        Soaked { period, workload, suspected: 0, declared: 0, standing_still: 0, stood_still: longest, silence: 0 };
    // Twice: what is declared was suspected before.
    let timeout = Duration::from_micros(period * PERIODS_TO_TIMEOUT);
    let is_excused = |event: &Value| {
        let at = Duration::from_micros(event["at_us"].as_u64().expect("a moment"));
        stalls.iter().any(|stalls| Stall::within(stalls, at.saturating_sub(timeout * 2), at) >= timeout / 2)
    };
    let mut ended = 0;
    for event in events(&history) {
        match event["event"].as_str() {
            Some("suspected" | "node-dead") if is_excused(&event) => {
                // Every node notes a death.
                soaked.standing_still += usize::from(event["event"] == "suspected" || event["node"] == 0);
            }
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
    let whole = ended == HOSTS.len() || soaked.declared + soaked.standing_still > 0;
    outcome.require(whole, &format!("every node tells what it measured, not {ended}"));
    outcome.require(
        soaked.declared + soaked.standing_still > 0 || outcome.status == 0,
        "a job without failures ends with status 0",
    );
    soaked
}

fn events(history: &Path) -> Vec<Value> {
    let text = fs::read_to_string(history).expect("the history is kept");
    text.lines().map(|line| serde_json::from_str(line).expect("lines of JSON")).collect()
}

/// A time in which a processor ran nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stall {
    begin: Duration,
    end: Duration,
}

impl Stall {
    /// How much of the time between two moments these are.
    fn within(stalls: &[Self], from: Duration, to: Duration) -> Duration {
        stalls.iter().map(|stall| stall.end.min(to).saturating_sub(stall.begin.max(from))).sum()
    }
}

/// Threads, one on each processor, that run before everything else and write down when they did not.
struct Witnesses {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Stall>>>,
}

impl Witnesses {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let witness = |processor| {
            let over = over.clone();
            std::thread::spawn(move || if runs_first_on(processor) { watch(&over) } else { Vec::new() })
        };
        let threads = (0..processors).map(witness).collect();
        Self { over, threads }
    }

    fn stop(self) -> Vec<Vec<Stall>> {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("a witness does not panic")).collect()
    }
}

/// Whether the calling thread may run on this processor before all others; without that right it proves nothing.
fn runs_first_on(processor: usize) -> bool {
    // SAFETY: plain structs of integers, and system calls that read them and concern the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        let mut first: libc::sched_param = std::mem::zeroed();
        first.sched_priority = libc::sched_get_priority_max(libc::SCHED_FIFO);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
            && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) == 0
    }
}

fn watch(over: &AtomicBool) -> Vec<Stall> {
    let mut stalls = Vec::new();
    let mut begin = clock::now();
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(TURN);
        let end = clock::now();
        if end - begin > TURN * 4 {
            stalls.push(Stall { begin, end });
        }
        begin = end;
    }
    stalls
}

#[test]
fn a_stall_counts_as_far_as_it_lies_within() {
    let ms = Duration::from_millis;
    let stalls = [Stall { begin: ms(10), end: ms(20) }, Stall { begin: ms(30), end: ms(40) }];
    assert_eq!(Stall::within(&stalls, ms(15), ms(32)), ms(7));
    assert_eq!(Stall::within(&stalls, ms(20), ms(30)), ms(0));
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
    let longest = all.iter().map(|soaked| soaked.stood_still).max().unwrap_or(0);
    let excused: usize = all.iter().map(|soaked| soaked.standing_still).sum();
    report(&format!("a processor of this machine stood still for up to {longest} us; {excused} events are its doing"));
    let promised = |soaked: &&Soaked| {
        soaked.period == PERIODS[0] || (soaked.period == PERIODS[2] && soaked.workload != Workload::Overload)
    };
    let broken: Vec<_> = all.iter().filter(promised).filter(|soaked| soaked.declared + soaked.suspected > 0).collect();
    assert!(broken.is_empty(), "somebody was suspected or declared who lived: {broken:?}");
}
