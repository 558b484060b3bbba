//! Whom the history of a job declares dead, and who had to be, or must not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::limits::{LAST_MOMENTS, history, numbers, records};
use super::plan::Plan;
use super::spawned::{self, Spawned};
use super::struck::{Struck, found_within};
use crate::diary::Entry;
use crate::job::TIMEOUT;
use crate::outcome::Outcome;

/// One rank in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Death {
    rank: u32,
    at: Duration,
    cause: Cause,
}

/// What was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Its node was declared, with all ranks that it ever had.
    Node,
    /// It gave itself up, as `MPI_Init` does when it fails, or the runtime told it to end.
    GivenUp,
    /// Anything else.
    Own,
}

/// What explains a death.
struct Known<'a> {
    struck: &'a Struck,
    /// Who struck itself, and when.
    own: Option<(u32, Duration)>,
    /// Who has ended the job, as mpirun was told.
    named: BTreeSet<u32>,
    /// Whether the job has come to its end.
    in_order: bool,
    first_spawned: u32,
}

/// How long the nodes of a job may take to find each other before it is ended.
const MEETING: Duration = Duration::from_secs(30);

/// What the history of one job says of deaths.
pub struct Declared {
    deaths: Vec<Death>,
    /// Since when the job itself kills, if it was ended.
    ended: Option<Duration>,
    /// Those who were spawned.
    spawned: Vec<Spawned>,
}

impl Declared {
    /// Reads it, and what those who were spawned have to say, from the folder of the job.
    #[must_use]
    pub fn read(events: &Path, folder: &Path) -> Self {
        Self { spawned: spawned::all(folder), ..Self::of(&history(events)) }
    }

    /// What a history says, of a job in which nobody was spawned.
    #[must_use]
    pub fn of(history: &str) -> Self {
        Self { deaths: deaths(history), ended: ended(history), spawned: Vec::new() }
    }

    /// Those who were spawned.
    #[must_use]
    pub fn spawned(&self) -> &[Spawned] {
        &self.spawned
    }

    /// Whether this rank was declared before the job itself killed.
    #[must_use]
    pub fn has_before_the_end(&self, rank: u32) -> bool {
        self.deaths.iter().any(|death| death.rank == rank && self.ended.is_none_or(|ended| death.at < ended))
    }

    /// Whether any of these ranks is declared.
    #[must_use]
    pub fn any_of(&self, ranks: &BTreeSet<u32>) -> bool {
        self.deaths.iter().any(|death| ranks.contains(&death.rank))
    }

    /// However the job has ended: nobody is declared who was not struck before, or died as the job ended.
    ///
    /// # Panics
    /// With everything that is known about the job, if somebody is.
    pub fn nobody_alive(&self, plan: &Plan, struck: &Struck, outcome: &Outcome) {
        let own = plan.own().and_then(|rank| Some((rank, outcome.diaries.first(rank, "dies")?.at)));
        let sentences = outcome.sentences();
        let named = sentences.iter().filter_map(|said| said.strip_prefix("ringwatch: rank ")?.split(' ').next());
        let known = Known {
            struck,
            own,
            named: named.filter_map(|rank| rank.parse().ok()).collect(),
            in_order: outcome.status == 0,
            first_spawned: plan.ranks(),
        };
        let alive = self.deaths.iter().find(|death| !self.explains(death, &known));
        outcome.require(alive.is_none(), &format!("nobody alive is declared, as {alive:?}, with {:?}", self.spawned));
    }

    /// Whether this one was struck before, or died as the job ended.
    fn explains(&self, death: &Death, known: &Known<'_>) -> bool {
        let (Death { rank, at, cause }, struck) = (*death, known.struck);
        let given_up = match cause {
            Cause::GivenUp => !known.in_order,
            Cause::Node | Cause::Own => false,
        };
        let own = known.own.is_some_and(|(own, struck)| own == rank && struck <= at);
        if given_up || own || known.named.contains(&rank) || self.ended.is_some_and(|ended| ended <= at) {
            return true;
        }
        match self.spawned.iter().find(|one| one.rank == rank) {
            Some(one) => {
                let had_left = one.finalized.is_some_and(|left| left < at);
                struck.has_lost(one.host, at) && (cause == Cause::Node || !had_left)
            }
            // Its host was lost before it could write.
            None if rank >= known.first_spawned => {
                struck.lost.values().any(|lost| *lost <= at) || !struck.doubtful.is_empty() && struck.has_begun(at)
            }
            None if struck.may.contains(&rank) => struck.has_begun(at),
            None => struck.at.get(&rank).is_some_and(|struck| *struck <= at),
        }
    }

