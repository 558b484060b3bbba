//! `ringwatch check`: whether nodes can take part in a job.

mod datagrams;
mod facts;
mod hosts;
mod judge;
mod settings;
mod shell;
mod slurm;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::output::{print, refuse};
use facts::Facts;
use judge::{Finding, Node, Wanted, findings};
use settings::Settings;
use shell::{Call, Calls};

/// How long a node may take to tell of itself, and then to exchange datagrams.
const PATIENCE: Duration = Duration::from_secs(15);

/// The command line of `ringwatch check`.
#[derive(Args)]
pub struct Arguments {
    /// Hosts, a line each, as mpirun takes them
    #[arg(value_name = "HOSTFILE", required_unless_present = "probe")]
    hostfile: Option<PathBuf>,
    /// The remote shell with its options
    #[arg(long, value_name = "COMMAND", env = "PRTE_MCA_plm_ssh_agent", hide_env = true, default_value = "ssh")]
    agent: String,
    /// UDP ports, as in psensor_ringwatch_port_range [default: what the environment or PMIx's parameter file says]
    #[arg(long, value_name = "FIRST-LAST", env = "PMIX_MCA_psensor_ringwatch_port_range", hide_env = true,
        value_parser = ports)]
    port_range: Option<(u16, u16)>,
    /// Interfaces, as in psensor_ringwatch_if_include [default: the same]
    #[arg(long, value_name = "NAMES", env = "PMIX_MCA_psensor_ringwatch_if_include", hide_env = true,
        value_delimiter = ',', value_parser = interface)]
    if_include: Vec<String>,
    /// Tell of this node on standard output: what is started on each host
    #[arg(long, hide = true)]
    probe: bool,
}

/// What a node is told: the others' numbers and addresses.
#[derive(Serialize, Deserialize)]
struct Order {
    nonce: String,
    me: usize,
    others: Vec<(usize, SocketAddrV4)>,
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let expected = || "it must be two ports from 1024 to 65535 such as 40000-40999, or 0 for any".to_owned();
    if text.trim() == "0" {
        return Ok((0, 0));
    }
    let (first, last) = text.split_once('-').ok_or_else(expected)?;
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if (1024..=last).contains(&first) => Ok((first, last)),
        _ => Err(expected()),
    }
}

/// A name, an address or a subnet: what a remote shell takes for no more than a word.
fn interface(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:/_-".contains(c);
    let text = text.trim();
    if text.chars().all(is_plain) { Ok(text.to_owned()) } else { Err("it is no interface, address or subnet".into()) }
}

