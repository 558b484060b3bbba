//! An acceptor of Paxos for a sequence of instances.
//!
//! A promise covers all instances, so that a proposer needs one for as many values as it likes. Every request may come
//! late, twice, or after a later one: the answer to a copy is that to the original, and changes nothing.
//!
//! An acceptor that forgets a promise is worse than a dead one. One whose state was lost must not come back under its
//! address.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::logger::round::Round;

/// The number of a decision in its sequence, from 1.
pub type Instance = u64;

/// Values in one promise at most.
pub const MOST_IN_A_PROMISE: usize = 512;

/// What a proposer asks of an acceptor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Request<V> {
    /// Accept nothing of lower rounds from now on, and tell what was accepted after this instance.
    Prepare {
        /// The proposer's round.
        round: Round,
        /// The last instance that the proposer knows.
        after: Instance,
    },
    /// Accept these values in consecutive instances.
    Accept {
        /// The proposer's round.
        round: Round,
        /// The instance of the first value.
        first: Instance,
        /// The values.
        values: Vec<V>,
    },
    /// Forget all instances up to this one: their outcome is kept elsewhere.
    Trim {
        /// The proposer's round: an older one may not know that somebody still needs them.
        round: Round,
        /// The last instance to forget.
        up_to: Instance,
    },
}

/// What an acceptor answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reply<V> {
    /// It accepts nothing of lower rounds.
    Promise {
        /// The round of the request.
        round: Round,
        /// The instance of the request.
        after: Instance,
        /// All up to this one were trimmed.
        trimmed: Instance,
        /// What it has accepted after that, in order.
        accepted: Vec<Vote<V>>,
        /// Whether there is more after the last of these: to be asked for with another request.
        is_part: bool,
    },
    /// It has accepted the values of a request.
    Accepted {
        /// The round of the request.
        round: Round,
        /// The first instance of the request.
        first: Instance,
        /// The last instance of the request.
        last: Instance,
    },
    /// It has promised a higher round.
    Refused {
        /// The round of the request.
        round: Round,
        /// The higher round.
        promised: Round,
    },
}

/// A value that an acceptor has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Vote<V> {
    /// The instance.
    pub instance: Instance,
    /// The round in which it was accepted last.
    pub round: Round,
    /// The value.
    pub value: V,
}

/// An acceptor of one sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acceptor<V> {
    promised: Round,
    trimmed: Instance,
    accepted: BTreeMap<Instance, (Round, V)>,
}

impl<V> Default for Acceptor<V> {
    fn default() -> Self {
        Self { promised: Round::NONE, trimmed: 0, accepted: BTreeMap::new() }
    }
}

impl<V: Clone> Acceptor<V> {
    /// Takes a request. A trim that is carried out has no answer.
    pub fn handle(&mut self, request: Request<V>) -> Option<Reply<V>> {
        let (Request::Prepare { round, .. } | Request::Accept { round, .. } | Request::Trim { round, .. }) = request;
        if round < self.promised {
            return Some(Reply::Refused { round, promised: self.promised });
        }
        self.promised = round;
        match request {
            Request::Prepare { after, .. } => Some(self.promise(round, after)),
            Request::Accept { first, values, .. } => {
                let last = first + values.len() as u64 - 1;
                let kept = (first..).zip(values).filter(|(instance, _)| *instance > self.trimmed);
                self.accepted.extend(kept.map(|(instance, value)| (instance, (round, value))));
                Some(Reply::Accepted { round, first, last })
            }
            Request::Trim { up_to, .. } => {
                self.trim(up_to);
                None
            }
        }
    }

    fn promise(&self, round: Round, after: Instance) -> Reply<V> {
        let mut rest = self.accepted.range(after.max(self.trimmed) + 1..);
        let vote = |(&instance, (round, value)): (&Instance, &(Round, V))| Vote {
            instance,
            round: *round,
            value: value.clone(),
        };
        let accepted = rest.by_ref().take(MOST_IN_A_PROMISE).map(vote).collect();
        Reply::Promise { round, after, trimmed: self.trimmed, accepted, is_part: rest.next().is_some() }
    }

    /// Forgets all instances up to this one.
    pub fn trim(&mut self, up_to: Instance) {
        self.trimmed = self.trimmed.max(up_to);
        self.accepted = self.accepted.split_off(&(self.trimmed + 1));
    }

    /// The highest round of which it has heard.
    #[must_use]
    pub fn promised(&self) -> Round {
        self.promised
    }

    /// All up to this one were trimmed.
    #[must_use]
    pub fn trimmed(&self) -> Instance {
        self.trimmed
    }

    /// What was accepted in this instance, and in which round.
    #[must_use]
    pub fn accepted(&self, instance: Instance) -> Option<&(Round, V)> {
        self.accepted.get(&instance)
    }

    /// The highest instance in which something was accepted, or the last that was trimmed.
    #[must_use]
    pub fn last(&self) -> Instance {
        self.accepted.keys().next_back().copied().unwrap_or(self.trimmed)
    }

    /// How many values it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.accepted.len()
    }

    /// Whether it holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accepted.is_empty()
    }
}
