//! Those who watch the group without being in it, such as the `ringwatchd` of the node.

use std::time::Duration;

use recommended_group::report::{Change, Sight};

/// Least time between two sights of a small group.
const SIGHT: Duration = Duration::from_secs(1);
/// So many processes more make it longer by as much again.
const MANY: u32 = 256;

/// Who is told what a process decides and how it sees its group. No call may wait.
pub trait Watcher: Send {
    /// What the process has decided; perhaps nothing. Called often, so what could not be told before is told now.
    fn changes(&mut self, changes: Vec<Change>);
    /// How it sees the group.
    fn sight(&mut self, sight: &Sight);
}

/// Nobody watches.
pub struct Nobody;

impl Watcher for Nobody {
    fn changes(&mut self, _: Vec<Change>) {}
    fn sight(&mut self, _: &Sight) {}
}

/// The time from one sight to the next, in a group of so many processes that are tested at this interval.
#[must_use]
pub fn between_sights(interval: Duration, count: u32) -> Duration {
    interval.max(SIGHT * (1 + count / MANY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_watches_costs_a_large_group_no_more_than_a_small_one() {
        assert_eq!(between_sights(Duration::from_millis(10), 16), SIGHT);
        assert_eq!(between_sights(Duration::from_secs(5), 16), Duration::from_secs(5));
        assert_eq!(between_sights(SIGHT, 4096), 17 * SIGHT);
    }
}
