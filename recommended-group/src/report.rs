//! What a process tells those who watch the group, but take no part in it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Counter, Rank};

/// What a process knows of another, or of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// In the group.
    Member,
    /// Not in the group: it is slow, stopped, or dead without its being known.
    Evicted,
    /// Known to be dead.
    Dead,
    /// Its program is complete.
    Left,
}

/// What a test has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The answer was right and in time.
    Passed,
    /// The answer came later than the threshold.
    Late,
    /// No answer came until the test was given up.
    Silent,
    /// The answer was wrong.
    Wrong,
}

/// The last test of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tested {
    /// Its outcome.
    pub verdict: Verdict,
    /// The time of the answer; none if there was none.
    pub reply: Option<Duration>,
    /// The threshold of this test.
    pub threshold: Duration,
}

impl Tested {
    /// What the state machine says of a test.
    #[must_use]
    pub fn of(reply: Option<Duration>, threshold: Duration, passed: bool) -> Self {
        let verdict = match reply {
            _ if passed => Verdict::Passed,
            None => Verdict::Silent,
            Some(reply) if reply > threshold => Verdict::Late,
            Some(_) => Verdict::Wrong,
        };
        Self { verdict, reply, threshold }
    }
}

/// A process leaves the group, or comes back, as the process that tells it has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The process.
    pub rank: Rank,
    /// Its new counter: odd if it leaves, even if it comes back.
    pub counter: Counter,
    /// If it leaves: the test that it has failed; none if it is dead.
    pub tested: Option<Tested>,
}

/// How a process sees another, or itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The other process.
    pub rank: Rank,
    /// What is known of it.
    pub standing: Standing,
    /// Whether it takes part in the round.
    pub is_in_round: bool,
    /// Its counter.
    pub counter: Counter,
    /// Outside the group: how many tests in a row it has passed.
    pub streak: u32,
    /// The threshold of its next test.
    pub threshold: Duration,
    /// Its last test by this process.
    pub tested: Option<Tested>,
}

/// How a process sees its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// How many rounds are complete.
    pub round: u64,
    /// The number of the round's view.
    pub epoch: u64,
    /// Whether the program waits at the barrier.
    pub waits: bool,
    /// All processes, by rank.
    pub rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_passed_or_its_answer_was_late_or_wrong_or_did_not_come() {
        let of = |reply, passed| Tested::of(Some(Duration::from_millis(reply)), Duration::from_millis(20), passed);
        assert_eq!(of(20, true).verdict, Verdict::Passed);
        assert_eq!((of(21, false).verdict, of(20, false).verdict), (Verdict::Late, Verdict::Wrong));
        assert_eq!(Tested::of(None, Duration::ZERO, false).verdict, Verdict::Silent);
    }
}
