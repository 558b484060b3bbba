//! What has happened to a job so far.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::plan::Plan;
use super::seen::Seen;
use crate::diary::Diaries;
use crate::job::{SLACK, TIMEOUT};

/// A fault that was carried out: it met somebody who was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its kind.
    pub kind: &'static str,
    /// When it struck.
    pub moment: &'static str,
    /// Whether another one lasted.
    pub overlaps: bool,
}

/// What has happened to a job so far.
#[derive(Clone, Debug, Default)]
pub struct Struck {
    /// Ranks that are dead, or soon will be.
    pub must: BTreeSet<u32>,
    /// Ranks that were away about as long as the timeouts: dead or alive, but not in between.
    pub may: BTreeSet<u32>,
    /// When somebody of those had been away, or came to be one of them.
    pub doubts: Vec<Duration>,
    /// When each of those who must be was struck.
    pub at: BTreeMap<u32, Duration>,
    /// Since when those are down who must be dead, or strike themselves, as far as that can be said.
    pub seen: Seen,
    /// Hosts that are lost with all who were there, and since when.
    pub lost: BTreeMap<u32, Duration>,
    /// Hosts that may be.
    pub doubtful: BTreeSet<u32>,
    /// Whose `ringwatchd` was, and when.
    pub watchers: Vec<(u32, Duration)>,
    /// Who was struck when others had entered `MPI_Finalize`, and may have left it.
    pub finalizing: BTreeSet<u32>,
    /// The faults that were carried out.
    pub carried: Vec<Carried>,
    /// Why ranks may be dead that nobody has struck.
    pub limits: BTreeSet<&'static str>,
    /// What was done, and when.
    pub log: Vec<(Duration, String)>,
}

impl Struck {
    /// Whether this host may have been lost with all who were there, before this moment.
    #[must_use]
    pub fn has_lost(&self, host: u32, before: Duration) -> bool {
        self.doubtful.contains(&host) || self.lost.get(&host).is_some_and(|at| *at <= before)
    }

    /// Whether anything was done to the job before this moment.
    #[must_use]
    pub fn has_begun(&self, before: Duration) -> bool {
        self.log.iter().any(|(at, _)| *at <= before)
    }
}

/// The fault that a rank has carried out itself, if it has.
#[must_use]
pub fn own(plan: &Plan, diaries: &Diaries) -> Option<Carried> {
    let ((when, fault), rank) = (plan.faults.last()?, plan.own()?);
    diaries.has(rank, "dies").then(|| Carried { kind: fault.kind(), moment: when.moment(), overlaps: false })
}

/// How long it takes to declare somebody who is down: one timeout, and one more for each node that is lost by then, as
/// the ring finds them one after the other; or had been away, or away from the others. Four more are for a short cut,
/// for other `ringwatchd`s in the place of those that were struck, and for datagrams that got lost.
pub fn found_within(struck: &Struck, down: Duration) -> Duration {
    let lost = struck.lost.values().filter(|at| **at <= down + TIMEOUT * 4).count() + struck.doubtful.len();
    TIMEOUT * u32::try_from(lost + 1 + 4).unwrap_or(u32::MAX) + SLACK
}
