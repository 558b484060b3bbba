//! Parameters.

use std::time::Duration;

use crate::assignment::Assignment;
use crate::estimator::Tolerance;
use crate::units::{Rank, Time};

/// Who a process is, and its parameters. All but `me` are equal at all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// This process: below `count`.
    pub me: Rank,
    /// How many processes there are (N in the paper), at least 1.
    pub count: u32,
    /// The time between two tests of a process, above zero.
    pub interval: Time,
    /// How many tests in a row a process outside passes before its return is asked for (zeta in the paper), above zero.
    pub passes: u32,
    /// Of thresholds.
    pub tolerance: Tolerance,
    /// A test is given up after this many thresholds, or at the end of its interval if that is earlier, but not before
    /// the threshold; at least 1.
    pub patience: u32,
    /// Who tests whom.
    pub assignment: Assignment,
    /// So many intervals in a row a tester believes that it is slow itself, when more than half of the members whom it
    /// tests fail, of at least three. 0: never, as in the paper.
    pub doubts: u32,
    /// Whether the smallest process that answers at all makes a new group when the group is empty.
    pub founds: bool,
    /// Whether whoever passes the tests comes back.
    pub returns: bool,
}

impl Config {
    /// The paper's parameters, with the additions that its text lacks: doubts and founding.
    #[must_use]
    pub fn new(me: Rank, count: u32) -> Self {
        Self {
            me,
            count,
            interval: Duration::from_secs(1),
            passes: 5,
            tolerance: Tolerance::default(),
            patience: 2,
            assignment: Assignment::AllToAll,
            doubts: 2,
            founds: true,
            returns: true,
        }
    }
}