    /// However the job has ended: whom a fault has brought down for good is declared in time, as long as the job runs.
    /// Since when somebody was down is not known of everybody; and in `MPI_Finalize` a death may go unsaid.
    ///
    /// # Panics
    /// With everything that is known about the job, if somebody is declared later.
    pub fn in_time(&self, plan: &Plan, struck: &Struck, outcome: &Outcome) {
        let may_have_left = |rank: u32| plan.own() == Some(rank) || struck.finalizing.contains(&rank);
        for (rank, down) in struck.seen.all() {
            let due = due(down, plan, struck);
            let late = !outcome.diaries.has(rank, "finalized") && self.is_late(rank, due, may_have_left(rank));
            let said: Vec<_> = self.deaths.iter().filter(|death| death.rank == rank).collect();
            let what = format!("rank {rank}, down at {down:?}, is declared until {due:?}, not {said:?}");
            outcome.require(!late, &what);
        }
    }

    /// Whether a death is said too late, or not although the job went on.
    fn is_late(&self, rank: u32, due: Duration, may_go_unsaid: bool) -> bool {
        match self.deaths.iter().filter(|death| death.rank == rank).map(|death| death.at).min() {
            Some(at) => at > due && self.ended.is_none_or(|ended| ended > due),
            None => !may_go_unsaid && self.ended.is_some_and(|ended| ended > due),
        }
    }

    /// Whoever was to be dead before the last moment of a job that was ended is declared.
    ///
    /// # Panics
    /// With everything that is known about the job, if somebody is not.
    pub fn has_all(&self, dead: &BTreeSet<u32>, struck: &Struck, ended_at: Duration, outcome: &Outcome) {
        let is_said = |rank: &u32| self.deaths.iter().any(|death| death.rank == *rank && death.at <= ended_at);
        let unsaid = dead.iter().filter(|rank| !is_said(rank) && !may_go_unsaid(**rank, struck, ended_at));
        let unsaid: Vec<u32> = unsaid.copied().collect();
        outcome.require(unsaid.is_empty(), &format!("the history declares the dead, but not {unsaid:?}"));
    }

    /// In a job that went on these have died, and the history has every death and no other, but for a limit. A rank
    /// that has struck itself at the end counts as neither.
    ///
    /// # Panics
    /// With everything that is known about the job, if that is not so.
    #[must_use]
    pub fn are(&self, dead: &[u32], struck: &Struck, spared: Option<u32>, outcome: &Outcome) -> BTreeSet<&'static str> {
        // Who had left MPI_Finalize may have died with its node.
        let has_left = |rank: &u32| struck.finalizing.contains(rank) && !dead.contains(rank);
        let mut declared: BTreeSet<u32> = self.deaths.iter().map(|death| death.rank).collect();
        self.spawned_are(&declared, struck, outcome);
        declared.retain(|rank| spared != Some(*rank) && !has_left(rank) && !outcome.is_spawned(*rank));
        // mpirun itself may have waited for a node that was cut off just then.
        let ended_at = self.ended.unwrap_or(outcome.ended_at);
        let unsaid = |rank: &&u32| !declared.contains(rank) && may_go_unsaid(**rank, struck, ended_at);
        let unsaid: Vec<u32> = dead.iter().filter(unsaid).copied().collect();
        let said: Vec<u32> = dead.iter().filter(|rank| !unsaid.contains(rank)).copied().collect();
        let what = format!("the history declares {said:?}, and nobody else, not {declared:?}");
        outcome.require(declared.into_iter().eq(said), &what);
        if unsaid.is_empty() { BTreeSet::new() } else { [LAST_MOMENTS].into() }
    }

    /// Spawned ones die with their nodes alone, and then they are declared.
    fn spawned_are(&self, declared: &BTreeSet<u32>, struck: &Struck, outcome: &Outcome) {
        let has_spawned = |entry: &&Entry| entry.event == "leaves" && entry.text() == "spawn";
        let times = outcome.diaries.of(0).filter(has_spawned).count();
        outcome
            .require(self.spawned.len() >= times, &format!("{times} spawned ones are known, not {:?}", self.spawned));
        let wrong = self.spawned.iter().find(|one| one.code.is_some_and(|code| code != 0));
        outcome.require(
            wrong.is_none(),
            &format!("MPI_Finalize of spawned ones returns MPI_SUCCESS, not as of {wrong:?}"),
        );
        for one in self.spawned.iter().filter(|one| one.finalized.is_none()) {
            let lost = struck.lost.get(&one.host);
            let known = lost.is_some() || struck.doubtful.contains(&one.host);
            outcome.require(known, &format!("spawned ones come to their end, not {one:?}"));
            let unsaid = lost.is_some_and(|at| one.started < *at) && !declared.contains(&one.rank);
            let late = outcome.ended_at.saturating_sub(*lost.unwrap_or(&Duration::ZERO)) < TIMEOUT * 4;
            outcome.require(!unsaid || late, &format!("the history declares {one:?}, not only {declared:?}"));
        }
    }
}

