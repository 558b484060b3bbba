//! Simulates the group of recommended processes and writes what came of it to standard output as JSON: `scripts/bench
//! group`.
//!
//! `--quick`: fewer processes and seeds. The figures of one seed are the same on every machine.

use recommended_group::assignment::Assignment;
use serde_json::{Value, json};
use simulator::hyperquicksort::job::{input, lossy, sort};
use simulator::recommended::costs::{Losses, deaths, latency_bound, most_tests, quiet};
use simulator::recommended::load::{PAPER_COUNTERS, PAPER_JOBS};
use simulator::recommended::scenario::Fate;
use simulator::recommended::total_order::{Way, broadcast};
use simulator::recommended::trace::{close_threshold, correlation, monitoring, remarkable};

const INTERVALS: u64 = 30_000;
/// The library's default.
const DOUBTS: u32 = 2;
/// The seed of which the traces are shown.
const SHOWN: u64 = 1;

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let value = json!({
        "paper": {"jobs": PAPER_JOBS, "counters": PAPER_COUNTERS, "correlation": correlation(&PAPER_JOBS, &PAPER_COUNTERS)},
        "close": close_threshold(150, SHOWN),
        "monitoring": monitoring(INTERVALS, 0, SHOWN, &remarkable(&monitoring(INTERVALS, 0, SHOWN, &[]))),
        "with_doubts": summary(DOUBTS, SHOWN),
        "seeds": (1..=if is_quick { 3 } else { 10 }).map(|seed| summary(0, seed)).collect::<Vec<_>>(),
        "costs": costs(is_quick),
        "sorts": sorts(if is_quick { 5 } else { 20 }),
        "broadcasts": broadcasts(),
    });
    println!("{value}");
}

fn summary(doubts: u32, seed: u64) -> Value {
    let trace = monitoring(INTERVALS, doubts, seed, &[]);
    json!({
        "counters": trace.counters,
        "correlation": correlation(&trace.jobs, &trace.counters),
        "evictions": trace.changes.iter().filter(|change| change.2 % 2 == 1).count(),
        "smallest": trace.sizes.iter().map(|size| size.1).min(),
        "ballots": trace.ballots,
    })
}

fn costs(is_quick: bool) -> Vec<Value> {
    let mut rows = Vec::new();
    for (assignment, name) in [(Assignment::AllToAll, "all"), (Assignment::VCube, "vcube")] {
        for count in [8_u32, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
            let is_simulated = count <= if is_quick { 256 } else { 4096 };
            // More take minutes, for their number of tests or for the news of so many deaths.
            let has_deaths = is_simulated && count <= 1024;
            let latency = |losses, doubts| {
                let seeds = if is_quick || count > 256 { 1..=1 } else { 1..=5 };
                let all = seeds.map(|seed| deaths(assignment, count, losses, doubts, seed));
                all.max_by(|one, other| one.intervals.total_cmp(&other.intervals))
            };
            rows.push(json!({
                "assignment": name,
                "processes": count,
                "most_tests": most_tests(assignment, count),
                "bound": latency_bound(assignment, count),
                "quiet": is_simulated.then(|| quiet(assignment, count)),
                "one": has_deaths.then(|| latency(Losses::One, 0)),
                "half": has_deaths.then(|| latency(Losses::Half, 0)),
                "all_but_one": has_deaths.then(|| latency(Losses::AllButOne, 0)),
                "all_but_one_with_doubts": (is_simulated && count <= 256).then(|| latency(Losses::AllButOne, DOUBTS)),
            }));
        }
    }
    rows
}

/// HyperQuickSort of 16 lists, of which each takes 4 s in a round, while processes are killed, or stopped for a while.
fn sorts(seeds: u64) -> Vec<Value> {
    let mut rows = Vec::new();
    for (fate, name) in [(Fate::Kill, "killed"), (Fate::Stop, "stopped for 6 s")] {
        for many in [0, 1, 8, 15] {
            let mean = |returns| {
                let time = |seed| {
                    let input = input(16, seed);
                    let sorted = sort(&lossy(16, returns, fate, many, seed), &input, 4_000_000_000)?;
                    let mut values = input.concat();
                    values.sort_unstable();
                    (sorted.lists.concat() == values).then_some(sorted.seconds)
                };
                let times: Option<Vec<f64>> = (1..=seeds).map(time).collect();
                times.map(|times| times.iter().sum::<f64>() / times.len() as f64)
            };
            rows.push(json!({"fate": name, "lost": many, "with": mean(true), "without": mean(false)}));
        }
    }
    rows
}

fn broadcasts() -> Vec<Value> {
    let ways = [(Way::Consensus, "consensus"), (Way::UnicastBroadcast, "UB"), (Way::BroadcastBroadcast, "BB")];
    let members = [30, 62, 126];
    let rows = members.into_iter().flat_map(|members| ways.map(|(way, name)| (members, way, name)));
    rows.map(|(members, way, name)| json!({"members": members, "way": name, "counted": broadcast(way, members, 1)}))
        .collect()
}
