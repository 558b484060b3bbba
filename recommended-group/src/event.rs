//! News for all members, over a graph that survives crashes: the reliable broadcast of the paper.
//!
//! The participants are the members as the origin saw them, so that those who leave hear it, too. Everybody passes on
//! the first copy over the circulant graph of [`propagation::graph`]. What a crash or a lost message leaves out is
//! found by the next test.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::group::Group;
use crate::units::{Counter, Rank};

/// One broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// Who has found it.
    pub origin: Rank,
    /// The origin's number of it, from 1.
    pub number: u64,
    /// Whom it is for.
    pub group: Arc<Group>,
    /// Processes with their new counters.
    pub news: Vec<(Rank, Counter)>,
}

/// Whom a participant passes an event on to.
#[must_use]
pub fn receivers(event: &Event, count: u32, me: Rank) -> Vec<Rank> {
    let others: Vec<Rank> = (0..count).filter(|rank| !event.group.contains(*rank)).collect();
    propagation::graph::neighbours(count, &others, event.origin, me)
}

/// Which events a process has had: of each origin the highest number, and a bit for each of the 64 before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heard(BTreeMap<Rank, (u64, u64)>);

impl Heard {
    /// Takes note of an event; whether it is new. One that is older than 64 others of its origin is not.
    pub fn note(&mut self, event: &Event) -> bool {
        let (highest, mask) = self.0.entry(event.origin).or_default();
        if event.number > *highest {
            let distance = event.number - *highest;
            *mask = mask.checked_shl(distance as u32).unwrap_or(0) | 1;
            if distance >= 64 {
                *mask = 1;
            }
            *highest = event.number;
            return true;
        }
        let distance = *highest - event.number;
        let is_new = distance < 64 && *mask >> distance & 1 == 0;
        if is_new {
            *mask |= 1 << distance;
        }
        is_new
    }
}