fn deaths(history: &str) -> Vec<Death> {
    let (mut deaths, mut observed) = (Vec::new(), BTreeMap::new());
    for record in records(history) {
        let at = Duration::from_micros(record["at_us"].as_u64().unwrap_or(0));
        let death = |cause: Cause| move |rank: u32| Death { rank, at, cause };
        let rank = record["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok());
        let reason = record["reason"].as_str().unwrap_or_default();
        // How one has ended that had been spawned and had not left MPI_Init, only its own node says.
        let how = if reason == "early" { observed.get(&rank).map_or("", String::as_str) } else { reason };
        let is_given_up = how == "signal:15" || how.starts_with("exited:");
        let cause = if is_given_up { Cause::GivenUp } else { Cause::Own };
        match record["event"].as_str() {
            Some("observed") => drop(observed.insert(rank, reason.to_owned())),
            Some("rank-dead") => deaths.extend(rank.map(death(cause))),
            Some("node-dead") => deaths.extend(numbers(&record["ranks"]).map(death(Cause::Node))),
            _ => {}
        }
    }
    deaths
}

/// When the node of mpirun said that the job ends.
fn ended(history: &str) -> Option<Duration> {
    let ends = records(history).filter(|record| record["event"] == "ended" && record["node"] == 0);
    ends.filter_map(|record| record["at_us"].as_u64().map(Duration::from_micros)).min()
}

/// By when who is down is declared. In `MPI_Init` the nodes have to meet first.
fn due(down: Duration, plan: &Plan, struck: &Struck) -> Duration {
    let meeting = if plan.starts_badly() { MEETING } else { Duration::ZERO };
    down + found_within(struck, down) + meeting
}

/// Broken connections tell the survivors, too: a job may have ended before its nodes have said who died, if that takes
/// a new ringwatchd because one was struck as well, or the survivors were in `MPI_Finalize` already.
fn may_go_unsaid(rank: u32, struck: &Struck, ended_at: Duration) -> bool {
    let soon = TIMEOUT * 4;
    struck.at.get(&rank).is_some_and(|at| {
        let unwatched = struck.watchers.iter().any(|(_, watcher)| watcher.abs_diff(*at) < soon);
        ended_at.saturating_sub(*at) < soon && (unwatched || struck.finalizing.contains(&rank))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SLACK;

    #[test]
    fn a_history_tells_who_died_when_and_with_whom() {
        let history = "{\"event\":\"rank-dead\",\"at_us\":5,\"node\":1,\"rank\":3,\"reason\":\"stopped\"}\n\
                       {\"event\":\"rank-dead\",\"at_us\":6,\"node\":1,\"rank\":2,\"reason\":\"exited:14\"}\n\
                       {\"event\":\"observed\",\"at_us\":6,\"node\":0,\"rank\":8,\"reason\":\"exited:14\"}\n\
                       {\"event\":\"rank-dead\",\"at_us\":6,\"node\":0,\"rank\":8,\"reason\":\"early\"}\n\
                       {\"event\":\"rank-dead\",\"at_us\":6,\"node\":1,\"rank\":7,\"reason\":\"early\"}\n\
                       {\"event\":\"node-dead\",\"at_us\":7,\"node\":0,\"ranks\":[4,9]}\n\
                       {\"event\":\"ended\",\"at_us\":8,\"node\":2}\n\
                       {\"event\":\"ended\",\"at_us\":9,\"node\":0}\n";
        let death = |rank, at, cause| Death { rank, at: Duration::from_micros(at), cause };
        let told = [
            death(3, 5, Cause::Own),
            death(2, 6, Cause::GivenUp),
            death(8, 6, Cause::GivenUp),
            death(7, 6, Cause::Own),
            death(4, 7, Cause::Node),
            death(9, 7, Cause::Node),
        ];
        assert_eq!(deaths(history), told);
        assert_eq!(ended(history), Some(Duration::from_micros(9)));
    }

    #[test]
    fn a_death_is_explained_by_what_struck_before_or_by_the_end() {
        let at = Duration::from_millis;
        let spawned = |rank, host, left: Option<u64>| Spawned {
            rank,
            host,
            started: at(1),
            initialised: Some(at(2)),
            finalized: left.map(at),
            code: left.map(|_| 0),
        };
        let declared = Declared {
            deaths: Vec::new(),
            ended: Some(at(90)),
            spawned: vec![spawned(8, 2, None), spawned(9, 1, Some(3)), spawned(10, 2, Some(3))],
        };
        let struck = Struck {
            must: [1].into(),
            may: [2].into(),
            at: [(1, at(5))].into(),
            lost: [(2, at(7))].into(),
            log: [(at(5), "strikes".into())].into(),
            ..Struck::default()
        };
        let explains = |rank, ms, cause, in_order| {
            let known = Known { struck: &struck, own: Some((4, at(5))), named: [5].into(), in_order, first_spawned: 8 };
            declared.explains(&Death { rank, at: at(ms), cause }, &known)
        };
        assert!(explains(1, 6, Cause::Own, true) && !explains(1, 4, Cause::Own, true));
        assert!(explains(2, 6, Cause::Own, true) && !explains(2, 4, Cause::Own, true), "it may be dead");
        assert!(!explains(3, 6, Cause::Own, false) && explains(3, 90, Cause::Own, false), "the job ends");
        assert!(explains(3, 6, Cause::GivenUp, false) && !explains(3, 6, Cause::GivenUp, true));
        assert!(explains(4, 6, Cause::Own, true) && !explains(4, 4, Cause::Own, true), "it strikes itself");
        assert!(explains(5, 6, Cause::Own, false), "it is named");
        assert!(
            explains(8, 8, Cause::Own, true) && !explains(8, 6, Cause::Own, true),
            "a spawned one dies with its host"
        );
        assert!(!explains(9, 8, Cause::Node, true), "this host lives");
        assert!(explains(10, 8, Cause::Node, true) && !explains(10, 8, Cause::Own, true), "it has come to its end");
    }

    #[test]
    fn a_death_is_due_a_timeout_for_each_lost_node_later_and_in_mpi_init_when_the_nodes_have_met() {
        let at = |ms: u64| Duration::from_secs(100) + Duration::from_millis(ms);
        let plan_of = |fits: &dyn Fn(&Plan) -> bool| (0..).map(Plan::new).find(fits).expect("there are many");
        let (calm, early) = (plan_of(&|plan| !plan.starts_badly()), plan_of(&Plan::starts_badly));
        let mut struck = Struck::default();
        assert_eq!(due(at(0), &calm, &struck), at(0) + TIMEOUT * 5 + SLACK);
        struck.lost = [(1, at(0)), (2, at(1000)), (3, at(60_000))].into();
        struck.doubtful = [4].into();
        assert_eq!(due(at(0), &calm, &struck), at(0) + TIMEOUT * 8 + SLACK);
        assert_eq!(due(at(0), &early, &struck), at(0) + TIMEOUT * 8 + SLACK + MEETING);
    }

    #[test]
    fn a_death_is_late_if_it_is_said_after_its_time_while_the_job_runs() {
        let at = Duration::from_secs;
        let death = |time| Death { rank: 1, at: at(time), cause: Cause::Own };
        let is_late = |deaths: &[Death], ended: Option<u64>, may_go_unsaid| {
            let declared = Declared { deaths: deaths.into(), ended: ended.map(at), spawned: Vec::new() };
            declared.is_late(1, at(10), may_go_unsaid)
        };
        assert!(!is_late(&[death(10)], None, false) && !is_late(&[death(130), death(9)], Some(200), false));
        assert!(is_late(&[death(130)], None, false) && is_late(&[death(11)], Some(200), true));
        assert!(!is_late(&[death(11)], Some(10), false), "the job had ended");
        assert!(is_late(&[], Some(200), false) && is_late(&[Death { rank: 2, ..death(5) }], Some(200), false));
        assert!(!is_late(&[], Some(200), true), "it may have left");
        assert!(!is_late(&[], Some(9), false) && !is_late(&[], None, false), "whether the job ran nobody knows");
    }

    #[test]
    fn a_death_goes_unsaid_only_just_before_the_end_and_beside_a_ringwatchd_that_was_struck_or_in_finalize() {
        let at = |ms: u64| Duration::from_secs(100) + Duration::from_millis(ms);
        let struck = |watchers: &[Duration]| Struck {
            at: [(1, at(0)), (3, at(0))].into(),
            watchers: watchers.iter().map(|at| (0, *at)).collect(),
            finalizing: [3].into(),
            ..Struck::default()
        };
        assert!(may_go_unsaid(1, &struck(&[at(50)]), at(200)));
        assert!(may_go_unsaid(3, &struck(&[]), at(200)));
        assert!(!may_go_unsaid(3, &struck(&[]), at(60_000)));
        assert!(!may_go_unsaid(1, &struck(&[]), at(200)));
        assert!(!may_go_unsaid(2, &struck(&[at(50)]), at(200)));
        assert!(!may_go_unsaid(1, &struck(&[at(50)]), at(60_000)));
        assert!(!may_go_unsaid(1, &struck(&[Duration::from_secs(1)]), at(200)));
    }
}
