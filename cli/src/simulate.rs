//! `ringwatch simulate`: one run, event by event.

use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use cli::values::{failure, runs, seed, share, threads, time};
use node_abi::order::Order;
use node_abi::parameters;
use propagation::topology::longest_run;
use propagation::{NodeId, RingOrder};
use simulator::figures::Sample;
use simulator::log::{Entry, Log};
use simulator::{Elision, Failures, Outcome, Scenario, Strategy, Stream, all_threads, batch, bounds};

use crate::output::{print, refuse};

/// The command line of `ringwatch simulate`.
#[derive(Args)]
pub struct Arguments {
    /// Number of nodes
    #[arg(short, long, default_value_t = 64, allow_negative_numbers = true)]
    nodes: u32,
    /// Time between two heartbeats
    #[arg(long, default_value = "100ms", value_parser = time, value_name = "TIME", allow_hyphen_values = true)]
    period: Duration,
    /// Silence after which a node is suspected
    #[arg(long, default_value = "1s", value_parser = time, value_name = "TIME", allow_hyphen_values = true)]
    timeout: Duration,
    /// Longest time a message takes; each takes a random part of it
    #[arg(long, default_value = "1ms", value_parser = time, value_name = "TIME", allow_hyphen_values = true)]
    tau: Duration,
    /// Who dies when, such as 5@0s,6@1.2s
    #[arg(long, value_delimiter = ',', value_parser = failure, value_name = "NODE@TIME", allow_hyphen_values = true, conflicts_with_all = ["failures", "mtbf"])]
    fail: Vec<(NodeId, Duration)>,
    /// So many random nodes die, the first at once [default: 1]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, conflicts_with = "mtbf")]
    failures: Option<u32>,
    /// ... and the others within this time [default: the timeout]
    #[arg(long, value_parser = time, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["fail", "mtbf"])]
    within: Option<Duration>,
    /// Mean time between failures of one node: one dies at once, more at random until the state is stable
    #[arg(long, value_parser = time, value_name = "TIME", allow_hyphen_values = true)]
    mtbf: Option<Duration>,
    /// Where all chance comes from: the same seed gives the same run
    #[arg(long, default_value = "1", value_parser = seed, allow_hyphen_values = true)]
    seed: u64,
    /// What keeps nodes apart on the ring: ids (nothing), hosts (racks as in the names r12n04) or the absolute path of
    /// a topology file
    #[arg(long, default_value = "ids", value_parser = order, value_name = "ORDER")]
    ring_order: Order,
    /// File with the names of the nodes, node 0 first: the first word of each line [default: r0n0, r0n1, ..., sixteen
    /// to a rack]
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// How deaths are broadcast: circulant (the paper's double hypercube) or tree (three messages per node)
    #[arg(long, default_value = "circulant", value_parser = strategy, value_name = "NAME")]
    strategy: Strategy,
    /// Let node 0 declare all deaths, as ringwatchd does; else every observer does, as in the paper
    #[arg(long)]
    arbiter: bool,
    /// A node sends at most one message at a time and receives at most one
    #[arg(long)]
    one_port: bool,
    /// Share of messages that get lost
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE", allow_hyphen_values = true)]
    loss: f64,
    /// Share of messages that come twice
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE", allow_hyphen_values = true)]
    duplication: f64,
    /// End the run so long after its begin [default: long enough for the paper's bound on it]
    #[arg(long, value_parser = time, value_name = "TIME", allow_hyphen_values = true)]
    horizon: Option<Duration>,
    /// Simulate also what has no effect: idle heartbeats, late copies
    #[arg(long)]
    exact: bool,
    /// So many runs, each from a seed of its own, and only what they have in common
    #[arg(long, value_name = "COUNT", value_parser = runs, allow_hyphen_values = true, conflicts_with = "log")]
    runs: Option<u64>,
    /// Number of threads for --runs [default: one per processor]
    #[arg(long, value_name = "COUNT", value_parser = threads, allow_hyphen_values = true)]
    threads: Option<NonZero<usize>>,
    /// What to report
    #[arg(long, value_enum, default_value_t = Level::Events, value_name = "LEVEL")]
    log: Level,
    /// Only the summary; the same as --log none
    #[arg(short, long, conflicts_with = "log")]
    quiet: bool,
}

