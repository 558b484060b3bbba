//! What a process knows.

use std::collections::BTreeMap;

use crate::ballot::Ballot;
use crate::barrier::Barrier;
use crate::config::Config;
use crate::counters::Counters;
use crate::estimator::Estimator;
use crate::event::Heard;
use crate::group::Group;
use crate::trials::Trials;
use crate::units::{Rank, Time};

/// A process of the job, in the group or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member<T> {
    pub(super) config: Config,
    pub(super) test: T,
    pub(super) counters: Counters,
    /// By rank.
    pub(super) targets: Vec<Target>,
    pub(super) trials: Trials,
    pub(super) next_interval: Time,
    pub(super) heard: Heard,
    /// How many broadcasts this process has begun.
    pub(super) events: u64,
    /// As the leader, by the process that may come back.
    pub(super) ballots: BTreeMap<Rank, Ballot>,
    /// Who is known to be dead: not tested.
    pub(super) dead: Group,
    pub(super) barrier: Barrier,
}

/// What a tester knows of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub estimator: Estimator,
    /// How many tests in a row it has passed since it left the group.
    pub streak: u32,
    /// Whether the leader was asked to bring it back, and nothing has changed since.
    pub is_requested: bool,
}

impl<T> Member<T> {
    /// A process whose first interval begins at `start`.
    #[must_use]
    pub fn new(config: Config, test: T, start: Time) -> Self {
        Self {
            config,
            test,
            counters: Counters::new(config.count),
            targets: vec![Target::default(); config.count as usize],
            trials: Trials::none(config.count),
            next_interval: start,
            heard: Heard::default(),
            events: 0,
            ballots: BTreeMap::new(),
            dead: Group::none(config.count),
            barrier: Barrier::new(config.me, config.count),
        }
    }

    /// Its parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The test.
    #[must_use]
    pub fn test(&self) -> &T {
        &self.test
    }

    /// All counters, as far as it knows.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether it is in the group, as far as it knows.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.counters.group().contains(self.config.me)
    }

    /// Who is known to be dead; the others outside the group are slow, stopped, or dead without its being known.
    #[must_use]
    pub fn dead(&self) -> &Group {
        &self.dead
    }

    /// How many tests in a row a process outside has passed here.
    #[must_use]
    pub fn streak(&self, rank: Rank) -> u32 {
        self.targets[rank as usize].streak
    }

    /// The threshold of the next test of a process.
    #[must_use]
    pub fn threshold(&self, rank: Rank) -> Time {
        self.targets[rank as usize].estimator.threshold(&self.config.tolerance)
    }
}
