//! What a limit that docs/limits.md names may do to a job, or this machine where it does not let processes run: end it,
//! or take a node along. That excuses no more: all other promises hold for whoever is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::plan::Plan;
use super::spawned::Spawned;
use super::struck::{Struck, found_within, own};
use crate::diary::Diaries;
use crate::job::TIMEOUT;
use crate::outcome::Outcome;

/// Ends the job. Like all limits it has the words of docs/limits.md.
pub const INIT: &str = "A failure before every rank has left `MPI_Init` ends the job";
/// Ends the job.
pub const SPAWNING: &str = "A death among those that are being spawned, before they have left `MPI_Init`, or among those \
                            that spawn them, ends the job";
/// Ends the job.
pub const FREED_RECEIVE: &str = "Open MPI 5.0.7 aborts over a receive that it has freed itself";
/// A survivor gets an error at the end.
pub const FINALIZE: &str = "A rank that dies while others already wait inside `MPI_Finalize` may make it return";
/// A death is missing in the history.
pub const LAST_MOMENTS: &str = "A death in the last moments of a job may be missing in `ringwatch events`";
/// A node is declared dead.
pub const ADJOINING: &str =
    "Short losses of a link or of `ringwatchd` that follow each other at once on a node and its observer";
/// What is kept away from every job.
pub const LEFT_OUT: [&str; 4] = [
    "The node of `mpirun` must live",
    "loops of `MPI_Iprobe` on a dead rank",
    "A node whose `prted` and `ringwatchd` are lost or stopped in the same moment",
    "A rank that is stopped by a user while its node waits for contact",
];

/// No limit of ringwatch, but of the machine that plays the bad network: a node is declared dead.
pub const RELAY_LATE: &str = "a node suspected while the relay of the bad network was itself kept from running";

/// The same, of the machine that is to start another `ringwatchd`.
pub const RESTART_LATE: &str = "a ringwatchd not replaced in time while ordinary processes were kept from running";

/// What is the machine's doing.
pub const MACHINE: [&str; 2] = [RELAY_LATE, RESTART_LATE];

/// What ringwatch says of a job that ends by [`INIT`], in the words of `ringwatchd` and of the plugin.
const OF_INIT: [&str; 6] = [
    "ended before every rank had left MPI_Init, from which Open MPI cannot recover; the job is ended",
    "did not report to the node of mpirun over the network",
    "was lost before the nodes of the job had found each other; the job is ended",
    "was lost while the job was being launched; the job is ended",
    EVERY_RANK,
    EVERY_RANK_BY_ITSELF,
];
/// Where `MPI_Init` has failed at everybody who was left.
const EVERY_RANK: &str = "every rank of the job is dead; the job is ended";
const EVERY_RANK_BY_ITSELF: &str = "every rank of the job has ended without MPI_Finalize; the job is ended";
/// `MPI_Init` itself does that when it fails, and Open MPI where it cannot go on.
const ABORTS: &str = "called MPI_Abort; the job is ended";

/// What is known of a job while it runs.
pub struct Evidence<'a> {
    /// What it has written into its file of events.
    pub history: String,
    /// When the relay ran again after it was kept from running, and for how long it was.
    pub late: &'a [(Duration, Duration)],
    /// The same of a process without any privilege.
    pub starved: &'a [(Duration, Duration)],
}

/// What is known of the end of a job.
pub struct End<'a> {
    /// What its ranks have written.
    pub diaries: &'a Diaries,
    /// What mpirun has said.
    pub stderr: &'a str,
    /// Who was spawned.
    pub spawned: &'a [Spawned],
    /// This machine has kept processes from running.
    pub was_late: bool,
}

