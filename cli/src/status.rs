//! `ringwatch status`: the ring as this node sees it.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use rdma_heartbeat::history::span;
use rdma_heartbeat::report::status::{Replacement, Report, SenderLog};

use crate::output::print;
use crate::wanted::Wanted;
use crate::{reports, unanswered};

/// The command line of `ringwatch status`.
#[derive(Args)]
pub struct Arguments {
    /// Print JSON, one array of reports; docs/json.md has the fields
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// Shows the rings.
pub fn show(Arguments { json, wanted }: &Arguments) -> ExitCode {
    let (reports, silent) = match reports::ask(wanted) {
        Ok(answers) => answers,
        Err(error) => {
            eprintln!("ringwatch: the list of local sockets cannot be read: {error}.");
            return ExitCode::FAILURE;
        }
    };
    unanswered::complain(&silent);
    if reports.is_empty() {
        let which = wanted.of_whom();
        eprintln!("ringwatch: no ringwatchd {which} runs on this node; mpirun starts it for jobs with --with-ft ulfm.");
        return ExitCode::FAILURE;
    }
    if *json {
        print(&(serde_json::to_string_pretty(&reports).expect("a report is plain data") + "\n"));
    } else {
        let texts: Vec<_> = reports.iter().map(describe).collect();
        print(&texts.join("\n"));
    }
    ExitCode::SUCCESS
}

fn describe(report: &Report) -> String {
    let mut text = String::new();
    write_report(&mut text, report).expect("writing to memory cannot fail");
    text
}

fn write_report(text: &mut String, report: &Report) -> fmt::Result {
    let Report { job, host, node, universe, stage, release, pid, runtime_pid, incarnation, transport, .. } = report;
    writeln!(text, "job {job}: node {node} of {universe} ({host}), {stage}")?;
    let slurm = report.slurm_job.as_ref().map_or_else(String::new, |number| format!(", Slurm's job {number}"));
    writeln!(text, "  user {}, mpirun pid {}{slurm}, {} ranks", report.user, report.mpirun_pid, report.ranks_total)?;
    let restarts = if *incarnation > 0 { format!(", restarted {incarnation} x") } else { String::new() };
    writeln!(text, "  ringwatchd {release} pid {pid}{restarts}, runtime daemon pid {runtime_pid}")?;
    let (period, timeout) = (span(report.period_us), span(report.timeout_us));
    writeln!(text, "  transport {transport}, period {period}, timeout {timeout}")?;
    for right in &report.lacks {
        writeln!(text, "  has no right {right}")?;
    }
    if let Some(machine) = &report.offload {
        let means = report.offload_means.as_deref().unwrap_or("packets");
        writeln!(text, "  is served by {machine}, where it raises its flag by {means}")?;
    }
    let by = |means: &Option<String>| format!("by {}", means.as_deref().unwrap_or(transport));
    let (comes, goes) = (by(&report.emitter_means), by(&report.observer_means));
    let named = |node| report.hosts.node(node);
    match (report.emitter, report.last_heartbeat_us) {
        (Some(node), Some(age)) => {
            writeln!(text, "  watches {} {comes}: last heartbeat {} ago", named(node), span(age))?
        }
        (Some(node), None) => writeln!(text, "  watches {}: no heartbeat yet", named(node))?,
        (None, _) => writeln!(text, "  watches nobody")?,
    }
    match report.observer {
        Some(node) => writeln!(text, "  is watched by {}, {goes}", named(node))?,
        None => writeln!(text, "  is watched by nobody")?,
    }
    writeln!(text, "  ring: {}", ring(report))?;
    writeln!(text, "  ring order {}, broadcast strategy {}", report.ring_order, report.strategy)?;
    writeln!(text, "  {}", list("", &report.counters))?;
    writeln!(text, "  {}", list("refused datagrams: ", &report.rejected))?;
    write_ranks(text, report)?;
    write_loggers(text, report)?;
    write_sender_logs(text, report)?;
    write_replacements(text, report)?;
    write_dead(text, report)
}

/// The living nodes in the order in which each is observed by the next, as this node sees it.
pub fn ring(report: &Report) -> String {
    const SHOWN: usize = 24;
    let Report { universe, ring, .. } = report;
    let dead: BTreeSet<_> =
        report.dead.iter().filter(|dead| dead.rank.is_none()).filter_map(|dead| dead.node).collect();
    // Only those that are shown are collected.
    let lives = |node: &u32| !dead.contains(node);
    let (first, living): (Vec<_>, _) = if ring.is_empty() {
        ((0..*universe).filter(lives).take(SHOWN).collect(), *universe as usize - dead.range(..*universe).count())
    } else {
        let living = ring.iter().copied().filter(lives);
        (living.clone().take(SHOWN).collect(), living.count())
    };
    let named =
        |node: &u32| report.hosts.get(*node).map_or_else(|| node.to_string(), |host| format!("{node} ({host})"));
    let names = first.iter().map(named).collect::<Vec<_>>().join(" > ");
    match living {
        0 | 1 => "this node alone".into(),
        2..=SHOWN => format!("{names} > {}, each watched by the next", named(&first[0])),
        many => format!("{names} > ... > {}, {many} nodes, each watched by the next", named(&first[0])),
    }
}

fn write_ranks(text: &mut String, report: &Report) -> fmt::Result {
    if report.ranks.is_empty() {
        return writeln!(text, "  no ranks on this node");
    }
    writeln!(text, "  {:>8} {:>8}  PHASE", "RANK", "PID")?;
    for rank in &report.ranks {
        let dead = if rank.dead { ", dead" } else { "" };
        let replica = rank.replica.map_or_else(String::new, |replica| format!(", {replica}"));
        writeln!(text, "  {:>8} {:>8}  {}{dead}{replica}", rank.rank, rank.pid, rank.phase)?;
    }
    Ok(())
}

fn write_loggers(text: &mut String, report: &Report) -> fmt::Result {
    if report.loggers.is_empty() {
        return Ok(());
    }
    writeln!(text, "  {:>8} {:>12} {:>10} {:>12} {:>12}", "LOGGED", "DETERMINANTS", "KB", "LAST", "TRIMMED")?;
    for held in &report.loggers {
        let (name, kilobytes) = (format!("rank {}", held.rank), held.bytes.div_ceil(1000));
        writeln!(text, "  {name:>8} {:>12} {kilobytes:>10} {:>12} {:>12}", held.determinants, held.last, held.trimmed)?;
    }
    Ok(())
}

fn write_sender_logs(text: &mut String, report: &Report) -> fmt::Result {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    for SenderLog { rank, pid, bytes, limit } in &report.sender_logs {
        let (kept, limit) = (megabytes(*bytes), megabytes(*limit));
        writeln!(text, "  rank {rank} (pid {pid}) keeps {kept:.3} MB of what it has sent, at most {limit:.0} MB")?;
    }
    Ok(())
}

fn write_replacements(text: &mut String, report: &Report) -> fmt::Result {
    for Replacement { rank, spare, pid, events, left } in &report.replacements {
        let replay = match left {
            0 => format!("has repeated {events} events"),
            left => format!("has repeated {} of {events} events", events.saturating_sub(*left)),
        };
        writeln!(text, "  pid {pid}, spare {spare}, has the place of rank {rank} and {replay}")?;
    }
    Ok(())
}

fn write_dead(text: &mut String, report: &Report) -> fmt::Result {
    if report.dead.is_empty() {
        return writeln!(text, "  nobody is dead");
    }
    let titles = ("DEAD", "NODE", "SINCE", "REASON", "SAID BY", "SEEN BY");
    writeln!(
        text,
        "  {:>12} {:>12} {:>10}  {:<20} {:>12} {:>12}",
        titles.0, titles.1, titles.2, titles.3, titles.4, titles.5
    )?;
    let number = |number: Option<u32>| {
        let host = number.and_then(|node| report.hosts.get(node)).map(|host| format!(" ({host})"));
        number.map_or_else(|| "-".into(), |number| format!("{number}{}", host.unwrap_or_default()))
    };
    for dead in &report.dead {
        let who = dead.rank.map_or_else(|| "the node".into(), |rank| format!("rank {rank}"));
        let (node, since) = (number(dead.node), span(dead.age_us));
        let (source, suspector) = (number(dead.source), number(dead.suspector));
        let replica = dead.replica.map_or_else(String::new, |replica| format!("  ({replica})"));
        writeln!(
            text,
            "  {who:>12} {node:>12} {since:>10}  {:<20} {source:>12} {suspector:>12}{replica}",
            dead.reason
        )?;
    }
    if report.dead_total > report.dead.len() {
        writeln!(text, "  and {} more", report.dead_total - report.dead.len())?;
    }
    Ok(())
}

fn list(title: &str, counters: &std::collections::BTreeMap<String, u64>) -> String {
    let some: Vec<_> =
        counters.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}")).collect();
    if some.is_empty() { format!("{title}none") } else { format!("{title}{}", some.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_abi::segment::replicas::ReplicaOf;
    use rdma_heartbeat::report::status::{Dead, Held, LocalRank};

    fn ring_of(universe: u32, order: &[u32], dead: &[u32]) -> String {
        let dead = dead.iter().map(|node| Dead { node: Some(*node), ..Dead::default() });
        ring(&Report { universe, ring: order.to_vec(), dead: dead.collect(), ..Report::default() })
    }

    #[test]
    fn the_ring_has_the_living_in_their_order() {
        assert_eq!(ring_of(4, &[], &[1, 9]), "0 > 2 > 3 > 0, each watched by the next");
        assert_eq!(ring_of(4, &[3, 1, 0, 2], &[1]), "3 > 0 > 2 > 3, each watched by the next");
        assert_eq!(ring_of(2, &[], &[1]), "this node alone");
        assert_eq!(ring_of(0, &[], &[]), "this node alone");
        assert!(ring_of(24, &[], &[]).ends_with("22 > 23 > 0, each watched by the next"));
        assert!(ring_of(26, &[], &[3]).ends_with("23 > 24 > ... > 0, 25 nodes, each watched by the next"));
    }

    #[test]
    fn what_a_daemon_has_no_right_to_is_told_with_the_way_to_give_it() {
        let lacks = ["to run first (give it so)", "to lock memory (give it so)"].map(String::from).to_vec();
        let text = describe(&Report { lacks, ..Report::default() });
        assert_eq!(text.matches("  has no right to ").count(), 2, "{text}");
        assert!(text.contains("has no right to run first (give it so)\n"), "{text}");
    }

    #[test]
    fn what_the_event_logger_keeps_is_shown_by_rank() {
        let held = Held { rank: 3, determinants: 20, bytes: 1440, last: 120, trimmed: 100 };
        let text = describe(&Report { loggers: vec![held], ..Report::default() });
        assert!(text.contains("    rank 3           20          2          120          100\n"), "{text}");
        assert!(!describe(&Report::default()).contains("DETERMINANTS"));
    }

    #[test]
    fn processes_are_named_as_replicas() {
        let of = |of, index| Some(ReplicaOf { of, index });
        let rank = LocalRank { rank: 5, pid: 77, phase: "running".into(), dead: false, replica: of(1, 1) };
        let reason = "signal:9".into();
        let dead = Dead { node: Some(0), rank: Some(2), replica: of(2, 0), reason, ..Dead::default() };
        let text = describe(&Report { ranks: vec![rank], dead: vec![dead], dead_total: 1, ..Report::default() });
        assert!(text.contains("       5       77  running, replica 1 of rank 1\n"), "{text}");
        assert!(text.contains("(replica 0 of rank 2)\n"), "{text}");
    }

    /// Whatever number of nodes an answer names, it costs no memory.
    #[test]
    fn of_a_large_ring_only_the_beginning_is_looked_at() {
        let text = ring_of(u32::MAX, &[], &[0, 1]);
        assert!(text.starts_with("2 > 3 > ") && text.contains("4294967293 nodes"), "{text}");
    }
}
