//! The answers to a prepare request, from all acceptors.
//!
//! An acceptor answers in parts. It has promised with the first one, so that nothing of lower rounds changes on the
//! way.

use std::collections::BTreeMap;

use crate::logger::acceptor::{Instance, Vote};
use crate::logger::round::Round;

/// Of each instance the value of the highest round.
pub type Found<V> = BTreeMap<Instance, (Round, V)>;

/// Adds a value, unless there is one of a round that is as high.
pub fn keep_highest<V>(found: &mut Found<V>, instance: Instance, round: Round, value: V) {
    if found.get(&instance).is_none_or(|best| round > best.0) {
        found.insert(instance, (round, value));
    }
}

/// The answers so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Promises<V> {
    quorum: usize,
    /// Up to which instance each acceptor has told what it has; none: all.
    told: Vec<Option<Instance>>,
    found: Found<V>,
}

/// What to do after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<V> {
    /// Wait for other answers.
    Wait,
    /// Ask the same acceptor for what is after this.
    Ask(Instance),
    /// A quorum has told all.
    Complete(Found<V>),
}

impl<V> Promises<V> {
    /// Nobody has answered.
    #[must_use]
    pub fn new(after: Instance, acceptors: usize, quorum: usize) -> Self {
        Self { quorum, told: vec![Some(after); acceptors], found: Found::new() }
    }

    /// Whom to ask still, and after which instance.
    pub fn open(&self) -> impl Iterator<Item = (usize, Instance)> + '_ {
        self.told.iter().enumerate().filter_map(|(place, told)| told.map(|after| (place, after)))
    }

    /// Takes an answer of the acceptor at this place: what it has after an instance, or a part of that.
    pub fn add(&mut self, place: usize, after: Instance, accepted: Vec<Vote<V>>, is_part: bool) -> Next<V> {
        if self.told[place] != Some(after) {
            return Next::Wait;
        }
        let last = accepted.last().map_or(after, |vote| vote.instance);
        for Vote { instance, round, value } in accepted {
            keep_highest(&mut self.found, instance, round, value);
        }
        if is_part {
            self.told[place] = Some(last);
            return Next::Ask(last);
        }
        self.told[place] = None;
        let complete = self.told.iter().filter(|told| told.is_none()).count();
        if complete < self.quorum { Next::Wait } else { Next::Complete(std::mem::take(&mut self.found)) }
    }
}