/// Nodes in a rack of the names that are made up.
const RACK: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Only the summary
    None,
    /// Deaths, declarations, broadcasts, and when all know
    Events,
    /// Each message, too
    Messages,
}

fn strategy(text: &str) -> Result<Strategy, String> {
    Strategy::from_name(text).ok_or_else(|| "it must be circulant or tree".into())
}

fn order(text: &str) -> Result<Order, String> {
    Order::parse(text).ok_or_else(|| Order::EXPECTED.into())
}

/// Runs the scenario.
pub fn simulate(arguments: &Arguments) -> ExitCode {
    let scenario = match arguments.scenario() {
        Ok(scenario) => scenario,
        Err(problem) => return refuse(&problem),
    };
    if let Some(runs) = arguments.runs {
        return simulate_many(&scenario, runs, arguments.threads.unwrap_or_else(all_threads));
    }
    let level = if arguments.quiet { Level::None } else { arguments.log };
    match simulator::run_logged(&scenario, &mut Printer(level)) {
        Ok(outcome) => {
            print(&summary(&scenario, &outcome));
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error.to_string()),
    }
}

fn simulate_many(scenario: &Scenario, runs: u64, threads: NonZero<usize>) -> ExitCode {
    if let Err(error) = scenario.validate() {
        return refuse(&error.to_string());
    }
    let began = Instant::now();
    let one = |number| {
        let seed = Stream::seed_of_run(scenario.seed, number);
        simulator::run(&Scenario { seed, ..scenario.clone() }).expect("a scenario is valid whatever its seed")
    };
    let outcomes = batch(runs, threads, one, || {});
    let stable: Vec<_> = outcomes.iter().filter_map(Outcome::stabilization).collect();
    let line = |what: &str, times: Vec<f64>| {
        let Sample { mean, low, high, most, .. } = Sample::of(times);
        format!("{what}: mean {mean:.6} s, 5 % to 95 % of the runs {low:.6} to {high:.6} s, longest {most:.6} s\n")
    };
    print(&line("first failure known by all", stable.iter().map(|(first, _)| first.as_secs_f64()).collect()));
    print(&line("stable", stable.iter().map(|(_, all)| all.as_secs_f64()).collect()));
    let messages: u64 = outcomes.iter().map(Outcome::message_count).sum();
    print(&format!("{} of {runs} runs became stable; {} messages per run\n", stable.len(), messages / runs));
    // Not on standard output, which is the same every time.
    let took = began.elapsed().as_secs_f64();
    eprintln!("{took:.1} s on {threads} threads, {:.1} ms per run", took * 1e3 / runs as f64);
    ExitCode::SUCCESS
}

impl Arguments {
    /// The ring of as many nodes as there are names.
    fn ring(&self) -> Result<RingOrder, String> {
        match (&self.ring_order, &self.hosts) {
            (Order::Ids, None) => return Ok(RingOrder::default()),
            (Order::Ids, Some(_)) => {
                return Err("--hosts has no effect on the order of the ids: give --ring-order, too".into());
            }
            _ => {}
        }
        let names: Vec<String> = match &self.hosts {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("the hosts in {} cannot be read: {error}", path.display()))?;
                let words = text.lines().filter_map(|line| line.split('#').next()?.split_whitespace().next());
                words.map(str::to_owned).collect()
            }
            // Of so many the scenario will not have it.
            None => (0..self.nodes.min(1 << 24)).map(|node| format!("r{}n{}", node / RACK, node % RACK)).collect(),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.ring_order.ring(&names).map_err(|why| format!("the ring order cannot be made: {why}"))
    }

    fn scenario(&self) -> Result<Scenario, String> {
        if self.threads.is_some() && self.runs.is_none() {
            return Err("--threads has no effect on a single run: give --runs, too".into());
        }
        if self.within.is_some() && self.failures.unwrap_or(1) == 1 {
            return Err("--within has no effect on a single failure: give --failures, too".into());
        }
        let failures = match (self.fail.as_slice(), self.mtbf) {
            ([], Some(node_mtbf)) => Failures::Exponential { node_mtbf },
            ([], None) => {
                let span = self.within.unwrap_or(self.timeout);
                Failures::Within { count: self.failures.unwrap_or(1), span }
            }
            (list, _) => Failures::Schedule(list.to_vec()),
        };
        Ok(Scenario {
            order: self.ring()?,
            tau: self.tau,
            failures,
            strategy: self.strategy,
            arbiter: self.arbiter,
            one_port: self.one_port,
            loss: self.loss,
            duplication: self.duplication,
            seed: self.seed,
            elision: if self.exact { Elision::NONE } else { Elision::ALL },
            horizon: self.horizon,
            ..Scenario::new(self.nodes, self.period, self.timeout)
        })
    }
}

