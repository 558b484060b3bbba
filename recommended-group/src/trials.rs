//! The tests that are under way, and the verdict of a tester that may be slow itself.
//!
//! A test belongs to an interval, and may outlive it: a threshold may be longer than an interval. Meanwhile the process
//! gets no other test.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::group::Group;
use crate::units::{Rank, Time};

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trial {
    /// The number of its interval.
    pub interval: u64,
    /// Its question.
    pub question: u64,
    /// When it was sent.
    pub sent: Time,
}

/// The tests of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trials {
    /// The number of the present interval, from 1; 0: there was none.
    pub number: u64,
    /// The members as they were when it began.
    pub frozen: Arc<Group>,
    /// The members as they were when the interval before began.
    before: Arc<Group>,
    /// The tests of this interval.
    present: Trial,
    /// When the outcome of this interval is taken at the latest.
    conclude_at: Time,
    /// Who has neither passed nor failed in this interval.
    open: Group,
    /// Tests of earlier intervals that have come to nothing yet.
    older: BTreeMap<Rank, Trial>,
    /// How many members have passed since the last outcome.
    passed: u32,
    /// Who has failed since the last outcome, in the order in which it was seen.
    failed: Vec<Rank>,
    /// Whether the outcome of this interval was taken.
    is_closed: bool,
    /// How many outcomes in a row this tester has doubted. One without a test that has passed ends no doubt.
    doubted: u32,
}

/// What an interval has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Who has failed.
    pub failed: Vec<Rank>,
    /// Which of them have not answered which test.
    pub silent: Vec<(Rank, Trial)>,
    /// Whether the tester distrusts itself: the interval counts for nothing.
    pub is_doubted: bool,
}

impl Trials {
    /// Before the first interval.
    #[must_use]
    pub fn none(count: u32) -> Self {
        let all = Arc::new(Group::all(count));
        Self {
            number: 0,
            frozen: all.clone(),
            before: all,
            present: Trial { interval: 0, question: 0, sent: Time::ZERO },
            conclude_at: Time::ZERO,
            open: Group::none(count),
            older: BTreeMap::new(),
            passed: 0,
            failed: Vec::new(),
            is_closed: true,
            doubted: 0,
        }
    }

    /// Begins an interval: the members are frozen. Those of `targets` are tested that have no test yet.
    pub fn begin(&mut self, now: Time, frozen: Group, question: u64, targets: &[Rank], conclude_at: Time) {
        self.number += 1;
        self.before = std::mem::replace(&mut self.frozen, frozen.into());
        self.present = Trial { interval: self.number, question, sent: now };
        self.older.retain(|rank, _| targets.contains(rank));
        self.open.clear();
        for rank in targets.iter().filter(|rank| !self.older.contains_key(rank)) {
            self.open.insert(*rank);
        }
        self.conclude_at = conclude_at;
        self.is_closed = targets.is_empty();
    }

    /// Ends all tests without an outcome: this process tests nobody, or begins anew with these members.
    pub fn abandon(&mut self, frozen: Group) {
        self.frozen = frozen.into();
        self.open.clear();
        self.older.clear();
        self.failed.clear();
        (self.passed, self.is_closed) = (0, true);
    }

    /// Whether this process was a member when the present interval began, or the one before.
    #[must_use]
    pub fn was_member(&self, rank: Rank) -> bool {
        self.frozen.contains(rank) || self.before.contains(rank)
    }

    /// Whom this interval asks.
    pub fn asked(&self) -> impl Iterator<Item = Rank> + '_ {
        self.open.iter()
    }

    /// The test of this process that is under way.
    #[must_use]
    pub fn of(&self, target: Rank) -> Option<Trial> {
        self.older.get(&target).copied().or_else(|| self.open.contains(target).then_some(self.present))
    }

    /// A target has passed or failed.
    pub fn settle(&mut self, target: Rank, has_passed: bool) {
        if self.older.remove(&target).is_none() && !self.open.remove(target) {
            return;
        }
        if !has_passed {
            self.failed.push(target);
        } else if self.frozen.contains(target) {
            self.passed += 1;
        }
    }

    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.older.is_empty()
    }

    /// Whether the outcome can be taken at this time.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        !self.is_closed && (self.is_settled() || now >= self.conclude_at)
    }

    /// When the outcome can be taken at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (!self.is_closed).then_some(if self.is_settled() { self.present.sent } else { self.conclude_at })
    }

    /// Whether the outcome of this interval was not taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// Takes the outcome. Whose test is given up has failed; the other tests go on.
    pub fn close(&mut self, doubts: u32, is_given_up: impl Fn(Rank, Trial) -> bool) -> Verdict {
        self.is_closed = true;
        let present = self.present;
        self.older.extend(self.open.iter().map(|rank| (rank, present)));
        self.open.clear();
        let mut silent = Vec::new();
        self.older.retain(|rank, trial| {
            let goes_on = !is_given_up(*rank, *trial);
            if !goes_on {
                silent.push((*rank, *trial));
            }
            goes_on
        });
        let mut failed = std::mem::take(&mut self.failed);
        failed.extend(silent.iter().map(|(rank, _)| *rank));
        let bad = failed.iter().filter(|rank| self.frozen.contains(**rank)).count() as u32;
        let passed = std::mem::take(&mut self.passed);
        let members = bad + passed;
        let is_odd = members >= 3 && 2 * bad > members;
        let is_doubted = is_odd && self.doubted < doubts;
        if is_doubted {
            self.doubted += 1;
        } else if passed > 0 && !is_odd {
            self.doubted = 0;
        }
        Verdict { failed, silent, is_doubted }
    }
}
