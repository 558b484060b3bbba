//! Outcomes that the program does not determine: the lowest living replica of a rank decides, the others follow.
//!
//! Each replica tells all others of its rank what it knows. Nothing leaves a replica before all living ones know the
//! decisions on which it may depend. So a decision that somebody outside can have seen the effect of is not forgotten
//! while a replica lives. A successor decides when it has what each of the others knew: then all have the same past.

use std::collections::VecDeque;

use event_log::determinant::Rank;
use event_log::protocol::units::Request;
use serde::{Deserialize, Serialize};

use crate::replicas::{Indices, MOST};
use crate::variant::{Rule, Variant};

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A receive from any source gets this message.
    Match {
        /// The receive.
        request: Request,
        /// The source of its message.
        source: Rank,
        /// The number of the message.
        number: u64,
    },
    /// So many calls have found nothing, one after the other.
    Nothing {
        /// How many.
        times: u32,
    },
    /// A wait or a test returns this receive.
    Completed {
        /// The receive.
        request: Request,
    },
    /// A test of several receives returns all.
    All,
    /// A probe finds this message.
    Found {
        /// Its source.
        source: Rank,
        /// Its number.
        number: u64,
    },
    /// A receive is cancelled, or has a message.
    Cancelled {
        /// The receive.
        request: Request,
        /// Whether it had no message.
        is_cancelled: bool,
    },
    /// The clock.
    Clock(u64),
}

/// A decision of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Its number from 1, in the order of deciding.
    pub id: u64,
    /// What was decided.
    pub what: What,
}

/// The decisions of a rank, as one of its replicas knows them.
#[derive(Clone, Debug)]
pub struct Decisions {
    me: u8,
    known: [u64; MOST as usize],
    /// Those that somebody may lack.
    kept: VecDeque<Decision>,
    /// About calls that this replica has not made yet.
    calls: VecDeque<What>,
    /// Calls that found nothing, not told yet.
    polls: u32,
    /// Who has said what it knew when this replica became the lowest.
    heard: Indices,
}

impl Decisions {
    /// That of replica `me`.
    pub fn new(me: u8) -> Self {
        let known = [0; MOST as usize];
        Self { me, known, kept: VecDeque::new(), calls: VecDeque::new(), polls: 0, heard: Indices::default() }
    }

    /// The number of the last decision that this replica knows.
    pub fn last(&self) -> u64 {
        self.known[usize::from(self.me)]
    }

    /// Whether this replica decides while these live.
    pub fn decides<V: Variant>(&self, living: Indices) -> bool {
        let mut others = living;
        others.remove(self.me);
        let is_first = self.me == 0;
        let has_heard = is_first || others.without(self.heard).is_empty() || !V::keeps(Rule::SuccessorAsks);
        living.lowest() == Some(self.me) && has_heard && self.calls.is_empty()
    }

    /// Decides.
    pub fn decide(&mut self, what: What) -> Decision {
        let decision = Decision { id: self.last() + 1, what };
        self.known[usize::from(self.me)] = decision.id;
        self.kept.push_back(decision);
        decision
    }

    /// A call has found nothing. Returns what is to be told, once so many have.
    pub fn poll(&mut self, together: u32) -> Option<Decision> {
        self.polls += 1;
        if self.polls >= together { self.tell_polls() } else { None }
    }

    /// What is to be told of calls that have found nothing.
    pub fn tell_polls(&mut self) -> Option<Decision> {
        let times = std::mem::take(&mut self.polls);
        (times > 0).then(|| self.decide(What::Nothing { times }))
    }

    /// A decision has come. Returns it if it is new.
    pub fn learn(&mut self, decision: Decision) -> Option<What> {
        if decision.id != self.last() + 1 {
            return None;
        }
        self.known[usize::from(self.me)] = decision.id;
        self.kept.push_back(decision);
        match decision.what {
            What::Match { .. } => {}
            what => self.calls.push_back(what),
        }
        Some(decision.what)
    }

    /// What was decided about the next call.
    pub fn front(&self) -> Option<What> {
        self.calls.front().copied()
    }

    /// The call was made.
    pub fn pop(&mut self) {
        match self.calls.front_mut() {
            Some(What::Nothing { times }) if *times > 1 => *times -= 1,
            _ => _ = self.calls.pop_front(),
        }
    }

    /// Another replica knows all up to this one.
    pub fn note_known(&mut self, index: u8, up_to: u64) {
        let known = &mut self.known[usize::from(index)];
        *known = up_to.max(*known);
    }

    /// Whether all these know all up to this one.
    pub fn are_known<V: Variant>(&self, up_to: u64, living: Indices) -> bool {
        !V::keeps(Rule::OthersSayWhatTheyKnow) || living.iter().all(|index| self.known[usize::from(index)] >= up_to)
    }

    /// Drops what all know.
    pub fn drop_known(&mut self, living: Indices) {
        let least = living.iter().map(|index| self.known[usize::from(index)]).min().unwrap_or(0);
        while self.kept.front().is_some_and(|decision| decision.id <= least) {
            self.kept.pop_front();
        }
    }

    /// What this replica knows and another one may not.
    pub fn beyond(&self, index: u8) -> Vec<Decision> {
        let known = self.known[usize::from(index)];
        self.kept.iter().filter(|decision| decision.id > known).copied().collect()
    }

    /// Another replica has said what it knew when this one became the lowest.
    pub fn note_heard(&mut self, index: u8) {
        self.heard.insert(index);
    }

    /// Decisions that somebody may lack.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}
