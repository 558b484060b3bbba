//! The tests of one interval, and the verdict of a tester that may be slow itself.

use crate::group::Group;
use crate::units::{Rank, Time};

/// The tests of the present interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trials {
    /// Its number, from 1; 0: there was none.
    pub number: u64,
    /// The members as they were when it began: nobody else's news count.
    pub frozen: std::sync::Arc<Group>,
    /// The question.
    pub question: u64,
    /// When those who have not answered have failed.
    pub give_up: Time,
    /// Who has neither passed nor failed.
    open: Group,
    /// Members of `frozen` whom this process tests.
    members: u32,
    /// Who has failed, in the order in which it was seen.
    failed: Vec<Rank>,
    /// Whether the outcome was taken.
    is_closed: bool,
    /// How many intervals in a row this tester has doubted itself.
    doubted: u32,
}

impl Trials {
    /// Before the first interval.
    #[must_use]
    pub fn none(count: u32) -> Self {
        Self {
            number: 0,
            frozen: Group::all(count).into(),
            question: 0,
            give_up: Time::ZERO,
            open: Group::none(count),
            members: 0,
            failed: Vec::new(),
            is_closed: true,
            doubted: 0,
        }
    }

    /// Begins an interval: the members are frozen, the targets are asked.
    pub fn begin(&mut self, frozen: Group, question: u64, count: u32, targets: &[Rank], give_up: Time) {
        self.number += 1;
        self.members = targets.iter().filter(|rank| frozen.contains(**rank)).count() as u32;
        self.open = Group::of(count, targets.iter().copied());
        self.frozen = frozen.into();
        self.question = question;
        self.give_up = give_up;
        self.failed.clear();
        self.is_closed = targets.is_empty();
    }

    /// A target has passed or failed; false if that was known, or it is none.
    pub fn settle(&mut self, target: Rank, has_passed: bool) -> bool {
        let is_open = !self.is_closed && self.open.remove(target);
        if is_open && !has_passed {
            self.failed.push(target);
        }
        is_open
    }

    /// Whether the outcome can be taken at this time.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        !self.is_closed && (self.open.is_empty() || now >= self.give_up)
    }

    /// When the outcome can be taken at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (!self.is_closed).then_some(self.give_up)
    }

    /// Who has not answered.
    pub fn unanswered(&self) -> impl Iterator<Item = Rank> + '_ {
        self.open.iter()
    }

    /// Whether tests are under way, or the outcome was not taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// Ends the tests. Who has not answered has failed. None: the tester distrusts itself, and the interval counts for
    /// nothing.
    pub fn close(&mut self, doubts: u32) -> Option<Vec<Rank>> {
        self.is_closed = true;
        let mut failed = std::mem::take(&mut self.failed);
        failed.extend(self.open.iter());
        let members = failed.iter().filter(|rank| self.frozen.contains(**rank)).count() as u32;
        let is_odd = self.members >= 3 && 2 * members > self.members;
        if is_odd && self.doubted < doubts {
            self.doubted += 1;
            return None;
        }
        self.doubted = 0;
        Some(failed)
    }
}
