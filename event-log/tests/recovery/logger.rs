//! An event logger that never fails, for one rank.

use std::collections::{BTreeMap, VecDeque};

use event_log::determinant::{Determinant, DeterminantId};

use crate::random::Random;

/// What it keeps of a rank, and what is under way to and from it.
#[derive(Default)]
pub struct Logger {
    stored: BTreeMap<DeterminantId, Determinant>,
    coming: VecDeque<Determinant>,
    /// Of a life before; none unless a test lets them arrive.
    late: VecDeque<Determinant>,
    stable: Option<DeterminantId>,
    asked: Option<DeterminantId>,
}

impl Logger {
    pub fn save(&mut self, determinant: Determinant) {
        self.coming.push_back(determinant);
    }

    pub fn trim(&mut self, up_to: DeterminantId) {
        self.stored.retain(|&id, _| id > up_to);
    }

    pub fn fetch(&mut self, since: DeterminantId) {
        self.asked = Some(since);
    }

    pub fn has_coming(&self) -> bool {
        !self.coming.is_empty() || !self.late.is_empty()
    }

    pub fn has_answer(&self) -> bool {
        self.stable.is_some()
    }

    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Stores the next that came.
    pub fn store(&mut self) {
        let determinant = self.coming.pop_front().or_else(|| self.late.pop_front()).expect("one is coming");
        self.stored.insert(determinant.id, determinant);
        self.stable = Some(determinant.id);
    }

    /// Its answer arrives at the rank: all up to this one are stable.
    pub fn answer(&mut self) -> DeterminantId {
        self.stable.take().expect("there is an answer")
    }

    /// The list for a replacement.
    pub fn list(&mut self) -> Vec<Determinant> {
        let since = self.asked.take().expect("it was asked");
        self.stored.range(since + 1..).map(|(_, &determinant)| determinant).collect()
    }

    /// The rank dies: some of what is under way still arrives, in order.
    pub fn lose(&mut self, random: &mut Random, others_come_late: bool) {
        for _ in 0..random.below(self.coming.len() + 1) {
            self.store();
        }
        let others = std::mem::take(&mut self.coming);
        if others_come_late {
            self.late.extend(others);
        }
        (self.stable, self.asked) = (None, None);
    }
}
