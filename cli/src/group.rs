//! `ringwatch group`: groups of recommended processes, as the processes of this node see them now, or as a picture of
//! their history.

mod picture;

use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rdma_heartbeat::history::span;
use rdma_heartbeat::report::status::{GroupRow, GroupView, Report};
use recommended_group::report::{Standing, Verdict};

use crate::output::print;
use crate::wanted::Wanted;
use crate::{past, reports, unanswered};

/// So many intervals or seconds, whichever is longer, is not long ago.
const RECENT: u64 = 3;

/// The command line of `ringwatch group`.
#[derive(Args)]
pub struct Arguments {
    /// Print JSON: the reports of ringwatch status that have groups; docs/json.md has the fields
    #[arg(long, conflicts_with = "out")]
    json: bool,
    /// Show what this rank of the node sees [default: the first that is in the group]
    #[arg(long, value_name = "RANK", conflicts_with_all = ["json", "out"])]
    by: Option<u32>,
    /// Draw the members over time, and who was outside when, into this SVG file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    /// With --out: read and merge histories that psensor_ringwatch_events has kept, instead of asking
    #[arg(value_name = "HISTORY", requires = "out")]
    files: Vec<PathBuf>,
}

/// Shows or draws the groups.
pub fn show(arguments: &Arguments) -> ExitCode {
    let shown = match &arguments.out {
        Some(out) => draw(out, &arguments.wanted, &arguments.files),
        None => show_now(arguments),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("ringwatch: {problem}.");
            ExitCode::FAILURE
        }
    }
}

fn draw(out: &Path, wanted: &Wanted, files: &[PathBuf]) -> Result<(), String> {
    let records = past::records(wanted, files)?;
    let text = picture::svg(&records).ok_or("the history has no group of recommended processes")?;
    fs::write(out, text).map_err(|error| format!("{} cannot be written: {error}", out.display()))
}

fn show_now(Arguments { json, by, wanted, .. }: &Arguments) -> Result<(), String> {
    let (mut reports, silent) =
        reports::ask(wanted).map_err(|error| format!("the list of local sockets cannot be read: {error}"))?;
    unanswered::complain(&silent);
    reports.retain(|report| !report.groups.is_empty());
    if reports.is_empty() {
        let which = wanted.of_whom();
        return Err(format!("no rank of a job {which} on this node is in a group of recommended processes"));
    }
    if *json {
        print(&(serde_json::to_string_pretty(&reports).expect("a report is plain data") + "\n"));
        return Ok(());
    }
    let texts: Vec<String> = reports.iter().filter_map(|report| describe(report, *by)).collect();
    if texts.is_empty() {
        return Err("no such rank on this node is in a group of recommended processes".into());
    }
    print(&texts.join("\n"));
    Ok(())
}

/// The groups of a report, each as one of its processes sees it; none if there is no such process.
fn describe(report: &Report, by: Option<u32>) -> Option<String> {
    let mut groups: Vec<u32> = report.groups.iter().map(|view| view.group).collect();
    // The views are those of one rank after the other, whatever groups these are in.
    groups.sort_unstable();
    groups.dedup();
    let mut text = format!("job {}: node {} ({})\n", report.job, report.node, report.host);
    let mut is_empty = true;
    for group in groups {
        let views = || report.groups.iter().filter(|view| view.group == group);
        let chosen = match by {
            Some(by) => views().find(|view| view.rank == by),
            None => views().find(is_good).or_else(|| views().next()),
        };
        if let Some(view) = chosen {
            is_empty = false;
            let others: Vec<u32> = views().map(|other| other.rank).filter(|rank| *rank != view.rank).collect();
            write_view(&mut text, view, &others).expect("writing to memory cannot fail");
        }
    }
    (!is_empty).then_some(text)
}

/// Whether a process is in its group, as it has said not long ago: one that is stopped says nothing new.
fn is_good(view: &&GroupView) -> bool {
    let is_member = |row: &GroupRow| row.rank == view.rank && row.standing == Standing::Member;
    view.age_us <= RECENT * view.interval_us.max(1_000_000) && view.rows.iter().any(is_member)
}

