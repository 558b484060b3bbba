//! Tests, messages and latency by number of processes.

use recommended_group::assignment::Assignment;
use recommended_group::cluster::dimension;
use recommended_group::message::Message;
use recommended_group::units::Rank;
use serde::Serialize;

use crate::random::{Purpose, Stream};
use crate::recommended::run::{Observer, Run};
use crate::recommended::scenario::{Fate, Scenario};

const SECOND: u64 = 1_000_000_000;

/// Who dies at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// One process.
    One,
    /// Half of them, at random.
    Half,
    /// All but one, which is any.
    AllButOne,
}

/// Messages of a group in which nothing happens.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct Costs {
    /// Tests in an interval.
    pub tests: u64,
    /// All messages in an interval.
    pub messages: u64,
}

/// What happens when processes die.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Latency {
    /// Intervals from the deaths until all others know all of them.
    pub intervals: f64,
    /// Messages beyond tests and replies in this time.
    pub news: u64,
}

#[derive(Default)]
struct Count {
    tests: u64,
    replies: u64,
    others: u64,
}

impl Observer for Count {
    fn sent(&mut self, _: u64, _: Rank, message: &Message) {
        match message {
            Message::Test(_) => self.tests += 1,
            Message::Reply { .. } => self.replies += 1,
            _ => self.others += 1,
        }
    }
}

/// The most tests in an interval: N (N - 1), or N log2 N.
#[must_use]
pub fn most_tests(assignment: Assignment, count: u32) -> u64 {
    match assignment {
        Assignment::AllToAll => u64::from(count) * u64::from(count - 1),
        Assignment::VCube => u64::from(count) * u64::from(dimension(count)),
    }
}

/// The latency bound in intervals: one test of everybody, or log2 N squared as for Hi-ADSD. A test that is under way
/// when its target dies may have passed, and the next one is given up at the end of its interval: one more each. It holds
/// for testers that believe what they see: where more than half die at once, doubts come on top.
#[must_use]
pub fn latency_bound(assignment: Assignment, count: u32) -> u64 {
    match assignment {
        Assignment::AllToAll => 2,
        Assignment::VCube => u64::from(dimension(count)).pow(2) + 1,
    }
}

fn scenario(assignment: Assignment, count: u32) -> Scenario {
    let mut scenario = Scenario::quiet(count, 1000);
    scenario.config.assignment = assignment;
    // The bounds are those of testers that believe what they see.
    scenario.config.doubts = 0;
    scenario
}

/// An interval in which nothing happens.
#[must_use]
pub fn quiet(assignment: Assignment, count: u32) -> Costs {
    let mut run = Run::new(&scenario(assignment, count));
    run.until(2 * SECOND, &mut Count::default());
    let mut counted = Count::default();
    run.until(3 * SECOND, &mut counted);
    Costs { tests: counted.tests, messages: counted.tests + counted.replies + counted.others }
}

/// Processes die at once. `doubts`: as in the group's parameters.
///
/// # Panics
/// If not everybody knows it after the bound, the doubts and two more intervals.
#[must_use]
pub fn deaths(assignment: Assignment, count: u32, losses: Losses, doubts: u32, seed: u64) -> Latency {
    let mut chance = Stream::new(seed, Purpose::Failures);
    let mut ranks: Vec<Rank> = (0..count).collect();
    (1..ranks.len()).rev().for_each(|last| ranks.swap(last, chance.below(last as u64 + 1) as usize));
    let dead = match losses {
        Losses::One => 1,
        Losses::Half => count / 2,
        Losses::AllButOne => count - 1,
    };
    let mut scenario = Scenario { seed, ..scenario(assignment, count) };
    scenario.config.doubts = doubts;
    let begin = 5 * SECOND;
    scenario.fates = ranks[..dead as usize].iter().map(|rank| (begin, *rank, Fate::Kill)).collect();
    let mut run = Run::new(&scenario);
    run.until(begin, &mut Count::default());
    let (mut counted, step) = (Count::default(), SECOND / 50);
    for steps in 1..=50 * (latency_bound(assignment, count) + u64::from(doubts) + 2) {
        run.until(begin + steps * step, &mut counted);
        let knows = |group: &recommended_group::group::Group| group.len() == (count - dead) as usize;
        if run.running().all(|member| knows(member.counters().group())) {
            return Latency { intervals: steps as f64 / 50.0, news: counted.others };
        }
    }
    panic!("{losses:?} of {count} with {assignment:?}, seed {seed}: not all know it")
}