/// Checks all nodes, or tells of this one.
pub fn check(arguments: &Arguments) -> ExitCode {
    let Some(path) = arguments.hostfile.as_ref().filter(|_| !arguments.probe) else { return probe(arguments) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
    let names = match text.and_then(|text| hosts::read(&text)) {
        Ok(names) => names,
        Err(problem) => return refuse(&problem),
    };
    let settings = Settings::read();
    let asked = ports_and_interfaces(arguments, &settings)
        .and_then(|asked| Ok((ask(arguments, &asked, &names, &settings)?, asked.interfaces)));
    let (nodes, interfaces) = match asked {
        Ok(asked) => asked,
        Err(problem) => return refuse(&problem),
    };
    let mut found = findings(&nodes, &facts::gather(&interfaces));
    let of_slurm = |sentence| Finding { node: "Slurm".into(), sentence, is_fault: false };
    found.extend(slurm::notes().into_iter().map(of_slurm));
    print(&table(&nodes, &found));
    let is_well = !found.iter().any(|finding| finding.is_fault);
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What heartbeats may use.
struct Asked {
    ports: (u16, u16),
    interfaces: Vec<String>,
}

/// The command line counts for more than the parameter files.
fn ports_and_interfaces(arguments: &Arguments, settings: &Settings) -> Result<Asked, String> {
    let named = |name: &str, problem: String| format!("parameter psensor_ringwatch_{name}: {problem}");
    let ports = match arguments.port_range {
        Some(range) => range,
        None if settings.port_range.is_empty() => (0, 0),
        None => ports(&settings.port_range).map_err(|problem| named("port_range", problem))?,
    };
    let interfaces = if arguments.if_include.is_empty() {
        let words = settings.if_include.split(',').filter(|word| !word.trim().is_empty());
        words.map(interface).collect::<Result<_, _>>().map_err(|problem| named("if_include", problem))?
    } else {
        arguments.if_include.clone()
    };
    Ok(Asked { ports, interfaces })
}

/// Asks all nodes at once, and the machines that serve them, and then has them exchange datagrams.
fn ask(arguments: &Arguments, asked: &Asked, names: &[String], settings: &Settings) -> Result<Vec<Node>, String> {
    let (first, last) = asked.ports;
    let range = if first == 0 { "0".to_owned() } else { format!("{first}-{last}") };
    let mut command = format!("ringwatch check --probe --port-range {range}");
    if !asked.interfaces.is_empty() {
        let _ = write!(command, " --if-include {}", asked.interfaces.join(","));
    }
    let machines = names.iter().filter_map(|name| settings.machine_of(name));
    let machines: BTreeSet<&str> = machines.filter(|machine| !names.iter().any(|name| name == machine)).collect();
    if let Some(bad) = machines.iter().find(|machine| hosts::read(machine).is_err()) {
        return Err(format!("parameter psensor_ringwatch_offload: '{bad}' is no name of a host"));
    }
    let mut calls = Calls::default();
    let everybody = || names.iter().map(String::as_str).chain(machines.iter().copied());
    everybody().for_each(|name| calls.add(Call::start(&arguments.agent, name, &command)));
    let began = facts::now_us();
    let mut nodes = Vec::new();
    for (name, answer) in everybody().zip(calls.answers(PATIENCE)) {
        let told = answer.and_then(|(at, line)| {
            let facts: Facts = serde_json::from_str(&line).map_err(|_| "its ringwatch has no check".to_owned())?;
            Ok((at, facts))
        });
        let asked_us = (began, told.as_ref().map_or(began, |(at, _)| *at));
        let wanted = Wanted {
            // A machine that serves hosts runs no ranks.
            components: !machines.contains(name),
            rdma: settings.wants_rdma || machines.contains(name) || settings.machine_of(name).is_some(),
        };
        let facts = told.map(|(_, facts)| facts);
        nodes.push(Node { name: name.to_owned(), facts, asked_us, heard: None, wanted });
    }
    let random = platform::random::bytes::<16>().map_err(|error| format!("there are no random numbers: {error}"))?;
    let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    for me in 0..nodes.len() {
        let order = Order { nonce: nonce.clone(), me, others: places(&nodes, me) };
        calls.tell(me, &serde_json::to_string(&order).expect("an order is plain data"));
    }
    for (node, answer) in nodes.iter_mut().zip(calls.answers(PATIENCE)) {
        node.heard = answer.ok().and_then(|(_, line)| serde_json::from_str::<BTreeSet<usize>>(&line).ok());
    }
    Ok(nodes)
}

/// Where the nodes but `me` can be reached.
fn places(nodes: &[Node], me: usize) -> Vec<(usize, SocketAddrV4)> {
    let mut places = Vec::new();
    for (number, node) in nodes.iter().enumerate().filter(|(number, _)| *number != me) {
        let Ok(Facts { port: Ok(port), addresses, .. }) = &node.facts else { continue };
        places.extend(addresses.iter().map(|address| (number, SocketAddrV4::new(*address, *port))));
    }
    places
}

/// Tells of this node, waits for the others' addresses, and tells from whom datagrams came.
fn probe(arguments: &Arguments) -> ExitCode {
    let mut own = facts::gather(&arguments.if_include);
    let socket = datagrams::open(arguments.port_range.unwrap_or((0, 0)));
    let port = socket.as_ref().map_err(ToString::to_string);
    own.port = port.and_then(|socket| socket.local_addr().map(|at| at.port()).map_err(|error| error.to_string()));
    own.clock_us = facts::now_us();
    let mut out = std::io::stdout();
    let told =
        writeln!(out, "{}", serde_json::to_string(&own).expect("facts are plain data")).and_then(|()| out.flush());
    let mut line = String::new();
    if told.is_err() || std::io::stdin().lock().read_line(&mut line).is_err() {
        return ExitCode::FAILURE;
    }
    let (Ok(order), Ok(socket)) = (serde_json::from_str::<Order>(&line), socket) else { return ExitCode::FAILURE };
    let heard = datagrams::exchange(&socket, &order.nonce, order.me, &order.others);
    let told = writeln!(out, "{}", serde_json::to_string(&heard).expect("numbers are plain data"));
    if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn table(nodes: &[Node], found: &[Finding]) -> String {
    let width = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0).max(4);
    let release = nodes.iter().filter_map(|node| node.facts.as_ref().ok()).map(|facts| facts.release.len()).max();
    let wide = release.unwrap_or(0).max(7);
    let mut text = format!(
        "{:width$}  {:wide$}  {:>9}  {:8}  {:>9}  {:>9}\n",
        "node", "release", "datagrams", "priority", "clock", "free"
    );
    let others = nodes.len() - 1;
    for node in nodes {
        let Ok(facts) = &node.facts else {
            let _ = writeln!(text, "{:width$}  no answer", node.name);
            continue;
        };
        let heard = format!("{}/{others}", node.heard.as_ref().map_or(0, BTreeSet::len));
        let clock = judge::offset(node).map_or_else(String::new, |off| format!("{:+} s", off / 1_000_000));
        let free = facts.free_kib.iter().map(|(_, free)| free / 1024).min().unwrap_or(0);
        let priority = if facts.has_priority { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "{:width$}  {:wide$}  {heard:>9}  {priority:8}  {clock:>9}  {:>9}",
            node.name,
            facts.release,
            format!("{free} MiB")
        );
    }
    for Finding { node, sentence, is_fault } in found {
        let _ = writeln!(text, "{}{node}: {sentence}.", if *is_fault { "" } else { "note: " });
    }
    text
}