/// The limit that has ended the job, if ringwatch says so: one who was being spawned has died or given up as its
/// `MPI_Init` failed, about when somebody died or may have, or a rank has aborted over a receive after somebody was
/// struck.
#[must_use]
pub fn ended(plan: &Plan, struck: &Struck, end: &End<'_>) -> Option<&'static str> {
    if struck.must.is_empty() && struck.may.is_empty() && own(plan, end.diaries).is_none() {
        return None;
    }
    let is_in_init = |rank: u32| !end.spawned.iter().any(|one| one.rank == rank && one.initialised.is_some());
    for (rank, what) in end.stderr.lines().filter_map(about_rank) {
        let aborts = what == ABORTS;
        let died = what
            .ends_with("ended before it had left MPI_Init, where those who spawned it wait for it; the job is ended");
        let was_spawned = plan.spawns() && rank >= plan.ranks() && is_in_init(rank);
        if was_spawned && (died || aborts) && struck_into_spawn(struck, end) {
            return Some(SPAWNING);
        }
        if plan.families.contains(&"neighbour") && aborts && end.stderr.contains("Recv error after request freed") {
            return Some(FREED_RECEIVE);
        }
    }
    None
}

/// Whether those who entered the last `MPI_Comm_spawn` could not know yet that somebody was dead, or that came
/// afterwards.
fn struck_into_spawn(struck: &Struck, end: &End<'_>) -> bool {
    let entries = end.diaries.all("enters").filter(|entry| entry.text() == "spawn");
    let Some(entered) = entries.map(|entry| entry.at).max() else { return false };
    let own = end.diaries.all("dies").map(|entry| entry.at);
    let times = struck.at.values().copied().chain(struck.doubts.iter().copied());
    let mut times = times.chain(struck.seen.all().into_values()).chain(own);
    times.any(|at| end.was_late || at + found_within(struck, at) >= entered)
}

/// What a sentence says of which rank.
fn about_rank(sentence: &str) -> Option<(u32, &str)> {
    let (rank, what) = sentence.strip_prefix("ringwatch: rank ")?.split_once(' ')?;
    Some((rank.parse().ok()?, what))
}

/// Whether a job has ended by [`INIT`]: some rank was still in there when the fault struck, and that is the reason that
/// ringwatch gives.
///
/// # Panics
/// With everything that is known about the job, if it is not so.
pub fn ended_in_init(plan: &Plan, struck: &Struck, outcome: &Outcome) {
    let left = |rank: u32, by: Duration| outcome.diaries.first(rank, "initialised").is_some_and(|left| left.at <= by);
    let at = struck_into_init(plan, struck, &outcome.diaries);
    let in_time = at.is_some_and(|at| !(0..plan.ranks()).all(|rank| left(rank, at)));
    outcome
        .require(in_time, &format!("what strikes when every rank has left MPI_Init, at {at:?}, does not end the job"));
    let sentences = outcome.sentences();
    let fits = sentences.iter().any(|sentence| is_of_init(plan, struck, &outcome.diaries, sentence));
    outcome.require(fits, &format!("the sentence is about a failure in MPI_Init, not {sentences:?}"));
}

/// When the first fault struck of which somebody has died or may have.
fn struck_into_init(plan: &Plan, struck: &Struck, diaries: &Diaries) -> Option<Duration> {
    let own = plan.own().and_then(|rank| diaries.first(rank, "dies")).map(|entry| entry.at);
    let first = struck.log.first().map(|(at, _)| *at);
    let deadly = if struck.may.is_empty() { struck.at.values().min().copied() } else { first };
    own.or(deadly)
}

/// Whether this is a reason for that. Whoever has left `MPI_Init` and was not struck neither dies nor aborts of it.
fn is_of_init(plan: &Plan, struck: &Struck, diaries: &Diaries, sentence: &str) -> bool {
    let has_left = |rank: u32| diaries.has(rank, "initialised");
    let was_struck = |rank: u32| plan.own() == Some(rank) || struck.must.contains(&rank) || struck.may.contains(&rank);
    if let Some((rank, ABORTS)) = about_rank(sentence) {
        return !has_left(rank);
    }
    let all_are_dead = (0..plan.ranks()).all(|rank| was_struck(rank) || !has_left(rank));
    OF_INIT
        .iter()
        .any(|words| sentence.ends_with(words) && (![EVERY_RANK, EVERY_RANK_BY_ITSELF].contains(words) || all_are_dead))
}

/// The ranks that the machine may have taken along, and how.
#[must_use]
pub fn taken(struck: &Struck, evidence: &Evidence<'_>) -> BTreeMap<u32, &'static str> {
    let silent = silent(&evidence.history, evidence.late).into_iter().map(|rank| (rank, RELAY_LATE));
    let unwatched = struck.watchers.iter().flat_map(|watcher| unwatched(&evidence.history, *watcher, evidence.starved));
    let late = silent.chain(unwatched.map(|rank| (rank, RESTART_LATE)));
    late.filter(|(rank, _)| !struck.must.contains(rank) && !struck.may.contains(rank)).collect()
}

/// The ranks of nodes that were declared dead for silence about when the relay was late.
fn silent(history: &str, late: &[(Duration, Duration)]) -> BTreeSet<u32> {
    let mut ranks = BTreeSet::new();
    for record in records(history) {
        let at = Duration::from_micros(record["at_us"].as_u64().unwrap_or(0));
        // One timeout to suspect, one to ask, one for both to be late.
        let near = |(end, length): &(Duration, Duration)| at + *length >= *end && at <= *end + TIMEOUT * 3;
        if record["event"] == "node-dead" && record["reason"] == "silent" && late.iter().any(near) {
            ranks.extend(numbers(&record["ranks"]));
        }
    }
    ranks
}

/// The ranks of a node whose `ringwatchd` was struck and that was declared dead for silence, if ordinary processes were
/// kept from running meanwhile. Where it was prterun's, all others have lost contact instead.
fn unwatched(history: &str, watcher: (u32, Duration), starved: &[(Duration, Duration)]) -> BTreeSet<u32> {
    let (host, struck) = watcher;
    // Its last heartbeat was a period before; of prterun's node the others await a word, and only 0.8 timeouts.
    let least = if host == 0 { TIMEOUT * 3 / 4 } else { TIMEOUT * 9 / 10 };
    let over = struck + TIMEOUT * 4;
    let mut ranks = BTreeSet::new();
    if starved.iter().any(|(end, length)| *end > struck && *end < over + *length) {
        for record in records(history).filter(|record| record["event"] == "node-dead") {
            let at = Duration::from_micros(record["at_us"].as_u64().unwrap_or(0));
            let is_it = host == 0 || (record["peer"] == host && record["reason"] == "silent");
            if is_it && at > struck + least && at < over {
                ranks.extend(numbers(&record["ranks"]));
            }
        }
    }
    ranks
}

/// Why a node was declared in a time, if it was.
#[must_use]
pub fn declares(history: &str, node: u32, time: Range<Duration>) -> Option<String> {
    let is_it = |record: &Value| {
        let at = Duration::from_micros(record["at_us"].as_u64().unwrap_or(0));
        record["event"] == "node-dead" && record["peer"] == node && time.contains(&at)
    };
    records(history).find(is_it).and_then(|record| Some(record["reason"].as_str()?.to_owned()))
}

/// What the job wrote into its file of events.
#[must_use]
pub fn history(events: &Path) -> String {
    let files = events.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let lines = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    lines.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Its records; a torn one is none.
pub fn records(history: &str) -> impl Iterator<Item = Value> {
    history.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The numbers of a list in a record.
pub fn numbers(list: &Value) -> impl Iterator<Item = u32> {
    list.as_array().into_iter().flatten().filter_map(|value| u32::try_from(value.as_u64()?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diary::Entry;

    fn struck(ranks: &[u32]) -> Struck {
        Struck { must: ranks.iter().copied().collect(), ..Struck::default() }
    }

    fn plan_of(fits: impl Fn(&Plan) -> bool) -> Plan {
        (0..).map(Plan::new).find(fits).expect("there are many")
    }

    #[test]
    fn every_limit_is_in_the_manual() {
        let limits: Vec<&str> = include_str!("../../../docs/limits.md").split_whitespace().collect();
        for limit in [INIT, SPAWNING, FREED_RECEIVE, FINALIZE, LAST_MOMENTS, ADJOINING].iter().chain(&LEFT_OUT) {
            assert!(limits.join(" ").contains(limit), "{limit}");
        }
    }

    fn end<'a>(diaries: &'a Diaries, stderr: &'a str, spawned: &'a [Spawned]) -> End<'a> {
        End { diaries, stderr, spawned, was_late: false }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_freed_receive_ends_only_jobs_with_neighbours_and_only_after_a_fault() {
        let said =
            format!("[h1:00417] *** An error occurred in Recv error after request freed\nringwatch: rank 2 {ABORTS}\n");
        let neighbours = plan_of(|plan| plan.families.contains(&"neighbour") && !plan.spawns());
        let others = plan_of(|plan| !plan.families.contains(&"neighbour") && !plan.spawns());
        let ended = |plan: &Plan, ranks: &[u32], said: &str| {
            super::ended(plan, &struck(ranks), &end(&Diaries::default(), said, &[]))
        };
        assert_eq!(ended(&neighbours, &[1], &said), Some(FREED_RECEIVE));
        assert_eq!(ended(&neighbours, &[], &said), None);
        assert_eq!(ended(&neighbours, &[1], &format!("ringwatch: rank 2 {ABORTS}\n")), None);
        assert_eq!(ended(&others, &[1], &said), None);
    }

    #[test]
    fn only_a_death_of_one_who_is_being_spawned_ends_a_job_that_spawns() {
        let spawns = plan_of(Plan::spawns);
        let others = plan_of(|plan| !plan.spawns());
        let diaries = diaries(&[(1, 100, "enters spawn")]);
        let fault = |seconds: u64| Struck { at: [(1, at(seconds))].into(), ..struck(&[1]) };
        let died = "ended before it had left MPI_Init, where those who spawned it wait for it; the job is ended";
        let one = |initialised: Option<u64>| Spawned {
            rank: spawns.ranks(),
            host: 0,
            started: at(100),
            initialised: initialised.map(at),
            finalized: None,
            code: None,
        };
        let ended = |plan: &Plan, struck: &Struck, said: &str, initialised: Option<u64>| {
            super::ended(plan, struck, &end(&diaries, said, &[one(initialised)]))
        };
        let said = [format!("{} on node 1 (h2) {died}", spawns.ranks()), format!("{} {ABORTS}", spawns.ranks())];
        for sentence in said.map(|said| format!("noise\nringwatch: rank {said}\n")) {
            assert_eq!(ended(&spawns, &fault(101), &sentence, None), Some(SPAWNING), "{sentence}");
            assert_eq!(ended(&spawns, &fault(99), &sentence, None), Some(SPAWNING), "nobody could know of it");
            assert_eq!(ended(&spawns, &fault(90), &sentence, None), None, "it was known before");
            let away = Struck { doubts: vec![at(101)], ..fault(90) };
            assert_eq!(ended(&spawns, &away, &sentence, None), Some(SPAWNING), "somebody may have died of it");
            let harmless = Struck { log: vec![(at(101), "strikes: it".into())], ..fault(90) };
            assert_eq!(ended(&spawns, &harmless, &sentence, None), None, "nobody has died of that");
            let spawned = [one(None)];
            let late = End { was_late: true, ..end(&diaries, &sentence, &spawned) };
            assert_eq!(super::ended(&spawns, &fault(90), &late), Some(SPAWNING), "nobody ran in time to know");
            assert_eq!(ended(&spawns, &fault(101), &sentence, Some(102)), None, "it had left MPI_Init");
            assert_eq!(ended(&others, &fault(101), &sentence, None), None, "nothing is spawned");
            assert_eq!(ended(&spawns, &Struck::default(), &sentence, None), None, "nothing has happened");
        }
        let other = format!("ringwatch: rank {} {ABORTS}\n", spawns.ranks() - 1);
        assert_eq!(ended(&spawns, &fault(101), &other, None), None, "not a spawned one");
        assert_eq!(ended(&spawns, &fault(101), "ringwatch: node 2 is dead; the job is ended\n", None), None);
    }

    #[test]
    fn one_who_strikes_itself_has_struck_somebody() {
        let plan = plan_of(|plan| plan.own().is_some() && plan.starts_badly() && plan.families.contains(&"neighbour"));
        let said = format!("Recv error after request freed\nringwatch: rank 2 {ABORTS}\n");
        let dies = diaries(&[(plan.own().unwrap(), 7, "dies")]);
        let ended = |diaries: &Diaries| ended(&plan, &Struck::default(), &end(diaries, &said, &[]));
        assert_eq!((ended(&dies), ended(&Diaries::default())), (Some(FREED_RECEIVE), None));
    }

    #[test]
    fn a_node_is_declared_in_a_time_for_a_reason() {
        let history =
            "{\"event\":\"node-dead\",\"at_us\":7000000,\"node\":0,\"peer\":2,\"reason\":\"silent\",\"ranks\":[4]}\n";
        let why = |node, from, until| declares(history, node, at(from)..at(until));
        assert_eq!(why(2, 6, 8).as_deref(), Some("silent"));
        assert_eq!((why(2, 8, 9), why(2, 1, 7), why(1, 6, 8)), (None, None, None));
    }

    fn diaries(entries: &[(u32, u64, &str)]) -> Diaries {
        let entry = |&(rank, seconds, event): &(u32, u64, &str)| {
            let mut words = event.split(' ').map(str::to_owned);
            let event = words.next().unwrap_or_default();
            Entry { rank, at: at(seconds), event, details: words.collect() }
        };
        Diaries(entries.iter().map(entry).collect())
    }

    #[test]
    fn only_a_sentence_about_mpi_init_excuses_a_job_that_ends_there() {
        let plan = plan_of(|plan| plan.starts_badly() && plan.own().is_none());
        let of_init = |sentence: &str, has_left: u32| {
            is_of_init(
                &plan,
                &struck(&[1]),
                &diaries(&[(has_left, 5, "initialised")]),
                &format!("ringwatch: {sentence}"),
            )
        };
        for words in OF_INIT {
            assert!(of_init(&format!("nodes 1, 2 {words}"), 1), "{words}");
        }
        assert!(!of_init(EVERY_RANK, 2), "rank 2 goes on");
        assert!(of_init(&format!("rank 2 {ABORTS}"), 3) && !of_init(&format!("rank 3 {ABORTS}"), 3));
        assert!(!of_init("node 2 (h3) has lost contact with the node of mpirun; its ranks are ended", 1));
        assert!(!of_init("ringwatchd died again and again on prterun's node, so the job ends", 1));
        assert!(!of_init("node 2 (h3) cannot take part (no port is free); the job is ended", 1));
    }

    #[test]
    fn what_strikes_into_mpi_init_is_the_first_fault_of_which_somebody_may_have_died() {
        let plan = plan_of(|plan| plan.starts_badly() && plan.own().is_none());
        let at = Duration::from_secs;
        let mut struck = Struck {
            log: [1, 2].map(|time| (at(time), String::new())).into(),
            at: [(1, at(2))].into(),
            ..struck(&[1])
        };
        assert_eq!(struck_into_init(&plan, &struck, &Diaries::default()), Some(at(2)));
        struck.may.insert(2);
        assert_eq!(struck_into_init(&plan, &struck, &Diaries::default()), Some(at(1)));
        let own = plan_of(|plan| plan.starts_badly() && plan.own().is_some());
        let dies = diaries(&[(own.own().unwrap(), 7, "dies")]);
        assert_eq!(struck_into_init(&own, &Struck::default(), &dies), Some(at(7)));
    }

    #[test]
    fn silence_counts_only_where_the_relay_was_late() {
        let said =
            |reason: &str| format!(r#"{{"event":"node-dead","at_us":5000000,"reason":"{reason}","ranks":[2,3]}}"#);
        let late = |end: u64| [(Duration::from_millis(end), TIMEOUT)];
        assert_eq!(silent(&said("silent"), &late(4800)), [2, 3].into());
        assert_eq!(silent(&said("silent"), &[]), [].into());
        assert_eq!(silent(&said("silent"), &late(3000)), [].into());
        assert_eq!(silent(&said("silent"), &late(6000)), [].into());
        assert_eq!(silent(&said("connection-lost"), &late(4800)), [].into());
    }

    #[test]
    fn a_ringwatchd_may_be_replaced_late_only_where_processes_did_not_run() {
        let at = Duration::from_millis;
        let said = |reason: &str| {
            format!(r#"{{"event":"node-dead","at_us":5000000,"peer":2,"reason":"{reason}","ranks":[4,5]}}"#)
        };
        let starved = [(at(4900), at(80))];
        assert_eq!(unwatched(&said("silent"), (2, at(4600)), &starved), [4, 5].into());
        assert_eq!(unwatched(&said("silent"), (2, at(4600)), &[]), [].into());
        assert_eq!(unwatched(&said("silent"), (3, at(4600)), &starved), [].into(), "another node");
        assert_eq!(unwatched(&said("silent"), (2, at(1000)), &starved), [].into(), "long ago");
        assert_eq!(unwatched(&said("silent"), (2, at(4900)), &starved), [].into(), "there was time left");
        assert_eq!(unwatched(&said("connection-lost"), (2, at(4600)), &starved), [].into());
        assert_eq!(unwatched(&said("connection-lost"), (0, at(4760)), &starved), [4, 5].into());
        assert_eq!(unwatched(&said("connection-lost"), (0, at(4800)), &starved), [].into(), "they wait for longer");
    }
}
