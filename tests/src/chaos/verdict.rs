//! What is to be true of a job after what has happened to it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::bundle::Traces;
use super::declared::Declared;
use super::limits::{self, End, history, records};
use super::plan::{Fault, Plan, When};
use super::struck::Struck;
use crate::diary::{Diaries, Entry, PROC_FAILED};
use crate::outcome::Outcome;

/// `MPI_ERR_OTHER`.
const OTHER: &str = "16";

/// How a job went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As promised.
    Held,
    /// As promised but for these limits.
    Excused(BTreeSet<&'static str>),
    /// Not.
    Broken(String),
}

/// Checks what the plan promises of its end, and returns the limits that came into play there. A machine that was late
/// lets nobody be declared in time.
///
/// # Panics
/// With everything that is known about the job, if a promise is broken.
#[must_use]
pub fn judge(plan: &Plan, struck: &Struck, outcome: &Outcome, traces: &Traces<'_>) -> BTreeSet<&'static str> {
    let (events, folder) = (traces.events, traces.folder);
    let declared = Declared::read(events, folder);
    // However it ends, nobody has been told a lie.
    let end = End {
        diaries: &outcome.diaries,
        stderr: &outcome.stderr,
        spawned: declared.spawned(),
        was_late: !traces.late.is_empty(),
    };
    let ended = limits::ended(plan, struck, &end);
    let is_of_the_start =
        |error: &Entry| plan.starts_badly() && error.details.first().is_some_and(|class| class == OTHER);
    outcome.no_lies_but(|error| is_of_the_start(error) || ended.is_some() && is_in_spawn(&outcome.diaries, error));
    told_after_the_first_strike(plan, struck, outcome);
    nobody_spawned_was_stopped(outcome, events);
    declared.nobody_alive(plan, struck, outcome);
    if traces.late.is_empty() {
        declared.in_time(plan, struck, outcome);
    }
    if let Some(limit) = ended {
        let launcher = struck.carried.iter().any(|fault| fault.kind == Fault::Launcher.kind());
        // While it was ending, prterun may have been struck, whose status that is then.
        if outcome.status == -libc::SIGKILL && launcher {
            outcome.left_nothing();
        } else {
            outcome.gave_up(&["the job is ended"]);
        }
        let gone = if launcher { gone_before_the_last(struck, &declared) } else { gone(struck, outcome) };
        one_side(outcome, &gone);
        return [limit].into();
    }
    if let Some((_, Fault::Launcher)) = plan.faults.last() {
        outcome.require(outcome.diaries.all("done").next().is_none(), "no rank comes to its end");
        outcome.lost_its_launcher(&["prterun", "was lost", "ended"]);
        let gone = gone_before_the_last(struck, &declared);
        one_side(outcome, &gone);
        let last = struck.at.values().max().copied().unwrap_or_default();
        declared.has_all(&gone.difference(&struck.may).copied().collect(), struck, last, outcome);
        return BTreeSet::new();
    }
    if plan.starts_badly() {
        return began(plan, struck, outcome, is_of_the_start, &declared);
    }
    let dead = dead(struck, outcome, plan.own());
    let limits = if plan.ends_badly() {
        finalized(plan, struck, outcome, &dead)
    } else {
        outcome.finished_without(&dead);
        BTreeSet::new()
    };
    one_side(outcome, &gone(struck, outcome));
    &limits | &declared.are(&dead, struck, plan.own(), outcome)
}

/// A death in `MPI_Init` ends the job with a status and a sentence about that, or those whose `MPI_Init` returned go
/// on. Without a death all go on.
fn began(
    plan: &Plan,
    struck: &Struck,
    outcome: &Outcome,
    is_of_the_start: impl Fn(&Entry) -> bool,
    declared: &Declared,
) -> BTreeSet<&'static str> {
    let init = BTreeSet::from([limits::INIT]);
    if outcome.status != 0 {
        let own = plan.own().is_some_and(|rank| outcome.diaries.has(rank, "dies"));
        let may_be_dead = declared.any_of(&struck.may);
        let dies = own || !struck.must.is_empty() || may_be_dead;
        outcome.require(dies, "a job in which nobody dies goes on");
        outcome.gave_up(&[]);
        limits::ended_in_init(plan, struck, outcome);
        one_side(outcome, &gone(struck, outcome));
        return init;
    }
    let all: BTreeSet<u32> = outcome.diaries.all("initialised").map(|entry| entry.rank).collect();
    let dead = dead(struck, outcome, plan.own());
    let survivors: BTreeSet<u32> = all.into_iter().filter(|rank| !dead.contains(rank)).collect();
    outcome.require(!survivors.is_empty(), "mpirun's status is 0 only if there are survivors");
    for rank in survivors {
        outcome.finalized(rank);
    }
    outcome.left_nothing();
    one_side(outcome, &gone(struck, outcome));
    let other = outcome.diaries.all("error").any(is_of_the_start);
    let limits = if other { init } else { BTreeSet::new() };
    &limits | &declared.are(&dead, struck, plan.own(), outcome)
}

