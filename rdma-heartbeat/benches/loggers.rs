//! What event loggers cost: real `ringwatchd` of one host, and ranks that save determinants as fast as they become
//! stable. Prints a line of JSON per figure.
//!
//! ```text
//! cargo bench -p rdma-heartbeat --bench loggers -- --nodes 3 --failures 1 --clients 4 --batch 10 --seconds 2
//! ```

#[path = "../tests/cluster/mod.rs"]
mod cluster;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use event_log::determinant::{Determinant, DeterminantId, Event};
use event_log::logger::round::Position;
use logger_client::Client;
use serde_json::json;

/// Measures what event loggers cost.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    /// How many nodes the job has.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How many nodes may be lost.
    #[arg(long, default_value_t = 1)]
    failures: u32,
    /// How many ranks save determinants.
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// How many determinants each saves at a time.
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// For how long.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Given by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Part {
    /// One rank: begins when it reads a line.
    #[command(hide = true)]
    Client { socket: String, rank: u32, batch: u64, seconds: f64 },
}

fn determinants(first: DeterminantId, count: u64) -> Vec<Determinant> {
    let one =
        |id| Determinant { id, event: Event::Receive, communicator: 0, source: 3, tag: 7, request: id, repetitions: 1 };
    (first..first + count).map(one).collect()
}

/// Saves for a while and prints how long each took, in nanoseconds.
fn client(socket: &str, rank: u32, batch: u64, seconds: f64) {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the start");
    let mut client = Client::connect_to(socket).expect("a logger");
    client.take(rank, 0, Position::START, || {}).expect("a new rank");
    let (end, mut next, mut times) = (Instant::now() + Duration::from_secs_f64(seconds), 1, Vec::new());
    while Instant::now() < end {
        let begin = Instant::now();
        client.save(&determinants(next, batch)).expect("in order");
        next += batch;
        client.wait_stable(next - 1, || {}).expect("stable");
        times.push(begin.elapsed().as_nanos().to_string());
        // Memory is not what is measured.
        if next % 10_000 < batch {
            client.trim(next - 1);
        }
    }
    println!("{}", times.join(" "));
    // Its sequence is recovered while it is there.
    let _ = std::io::stdin().read_line(&mut line);
}

fn start(cluster: &cluster::Cluster, rank: u32, arguments: &Arguments) -> Child {
    let node = &cluster.nodes[rank as usize % cluster.nodes.len()];
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["client", &node.logger_name(), &rank.to_string(), &arguments.batch.to_string()]);
    command.arg(arguments.seconds.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().expect("a client");
    node.let_be_a_rank(child.id());
    child
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(Part::Client { socket, rank, batch, seconds }) = &arguments.part {
        return client(socket, *rank, *batch, *seconds);
    }
    let per_node = arguments.clients.div_ceil(u32::try_from(arguments.nodes).expect("a few nodes"));
    let mut launch = cluster::launch(&vec![per_node; arguments.nodes]);
    launch.parameters.timeout = Duration::from_secs(60);
    launch.parameters.period = Duration::from_millis(100);
    launch.parameters.log_level = "warn".into();
    launch.parameters.event_loggers = Some(arguments.failures);
    // Rank r is on node r modulo nodes, so that few clients are on different nodes.
    let nodes = launch.universe;
    launch.rank_nodes = (0..per_node * nodes).map(|rank| rank % nodes).collect();
    let cluster = cluster::Cluster::running(launch);
    let mut clients: Vec<_> = (0..arguments.clients).map(|rank| start(&cluster, rank, &arguments)).collect();
    clients.iter_mut().for_each(|child| child.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("a client"));
    let mut times: Vec<u64> = Vec::new();
    for child in &mut clients {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("figures");
        times.extend(line.split_whitespace().map(|time| time.parse::<u64>().expect("a number")));
    }
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1000.0;
    let Arguments { failures, batch, seconds, .. } = arguments;
    let rate = times.len() as f64 * batch as f64 / seconds / 1000.0;
    println!(
        "{}",
        json!({"nodes": arguments.nodes, "failures": failures, "clients": arguments.clients, "batch": batch,
            "saves": times.len(), "median us": at(0.5), "p99 us": at(0.99), "least us": at(0.0),
            "determinants per ms": rate})
    );
    for mut child in clients {
        drop(child.stdin.take());
        child.wait().expect("a client ends");
    }
}
