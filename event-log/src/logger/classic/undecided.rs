//! What a coordinator has proposed and what is not decided yet: consecutive instances.

use std::collections::VecDeque;

use crate::logger::acceptor::Instance;
use crate::logger::classic::between::Proposal;

/// Proposals from the first that is not decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Undecided {
    first: Instance,
    /// Each with the places of those who have accepted it, as bits.
    proposals: VecDeque<(Proposal, u64)>,
}

impl Undecided {
    /// None, and the next one has this number.
    #[must_use]
    pub fn new(first: Instance) -> Self {
        Self { first, proposals: VecDeque::new() }
    }

    /// Adds a proposal that the coordinator's own acceptor, at place 0, has accepted.
    pub fn push(&mut self, proposal: Proposal) {
        self.proposals.push_back((proposal, 1));
    }

    /// The number of the next proposal.
    #[must_use]
    pub fn next(&self) -> Instance {
        self.first + self.proposals.len() as u64
    }

    /// The acceptor at this place has accepted these instances.
    pub fn accept(&mut self, place: usize, first: Instance, last: Instance) {
        for (instance, (_, accepted)) in (self.first..).zip(&mut self.proposals) {
            if (first..=last).contains(&instance) {
                *accepted |= 1 << place;
            }
        }
    }

    /// Takes the first proposal, if so many have accepted it.
    pub fn decided(&mut self, quorum: usize) -> Option<Proposal> {
        let is_decided = self.proposals.front().is_some_and(|(_, accepted)| accepted.count_ones() as usize >= quorum);
        is_decided.then(|| {
            self.first += 1;
            self.proposals.pop_front().expect("it was seen").0
        })
    }

    /// Whether the acceptor at this place has not accepted the first proposal.
    #[must_use]
    pub fn is_silent(&self, place: usize) -> bool {
        self.proposals.front().is_some_and(|(_, accepted)| accepted & 1 << place == 0)
    }

    /// The first proposals, at most so many, and the instance of the first one.
    #[must_use]
    pub fn first(&self, most: usize) -> (Instance, Vec<Proposal>) {
        (self.first, self.proposals.iter().take(most).map(|(proposal, _)| proposal.clone()).collect())
    }
}