/// Somebody died while others were in `MPI_Finalize`: it returns at all survivors, and the job has ended in order.
fn finalized(plan: &Plan, struck: &Struck, outcome: &Outcome, dead: &[u32]) -> BTreeSet<&'static str> {
    let mut limits = BTreeSet::new();
    let is_struck = |rank: &u32| plan.own() == Some(*rank) || struck.finalizing.contains(rank);
    for survivor in outcome.survivors(dead).into_iter().filter(|rank| !is_struck(rank)) {
        let code = outcome.diaries.first(survivor, "finalized").map(|entry| entry.text());
        let fails = code.as_deref() == Some(PROC_FAILED);
        let known = code.as_deref() == Some("0") || fails;
        outcome.require(known, &format!("MPI_Finalize of rank {survivor} returns, not {code:?}"));
        limits.extend(fails.then_some(limits::FINALIZE));
    }
    if outcome.status == 0 || outcome.diaries.all("finalized").next().is_some() {
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        outcome.left_nothing();
    } else {
        outcome.gave_up(&["every rank of the job ", "the job is ended"]);
    }
    limits
}

/// Nobody is told of a failure before there is one.
fn told_after_the_first_strike(plan: &Plan, struck: &Struck, outcome: &Outcome) {
    // Who strikes itself says so.
    let is_own = |(when, _): &(When, Fault)| *when == When::Own;
    let log = struck.log.iter().filter(|_| !plan.faults.first().is_some_and(is_own));
    let struck = log.map(|(at, _)| *at).chain(outcome.diaries.all("dies").map(|entry| entry.at)).min();
    let told = outcome.diaries.all("error").map(|entry| entry.at).min();
    let right = told.is_none_or(|told| struck.is_some_and(|struck| struck <= told));
    outcome
        .require(right, &format!("nobody is told of a failure before the first one, at {struck:?}, not at {told:?}"));
}

/// Spawned ranks are killed, with their nodes, and never stopped.
fn nobody_spawned_was_stopped(outcome: &Outcome, events: &Path) {
    for record in records(&history(events)) {
        let rank = record["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok());
        let wrong = rank.is_some_and(|rank| outcome.is_spawned(rank)) && record["reason"] == "stopped";
        outcome.require(!wrong, &format!("nobody stops spawned ranks, not {record}"));
    }
}

/// Who did not come to an end: everybody who must be dead, and nobody who must not.
fn dead(struck: &Struck, outcome: &Outcome, spared: Option<u32>) -> Vec<u32> {
    let ended = |rank: &u32| outcome.diaries.has(*rank, "finalized") || spared == Some(*rank);
    let dead: Vec<u32> = outcome.survivors(&[]).into_iter().filter(|rank| !ended(rank)).collect();
    let missed: Vec<_> = struck.must.difference(&struck.finalizing).filter(|rank| !dead.contains(rank)).collect();
    outcome.require(missed.is_empty(), &format!("the dead do not come to an end, as {missed:?} did"));
    let harmed: Vec<_> = dead.iter().filter(|rank| !struck.must.contains(rank) && !struck.may.contains(rank)).collect();
    outcome.require(harmed.is_empty(), &format!("all others come to their end, but not {harmed:?}"));
    dead
}

/// Whether a rank got this error from `MPI_Comm_spawn`.
fn is_in_spawn(diaries: &Diaries, error: &Entry) -> bool {
    let before = diaries.of(error.rank).rfind(|entry| entry.at < error.at);
    before.is_some_and(|entry| entry.event == "enters" && entry.text() == "spawn")
}

/// Who is dead, or may be and did not come to its end where others did.
fn gone(struck: &Struck, outcome: &Outcome) -> BTreeSet<u32> {
    let ended = outcome.diaries.all("done").next().is_some();
    let may = struck.may.iter().filter(|rank| ended && !outcome.diaries.has(**rank, "done"));
    struck.must.iter().chain(may).copied().collect()
}

/// The same before the last fault, which struck everybody and lets nobody come to an end: of those who may be dead, who
/// is declared.
fn gone_before_the_last(struck: &Struck, declared: &Declared) -> BTreeSet<u32> {
    let last = struck.at.values().max();
    let earlier = |rank: &&u32| struck.at.get(rank).is_some_and(|at| Some(at) < last);
    let may = struck.may.iter().filter(|rank| declared.has_before_the_end(**rank));
    struck.must.iter().filter(earlier).chain(may).copied().collect()
}

/// The dead have repaired nothing among themselves: whatever they agreed on, one who lives has agreed on with the same
/// members.
fn one_side(outcome: &Outcome, gone: &BTreeSet<u32>) {
    for entry in outcome.diaries.all("agreed").filter(|entry| gone.contains(&entry.rank)) {
        let near = |other: Duration| other.abs_diff(entry.at) < Duration::from_secs(5);
        let same = |other: &&crate::diary::Entry| other.details == entry.details && near(other.at);
        let shared = outcome.diaries.all("agreed").filter(same).any(|other| !gone.contains(&other.rank));
        outcome.require(shared, &format!("only one side goes on, not also {entry:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_struck_first_is_gone_before_the_last_fault() {
        let at = Duration::from_secs;
        let struck = Struck {
            must: [0, 1, 2].into(),
            may: [3].into(),
            at: [(0, at(9)), (1, at(5)), (2, at(9))].into(),
            ..Struck::default()
        };
        let dead = Declared::of(r#"{"event":"rank-dead","at_us":7,"node":1,"rank":3,"reason":"stopped"}"#);
        assert_eq!(gone_before_the_last(&struck, &dead), [1, 3].into());
        assert_eq!(gone_before_the_last(&struck, &Declared::of("")), [1].into(), "rank 3 lives");
    }
}