fn write_view(text: &mut String, view: &GroupView, others: &[u32]) -> fmt::Result {
    let members = view.rows.iter().filter(|row| row.standing == Standing::Member).count();
    writeln!(text, "  group of rank {}: {members} of {} processes are recommended", view.group, view.processes)?;
    let waits = if view.waits { ", waits for the next one" } else { "" };
    writeln!(
        text,
        "  as rank {} saw it {} ago, in round {}, epoch {}{waits}",
        view.rank,
        span(view.age_us),
        view.round,
        view.epoch
    )?;
    let (interval, addend) = (span(view.interval_us), span(view.addend_us));
    let multiplier = f64::from(view.multiplier) / 1000.0;
    let returns = if view.returns { format!("back after {} passes", view.passes) } else { "nobody comes back".into() };
    writeln!(
        text,
        "  a test every {interval} ({}), threshold {multiplier} times TCP's estimate and {addend}, {returns}",
        view.assignment
    )?;
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(u32::to_string).collect();
        writeln!(text, "  --by shows what rank {} sees", others.join(", "))?;
    }
    writeln!(
        text,
        "  {:>8}  {:<8} {:>5} {:>7} {:>6} {:>10}  LAST TEST",
        "RANK", "STATE", "ROUND", "COUNTER", "PASSES", "THRESHOLD"
    )?;
    for row in &view.rows {
        let state = match row.standing {
            Standing::Member => "member",
            Standing::Evicted => "evicted",
            Standing::Dead => "dead",
            Standing::Left => "complete",
        };
        let in_round = if row.in_round { "in" } else { "out" };
        let passes = if row.standing == Standing::Evicted { row.streak.to_string() } else { "-".into() };
        let (threshold, test) = if row.rank == view.rank {
            ("-".into(), "itself".into())
        } else {
            (span(row.threshold_us), last_test(row))
        };
        writeln!(
            text,
            "  {:>8}  {state:<8} {in_round:>5} {:>7} {passes:>6} {threshold:>10}  {test}",
            row.rank, row.counter
        )?;
    }
    Ok(())
}

fn last_test(row: &GroupRow) -> String {
    let reply = row.reply_us.map_or_else(|| "no answer".into(), |reply| format!("answer after {}", span(reply)));
    match row.verdict {
        None => "-".into(),
        Some(Verdict::Passed) => format!("{reply}, passed"),
        Some(Verdict::Late) => format!("{reply}, late"),
        Some(Verdict::Wrong) => format!("{reply}, wrong"),
        Some(Verdict::Silent) => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rank: u32, standing: Standing, verdict: Option<Verdict>, reply_us: Option<u64>) -> GroupRow {
        let (counter, streak) = (u32::from(standing == Standing::Evicted), 3);
        GroupRow { rank, standing, in_round: true, counter, streak, threshold_us: 20_300, verdict, reply_us }
    }

    fn report() -> Report {
        let view = |rank, standing| GroupView {
            rank,
            group: 4,
            processes: 3,
            multiplier: 2500,
            returns: true,
            rows: vec![
                row(4, standing, None, None),
                row(5, Standing::Member, Some(Verdict::Passed), Some(120)),
                row(6, Standing::Evicted, Some(Verdict::Silent), None),
            ],
            ..GroupView::default()
        };
        Report { groups: vec![view(4, Standing::Evicted), view(5, Standing::Member)], ..Report::default() }
    }

    #[test]
    fn a_group_is_shown_as_a_member_sees_it_unless_another_one_is_asked_for() {
        let text = describe(&report(), None).unwrap();
        assert!(text.contains("group of rank 4: 2 of 3 processes are recommended\n"), "{text}");
        assert!(text.contains("as rank 5 saw it") && text.contains("--by shows what rank 4 sees\n"), "{text}");
        let line = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "6 evicted in 1 3 20 ms no answer");
        let text = describe(&report(), Some(4)).unwrap();
        assert!(text.contains("as rank 4 saw it") && text.contains("answer after 120 us, passed\n"), "{text}");
        assert_eq!(describe(&report(), Some(6)), None);
    }

    #[test]
    fn groups_whose_ranks_take_turns_are_shown_once_each() {
        let view = |rank| GroupView { rank, group: rank % 2, processes: 4, ..GroupView::default() };
        let report = Report { groups: (0..4).map(view).collect(), ..Report::default() };
        let text = describe(&report, None).unwrap();
        let heads: Vec<&str> = text.lines().filter(|line| line.contains("group of rank")).collect();
        assert_eq!(heads.len(), 2, "{text}");
        assert!(heads[0].contains("group of rank 0:") && heads[1].contains("group of rank 1:"), "{text}");
    }
}
