//! The leader counts votes on a return.
//!
//! A ballot is bound to the process, its counter, and all counters of the leader. Whoever knows other counters does not
//! agree, so that those who agree have the same group as the leader. When the leader's counters change it starts again.
//! So a ballot of a leader that was lost cannot be carried to an end by another one, and two leaders cannot bring a
//! process back twice: the outcome is an absolute counter.

use std::collections::BTreeMap;

use crate::group::Group;
use crate::units::{Counter, Rank};

/// A ballot of the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// The counter of the process, which is odd.
    pub counter: Counter,
    /// The digest of the leader's counters.
    pub digest: u64,
    /// Who votes.
    voters: Group,
    /// Who has voted, and how.
    votes: BTreeMap<Rank, bool>,
}

/// What a ballot has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It can go either way.
    Open,
    /// More than half have agreed.
    Accepted,
    /// More than half can agree no more.
    Rejected,
}

impl Ballot {
    /// Nobody has voted.
    #[must_use]
    pub fn new(counter: Counter, digest: u64, voters: Group) -> Self {
        Self { counter, digest, voters, votes: BTreeMap::new() }
    }

    /// Takes a vote; the first one of a voter counts.
    pub fn vote(&mut self, voter: Rank, agrees: bool) -> Outcome {
        if self.voters.contains(voter) {
            self.votes.entry(voter).or_insert(agrees);
        }
        self.outcome()
    }

    /// What it has come to so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let agree = self.votes.values().filter(|agrees| **agrees).count();
        let refuse = self.votes.len() - agree;
        if 2 * agree > self.voters.len() {
            Outcome::Accepted
        } else if 2 * (self.voters.len() - refuse) <= self.voters.len() {
            Outcome::Rejected
        } else {
            Outcome::Open
        }
    }

    /// Who has not voted.
    pub fn silent(&self) -> impl Iterator<Item = Rank> + '_ {
        self.voters.iter().filter(|voter| !self.votes.contains_key(voter))
    }
}
