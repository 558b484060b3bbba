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
    /// When the barrier's words are said again, if anybody waits.
    pub(super) repeat: Option<Repeat>,
    /// When the barrier goes on, if it is held.
    pub(super) release_at: Option<Time>,
    /// Who knows other counters and is to be told these.
    pub(super) differ: Group,
    /// When it was tested last.
    pub(super) tested_at: Time,
    /// What is known of the others while the group is empty.
    pub(super) vacancy: Vacancy,
}

/// A repetition of the barrier's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Repeat {
    /// The number of the last view when this was decided.
    pub view: u64,
    /// When it is due.
    pub at: Time,
    /// How long after the one before.
    pub pause: Time,
}

/// What a process knows of the others since its group is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Vacancy {
    /// Who has answered that it is outside, too.
    outside: Group,
    /// Who has not answered.
    silent: Group,
}

impl Vacancy {
    fn none(count: u32) -> Self {
        Self { outside: Group::none(count), silent: Group::none(count) }
    }

    pub fn is_outside(&mut self, rank: Rank) {
        self.silent.remove(rank);
        self.outside.insert(rank);
    }

    pub fn is_silent(&mut self, rank: Rank) {
        self.outside.remove(rank);
        self.silent.insert(rank);
    }

    /// There is a group.
    pub fn ends(&mut self) {
        self.outside.clear();
        self.silent.clear();
    }

    /// Whether process `me` makes a group: all are outside as it is or silent, and all smaller ones are silent.
    pub fn is_for(&self, me: Rank, count: u32, dead: &Group) -> bool {
        (0..count)
            .filter(|rank| *rank != me && !dead.contains(*rank))
            .all(|rank| self.silent.contains(rank) || (rank > me && self.outside.contains(rank)))
    }
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
            repeat: None,
            release_at: None,
            differ: Group::none(config.count),
            tested_at: start,
            vacancy: Vacancy::none(config.count),
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