/// Prints events as they happen.
struct Printer(Level);

impl Log for Printer {
    fn enter(&mut self, at: i64, entry: Entry) {
        if self.0 != Level::None && (self.0 == Level::Messages || !matches!(entry, Entry::Sent { .. })) {
            let _ = writeln!(std::io::stdout(), "{:>+16.6} s  {entry}", at as f64 / 1e9);
        }
    }

    fn messages(&self) -> bool {
        self.0 == Level::Messages
    }
}

fn summary(scenario: &Scenario, outcome: &Outcome) -> String {
    let seconds =
        |time: Option<Duration>| time.map_or_else(|| "-".into(), |time| format!("{:.6} s", time.as_secs_f64()));
    let Scenario { nodes, period, timeout, tau, seed, .. } = scenario;
    let times = [period, timeout, tau].map(|time| parameters::show(*time));
    let mut lines = vec![
        String::new(),
        format!("{nodes} nodes, period {}, timeout {}, tau {}, seed {seed}", times[0], times[1], times[2]),
        format!("{:>10} {:>16} {:>16} {:>10} {:>16}", "NODE", "DIED", "DECLARED", "BY", "KNOWN BY ALL"),
    ];
    for death in &outcome.deaths {
        let by = death.declared.map_or_else(|| "-".into(), |(_, by)| by.to_string());
        let times = [death.at, death.declared.map(|(at, _)| at), death.known_by_all].map(seconds);
        lines.push(format!("{:>10} {:>16} {:>16} {by:>10} {:>16}", death.node, times[0], times[1], times[2]));
    }
    let failures = outcome.deaths.iter().filter(|death| death.at.is_some()).count() as u32;
    let within = failures <= bounds::tolerated(*nodes);
    // A node that was declared falsely and stopped has not failed, so the number of failures behind the result is
    // unknown.
    let is_perfect = outcome.false_deaths == 0;
    let bound = |time: Duration| match (is_perfect, within) {
        (false, _) => "(no bound: the living were declared dead)".to_owned(),
        (_, true) => format!("(bound {:.3} s)", time.as_secs_f64()),
        (_, false) => format!("(bound {:.3} s, which is for fewer failures)", time.as_secs_f64()),
    };
    let lost = outcome.deaths.iter().filter(|death| death.at.is_some()).map(|death| death.node).collect();
    lines.push(format!("longest run of lost neighbours on the ring: {}", longest_run(&scenario.order, *nodes, &lost)));
    lines.push(match outcome.stable {
        Some(_) => {
            format!(
                "stable after {} {}",
                seconds(outcome.stable),
                bound(bounds::stable(failures, *nodes, scenario.times()))
            )
        }
        None => format!("not stable by the end of the run at {}", seconds(Some(outcome.end))),
    });
    lines.push(format!(
        "ring closed after {} {}",
        seconds(outcome.closed),
        bound(bounds::reconnected(failures, scenario.times()))
    ));
    let most = if is_perfect { format!(" (bound {})", bounds::broadcasts(failures)) } else { String::new() };
    lines.push(format!("{} broadcasts{most}", outcome.broadcasts));
    if outcome.false_deaths > 0 {
        lines.push(format!("{} nodes were declared dead while they were alive", outcome.false_deaths));
    }
    let counts: Vec<_> = outcome.messages.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let counts = if counts.is_empty() { "none".into() } else { counts.join(", ") };
    let each = outcome.message_count() as f64 / f64::from(*nodes);
    lines.push(format!("messages but heartbeats: {counts} ({each:.1} per node)"));
    lines.push(format!(
        "{} nodes alive, {} events simulated, {} copies only counted",
        outcome.alive, outcome.work.events, outcome.work.elided
    ));
    lines.join("\n").trim_start().to_owned() + "\n"
}
