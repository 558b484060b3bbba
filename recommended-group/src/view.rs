//! The members of a round, on which all of them agree.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::group::Group;
use crate::units::{Counter, Rank};

/// The number of a leader's attempt, and the leader. A higher one wins.
pub type Attempt = (u64, Rank);

/// What all members of a round know when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct View {
    /// Its place among all views, from 1: the view of the beginning, on which nobody has to agree.
    pub number: u64,
    /// In which attempt it was proposed first: tells views of the same number apart, if a network was cut in two.
    pub attempt: Attempt,
    /// How many rounds are complete. The round that begins now is the next one, or the same one again.
    pub round: u64,
    /// The number of the view in which the last complete round ran: its results are to be used. 0 before the first one.
    pub base: u64,
    /// Who takes part.
    pub members: Group,
    /// All counters, by rank.
    pub counters: Vec<Counter>,
}

impl View {
    /// At the beginning everybody takes part.
    #[must_use]
    pub fn first(count: u32) -> Self {
        let (members, counters) = (Group::all(count), vec![0; count as usize]);
        Self { number: 1, attempt: (0, 0), round: 0, base: 0, members, counters }
    }

    /// The place of a process among the members.
    #[must_use]
    pub fn place(&self, rank: Rank) -> Option<usize> {
        self.members.contains(rank).then(|| self.members.iter().take_while(|member| *member < rank).count())
    }

    /// Members that have left the group since this view was made, by these counters. One that is back again is among
    /// them: others may have given the round up while it was away.
    pub fn lost<'a>(&'a self, counters: &'a Counters) -> impl Iterator<Item = Rank> + 'a {
        self.members.iter().filter(|rank| counters.get(*rank) > self.counters[*rank as usize])
    }
}

/// What a leader must know of a process before it proposes a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Report {
    /// The process accepts nothing of lower attempts.
    pub promised: Attempt,
    /// The last view that is agreed, as far as it knows.
    pub view: Arc<View>,
    /// The view that it has accepted last, and in which attempt.
    pub accepted: Option<(Attempt, Arc<View>)>,
    /// Whether its program waits at the barrier, and if so whether its round went well.
    pub arrived: Option<bool>,
}
