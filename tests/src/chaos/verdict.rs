//! What is to be true of a job after what has happened to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::inject::Struck;
use super::plan::{Fault, Plan};
use crate::diary::{Diaries, PROC_FAILED};
use crate::{Outcome, TIMEOUT};

/// How a job went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As promised.
    Held,
    /// Not, because of a limit that README names.
    Limit(&'static str),
    /// Not.
    Broken(String),
}

/// Checks what the plan promises of its end.
///
/// # Panics
/// With everything that is known about the job, if a promise is broken.
pub fn judge(plan: &Plan, struck: &Struck, outcome: &Outcome, events: &Path) -> Verdict {
    if ended_while_spawning(plan, struck, &outcome.stderr) {
        outcome.gave_up(&["the job is ended"]);
        return Verdict::Limit("a death among those that spawn or are being spawned ends the job");
    }
    match plan.faults.last() {
        Some((_, Fault::Init { .. })) => ended_or_recovered(outcome),
        Some((_, Fault::Launcher)) => {
            outcome.require(outcome.diaries.all("done").next().is_none(), "no rank comes to its end");
            outcome.lost_its_launcher(&["prterun", "was lost", "ended"]);
            // What they agreed on they did before.
            return Verdict::Held;
        }
        Some((_, Fault::Finalize { rank, .. })) => {
            let dead = dead(struck, outcome, Some(*rank));
            for survivor in outcome.survivors(&dead).into_iter().filter(|survivor| survivor != rank) {
                let code = outcome.diaries.first(survivor, "finalized").map(|entry| entry.text());
                let known = code.as_deref() == Some("0") || code.as_deref() == Some(PROC_FAILED);
                outcome.require(known, &format!("MPI_Finalize of rank {survivor} returns, not {code:?}"));
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0");
            outcome.no_lies().left_nothing();
            is_declared(outcome, &dead, struck, Some(*rank), events);
        }
        _ => {
            let dead = dead(struck, outcome, None);
            outcome.finished_without(&dead);
            is_declared(outcome, &dead, struck, None, events);
        }
    }
    one_side(outcome, struck);
    Verdict::Held
}

/// Whether ringwatch has said that the job ends because of one who was being spawned: that one has died, or given up as its
/// `MPI_Init` failed, and somebody was struck before.
#[must_use]
pub fn ended_while_spawning(plan: &Plan, struck: &Struck, stderr: &str) -> bool {
    let is_spawned = |rank: &str| rank.parse().is_ok_and(|rank: u32| rank >= plan.ranks());
    let says_so = |line: &str| {
        let said = line.strip_prefix("ringwatch: rank ").and_then(|rest| rest.split_once(' '));
        said.is_some_and(|(rank, what)| {
            let died = what.ends_with(
                "ended before it had left MPI_Init, where those who spawned it wait for it; the job is ended",
            );
            is_spawned(rank) && (died || what == "called MPI_Abort; the job is ended")
        })
    };
    let somebody = !struck.must.is_empty() || !struck.may.is_empty();
    plan.spawns() && somebody && stderr.lines().any(says_so)
}

/// A death in `MPI_Init` ends the job with a status and a sentence, or those whose `MPI_Init` returned go on.
fn ended_or_recovered(outcome: &Outcome) {
    if outcome.status != 0 {
        outcome.gave_up(&[]);
        return;
    }
    let all: BTreeSet<u32> = outcome.diaries.all("initialised").map(|entry| entry.rank).collect();
    outcome.require(!all.is_empty(), "mpirun's status is 0 only if there are survivors");
    for rank in all {
        outcome.finalized(rank);
    }
    outcome.no_lies().left_nothing();
}

/// Who did not come to an end: everybody who must be dead, and nobody who must not.
fn dead(struck: &Struck, outcome: &Outcome, spared: Option<u32>) -> Vec<u32> {
    let ended = |rank: &u32| outcome.diaries.has(*rank, "finalized") || spared == Some(*rank);
    let dead: Vec<u32> = outcome.survivors(&[]).into_iter().filter(|rank| !ended(rank)).collect();
    let missed: Vec<_> = struck.must.iter().filter(|rank| !dead.contains(rank)).collect();
    outcome.require(missed.is_empty(), &format!("the dead do not come to an end, as {missed:?} did"));
    let harmed: Vec<_> = dead.iter().filter(|rank| !struck.must.contains(rank) && !struck.may.contains(rank)).collect();
    outcome.require(harmed.is_empty(), &format!("all others come to their end, but not {harmed:?}"));
    dead
}

/// The history of the job has every death and no other.
fn is_declared(outcome: &Outcome, dead: &[u32], struck: &Struck, spared: Option<u32>, events: &Path) {
    let mut declared = BTreeSet::new();
    for line in history(events).lines() {
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        match record["event"].as_str() {
            Some("rank-dead") => declared.extend(number(&record["rank"])),
            Some("node-dead") => declared.extend(record["ranks"].as_array().into_iter().flatten().filter_map(number)),
            _ => {}
        }
    }
    declared.extend(dead.iter().filter(|rank| may_go_unsaid(**rank, struck, outcome.ended_at)));
    // Spawned ones die with their nodes, and nothing is planned for them.
    declared.retain(|rank| spared != Some(*rank) && !outcome.is_spawned(*rank));
    let what = format!("the history declares {dead:?}, and nobody else, not {declared:?}");
    outcome.require(declared.iter().eq(dead), &what);
}

/// Broken connections tell the survivors, too: a job may have ended before its nodes have said who died, if that takes a
/// new ringwatchd because one was struck as well.
fn may_go_unsaid(rank: u32, struck: &Struck, ended_at: Duration) -> bool {
    let soon = TIMEOUT * 4;
    struck.at.get(&rank).is_some_and(|at| {
        ended_at.saturating_sub(*at) < soon && struck.watchers.iter().any(|watcher| watcher.abs_diff(*at) < soon)
    })
}

/// What the job wrote into its file of events.
#[must_use]
pub fn history(events: &Path) -> String {
    let files = events.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let lines = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    lines.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// The dead have repaired nothing among themselves.
fn one_side(outcome: &Outcome, struck: &Struck) {
    let is_gone = |rank: u32| struck.must.contains(&rank) || struck.may.contains(&rank);
    for entry in outcome.diaries.all("agreed").filter(|entry| is_gone(entry.rank)) {
        let near = |other: Duration| other.abs_diff(entry.at) < Duration::from_secs(5);
        let same = |other: &&crate::diary::Entry| other.number(0) == entry.number(0) && near(other.at);
        let shared = outcome.diaries.all("agreed").filter(same).any(|other| !is_gone(other.rank));
        outcome.require(shared, &format!("only one side goes on, not also {entry:?}"));
    }
}

/// The limit of Open MPI that explains a broken promise, by its name in README. `stderr` is mpirun's.
#[must_use]
pub fn limit(diaries: &Diaries, struck: &Struck, stderr: &str) -> Option<&'static str> {
    let ranks: BTreeSet<u32> = diaries.0.iter().map(|entry| entry.rank).collect();
    let spared: Vec<u32> = ranks.into_iter().filter(|rank| !struck.must.contains(rank)).collect();
    if !struck.log.is_empty() && stderr.contains("Recv error after request freed") {
        return Some("Open MPI aborts over a receive that it has freed (neighbourhood collectives, coll/basic)");
    }
    let crashed = |rank: &u32| is_crash_in_agreement(diaries, *rank, stderr);
    (!struck.log.is_empty() && spared.iter().any(crashed))
        .then_some("crash in MPIX_Comm_shrink or MPIX_Comm_agree (era_mark_process_failed)")
}

/// Whether Open MPI itself says that this rank has crashed, and the rank that it was in an agreement.
fn is_crash_in_agreement(diaries: &Diaries, rank: u32, stderr: &str) -> bool {
    let agrees = diaries.of(rank).next_back().is_some_and(|last| ["revoked", "shrunk"].contains(&last.event.as_str()));
    let says_so =
        |pid: i32| stderr.lines().any(|line| line.contains(&format!(":{pid:05}] Signal: Segmentation fault")));
    agrees && diaries.pid(rank).is_some_and(says_so)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diary::Entry;

    fn diaries(lines: &[(u32, &str, &str)]) -> Diaries {
        let entry = |(at, &(rank, event, text)): (usize, &(u32, &str, &str))| {
            let details = text.split_whitespace().map(str::to_owned).collect();
            Entry { rank, at: Duration::from_millis(at as u64), event: event.to_owned(), details }
        };
        Diaries(lines.iter().enumerate().map(entry).collect())
    }

    fn struck() -> Struck {
        Struck { must: [1].into(), log: vec![(Duration::ZERO, "strikes".to_owned())], ..Struck::default() }
    }

    #[test]
    fn what_open_mpi_says_of_itself_counts_only_after_a_fault() {
        let said = "[h1:00000] *** An error occurred in Recv error after request freed\n";
        assert!(limit(&Diaries::default(), &struck(), said).is_some());
        assert_eq!(limit(&Diaries::default(), &Struck::default(), said), None);
    }

    #[test]
    fn only_a_death_of_one_who_is_being_spawned_ends_a_job_that_spawns() {
        let spawns = (0..).map(Plan::new).find(Plan::spawns).expect("one in six");
        let others = (0..).map(Plan::new).find(|plan| !plan.spawns()).expect("five in six");
        let died = "ended before it had left MPI_Init, where those who spawned it wait for it; the job is ended";
        let said = [
            format!("{} (node 1) {died}", spawns.ranks()),
            format!("{} called MPI_Abort; the job is ended", spawns.ranks()),
        ];
        for sentence in said.map(|said| format!("noise\nringwatch: rank {said}\n")) {
            assert!(ended_while_spawning(&spawns, &struck(), &sentence), "{sentence}");
            assert!(!ended_while_spawning(&others, &struck(), &sentence), "nothing is spawned");
            assert!(!ended_while_spawning(&spawns, &Struck::default(), &sentence), "nothing has happened");
        }
        let other = format!("ringwatch: rank {} called MPI_Abort; the job is ended\n", spawns.ranks() - 1);
        assert!(!ended_while_spawning(&spawns, &struck(), &other), "not a spawned one");
        assert!(!ended_while_spawning(&spawns, &struck(), "ringwatch: node 2 is dead; the job is ended\n"));
    }

    #[test]
    fn a_crash_counts_only_in_an_agreement_of_a_survivor() {
        let said = "[h3:00417] *** Process received signal ***\n[h3:00417] Signal: Segmentation fault (11)\n";
        let agrees = |rank| diaries(&[(rank, "started", "417 h3"), (rank, "error", "75"), (rank, "revoked", "")]);
        assert!(limit(&agrees(4), &struck(), said).is_some());
        assert_eq!(limit(&agrees(4), &struck(), ""), None);
        assert_eq!(limit(&agrees(1), &struck(), said), None, "that one was struck");
        assert_eq!(limit(&agrees(4), &Struck::default(), said), None, "nothing has happened");
        let computes = diaries(&[(4, "started", "417 h3"), (4, "revoked", ""), (4, "agreed", "5")]);
        assert_eq!(limit(&computes, &struck(), said), None);
    }

    #[test]
    fn a_death_goes_unsaid_only_just_before_the_end_and_beside_a_ringwatchd_that_was_struck() {
        let at = |ms: u64| Duration::from_secs(100) + Duration::from_millis(ms);
        let struck = |watchers: &[Duration]| Struck {
            at: [(1, at(0))].into(),
            watchers: watchers.to_vec(),
            ..Struck::default()
        };
        assert!(may_go_unsaid(1, &struck(&[at(50)]), at(200)));
        assert!(!may_go_unsaid(1, &struck(&[]), at(200)));
        assert!(!may_go_unsaid(2, &struck(&[at(50)]), at(200)));
        assert!(!may_go_unsaid(1, &struck(&[at(50)]), at(60_000)));
        assert!(!may_go_unsaid(1, &struck(&[Duration::from_secs(1)]), at(200)));
    }
}
