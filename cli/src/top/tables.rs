//! The texts of `ringwatch top`, from a report: no I/O.

use std::collections::BTreeMap;

use cli::timeline::reason_text;
use rdma_heartbeat::history::span;
use rdma_heartbeat::report::status::{Dead, Replacement, Report};

/// The columns of the table of nodes, with their widths; 0 takes what is left.
pub const NODES: [(&str, u16); 4] = [("NODE", 5), ("HOST", 12), ("HEARTBEAT", 10), ("STATE", 0)];
/// The same of the table of ranks.
pub const RANKS: [(&str, u16); 4] = [("RANK", 5), ("NODE", 5), ("PID", 8), ("STATE", 0)];
/// Most rows of a table: more are read by nobody.
const MOST: u32 = 10_000;

/// A row.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The texts.
    pub cells: [String; 4],
    /// Whether it is about somebody who is dead.
    pub is_dead: bool,
}

/// Three lines about the job.
pub fn head(report: &Report, (chosen, count): (usize, usize)) -> [String; 3] {
    let which = if count > 1 { format!(" ({} of {count})", chosen + 1) } else { String::new() };
    let slurm = report.slurm_job.as_ref().map_or_else(String::new, |number| format!(", Slurm's job {number}"));
    let dead_ranks = report.dead.iter().filter(|dead| dead.rank.is_some()).count();
    let dead_nodes = report.dead.len() - dead_ranks;
    let Report { job, user, mpirun_pid, node, host, stage, transport, ranks_total, universe, .. } = report;
    let (period, timeout) = (span(report.period_us), span(report.timeout_us));
    [
        format!("job {job}{which}: user {user}, mpirun pid {mpirun_pid}{slurm}"),
        format!(
            "{ranks_total} ranks, {dead_ranks} dead; {universe} nodes, {dead_nodes} dead; seen by node {node} ({host})"
        ),
        format!("{stage}, transport {transport}, period {period}, timeout {timeout}"),
    ]
}

/// A row for each node.
pub fn nodes(report: &Report) -> Vec<Shown> {
    let dead: BTreeMap<u32, &Dead> =
        report.dead.iter().filter(|dead| dead.rank.is_none()).filter_map(|dead| Some((dead.node?, dead))).collect();
    let row = |node: u32| {
        let host = report.hosts.get(node).unwrap_or("-").to_owned();
        let heartbeat = match report.last_heartbeat_us.filter(|_| report.emitter == Some(node)) {
            Some(age) => span(age),
            None if node == report.node => "here".into(),
            None => "-".into(),
        };
        let state = match dead.get(&node) {
            Some(dead) => format!("dead for {}: {}", span(dead.age_us), reason_text(&dead.reason)),
            None if report.emitter == Some(node) => format!("alive, watched by node {}", report.node),
            None if report.observer == Some(node) => format!("alive, watches node {}", report.node),
            None => "alive".into(),
        };
        Shown { cells: [node.to_string(), host, heartbeat, state], is_dead: dead.contains_key(&node) }
    };
    (0..report.universe.min(MOST)).map(row).collect()
}

/// A row for each rank of this node, and for each that is dead.
pub fn ranks(report: &Report) -> Vec<Shown> {
    let mut rows: BTreeMap<u32, Shown> = BTreeMap::new();
    for rank in &report.ranks {
        let [number, node] = [rank.rank, report.node].map(|number| number.to_string());
        let replica = rank.replica.map_or_else(String::new, |replica| format!(", {replica}"));
        let state = format!("{}{replica}", rank.phase);
        rows.insert(rank.rank, Shown { cells: [number, node, rank.pid.to_string(), state], is_dead: false });
    }
    for dead in &report.dead {
        let Some(rank) = dead.rank else { continue };
        let node = dead.node.map_or_else(|| "-".into(), |node| node.to_string());
        let pid = rows.get(&rank).map_or_else(|| "-".into(), |row| row.cells[2].clone());
        let replica = dead.replica.map_or_else(String::new, |replica| format!(", {replica}"));
        let state = format!("dead for {}: {}{replica}", span(dead.age_us), reason_text(&dead.reason));
        rows.insert(rank, Shown { cells: [rank.to_string(), node, pid, state], is_dead: true });
    }
    for Replacement { rank, spare, pid, events, left } in &report.replacements {
        let done = events.saturating_sub(*left);
        let state = match left {
            0 => format!("recovered by spare {spare}"),
            _ => format!("recovers by spare {spare}: {done} of {events} events"),
        };
        let cells = [rank.to_string(), report.node.to_string(), pid.to_string(), state];
        rows.insert(*rank, Shown { cells, is_dead: false });
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_abi::hosts::Hosts;
    use rdma_heartbeat::report::status::LocalRank;

    fn dead(node: u32, rank: Option<u32>, reason: &str) -> Dead {
        let reason = reason.to_owned();
        Dead { node: Some(node), rank, age_us: 2_000_000, reason, ..Dead::default() }
    }

    fn texts(rows: &[Shown]) -> Vec<String> {
        rows.iter().map(|row| format!("{} {}", row.cells.join("|"), row.is_dead)).collect()
    }

    #[test]
    fn the_dead_and_those_who_take_their_places_are_told_from_the_living() {
        let local = |rank, pid| LocalRank { rank, pid, phase: "running".into(), dead: false, replica: None };
        let report = Report {
            universe: 3,
            hosts: Hosts::new(["h1", "h2", "h3"].map(String::from).to_vec()),
            ranks: vec![local(0, 10), local(1, 11)],
            dead: vec![dead(0, Some(1), "signal:9"), dead(2, Some(5), "node-lost"), dead(2, None, "silent")],
            replacements: vec![Replacement { rank: 5, spare: 1, pid: 12, events: 9, left: 4 }],
            emitter: Some(1),
            last_heartbeat_us: Some(1500),
            ranks_total: 6,
            ..Report::default()
        };
        assert_eq!(
            texts(&nodes(&report)),
            [
                "0|h1|here|alive false",
                "1|h2|1.50 ms|alive, watched by node 0 false",
                "2|h3|-|dead for 2 s: silent true",
            ]
        );
        assert_eq!(
            texts(&ranks(&report)),
            [
                "0|0|10|running false",
                "1|0|11|dead for 2 s: killed by signal 9 true",
                "5|0|12|recovers by spare 1: 5 of 9 events false",
            ]
        );
        assert!(head(&report, (0, 2))[1].starts_with("6 ranks, 2 dead; 3 nodes, 1 dead"));
        assert!(head(&report, (0, 2))[0].contains("(1 of 2)"));
    }

    #[test]
    fn a_report_that_names_any_number_of_nodes_costs_no_memory() {
        assert_eq!(nodes(&Report { universe: u32::MAX, ..Report::default() }).len(), 10_000);
    }
}
