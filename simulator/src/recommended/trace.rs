//! 30,000 intervals as the paper's table 3 and figures 7 to 13.

use recommended_group::action::Action;
use recommended_group::counters::is_recommended;
use recommended_group::estimator::Tolerance;
use recommended_group::member::Member;
use recommended_group::test::Primes;
use recommended_group::units::{Counter, Rank};
use serde::Serialize;

use crate::recommended::load::{Load, PAPER_JOBS};
use crate::recommended::run::{Observer, Run};
use crate::recommended::scenario::Scenario;

const SECOND: u64 = 1_000_000_000;

/// One test as its tester saw it. Times in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// When, in intervals.
    pub interval: f64,
    /// The time of the reply; none: it was given up.
    pub reply: Option<f64>,
    /// The threshold.
    pub threshold: f64,
    /// Whether it has passed.
    pub passed: bool,
    /// How many tests in a row the target has passed outside the group, after this one.
    pub streak: u32,
}

/// What a tester has done about one process.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The tester.
    pub tester: Rank,
    /// The process.
    pub target: Rank,
    /// Each test.
    pub samples: Vec<Sample>,
    /// How often a member has failed it.
    pub failures: u32,
    /// How often the tester has asked for the return.
    pub requests: u32,
    /// How often it has agreed without having asked.
    pub votes: u32,
    #[serde(skip)]
    has_asked: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// How many intervals.
    pub intervals: u64,
    /// Jobs of others on each host.
    pub jobs: Vec<u32>,
    /// The counters at the end.
    pub counters: Vec<Counter>,
    /// The number of members after each change, with its time in intervals.
    pub sizes: Vec<(f64, usize)>,
    /// Each eviction and return: time in intervals, process, counter.
    pub changes: Vec<(f64, Rank, Counter)>,
    /// Pairs that are looked at.
    pub pairs: Vec<Pair>,
    /// Ballots that were opened.
    pub ballots: u32,
    /// All messages.
    pub messages: u64,
    /// By tester and target: how often a member has failed.
    #[serde(skip)]
    pub failures: Vec<Vec<u32>>,
    /// By tester and target: whether the tester knows that the target is outside the group.
    #[serde(skip)]
    is_outside: Vec<Vec<bool>>,
}

impl Observer for Trace {
    fn sent(&mut self, _: u64, _: Rank, _: &recommended_group::message::Message) {
        self.messages += 1;
    }

    fn said(&mut self, now: u64, who: &Member<Primes>, action: &Action) {
        let me = who.config().me;
        if let Action::Opened { .. } = action {
            self.ballots += 1;
        }
        let rank = match action {
            Action::Tested { target, .. } => *target,
            Action::Requested { rank } | Action::Voted { rank, .. } | Action::Changed { rank, .. } => *rank,
            _ => return,
        };
        // The machine is asked no more: it knows of the verdict already.
        let is_outside = &mut self.is_outside[me as usize][rank as usize];
        if let Action::Changed { counter, .. } = action {
            *is_outside = !is_recommended(*counter);
        }
        let is_failure = !*is_outside && matches!(action, Action::Tested { passed: false, .. });
        self.failures[me as usize][rank as usize] += u32::from(is_failure);
        let Some(pair) = self.pairs.iter_mut().find(|pair| pair.tester == me && pair.target == rank) else { return };
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        match action {
            Action::Tested { reply, threshold, passed, .. } => {
                pair.failures += u32::from(is_failure);
                pair.samples.push(Sample {
                    interval: now as f64 / SECOND as f64,
                    reply: reply.map(ms),
                    threshold: ms(*threshold),
                    passed: *passed,
                    streak: who.streak(rank),
                });
            }
            Action::Requested { .. } => {
                pair.requests += 1;
                pair.has_asked = true;
            }
            Action::Voted { agrees: true, .. } => pair.votes += u32::from(!pair.has_asked),
            Action::Changed { .. } => pair.has_asked = false,
            _ => {}
        }
    }

    fn changed(&mut self, now: u64, rank: Rank, counter: Counter) {
        let interval = now as f64 / SECOND as f64;
        let last = self.sizes.last().map_or(self.jobs.len(), |size| size.1);
        let size = if is_recommended(counter) { last + 1 } else { last - 1 };
        self.sizes.push((interval, size));
        self.changes.push((interval, rank, counter));
    }
}

/// The paper's second experiment: 18 processes, the jobs of its table 3, thresholds of 2.5 times TCP's. `doubts`: as in
/// [`Config`](recommended_group::config::Config). Looked at are these testers and targets.
#[must_use]
pub fn monitoring(intervals: u64, doubts: u32, seed: u64, pairs: &[(Rank, Rank)]) -> Trace {
    let mut scenario = Scenario::quiet(18, intervals);
    scenario.jobs = PAPER_JOBS.to_vec();
    scenario.load = Load::PAPER;
    scenario.config.doubts = doubts;
    scenario.seed = seed;
    trace(&scenario, pairs)
}

/// The process that has left most often with the tester that has failed it most often and the one that has done so
/// least often, and one that has left least often: the counterparts of the paper's figures 8 to 10 in this order.
#[must_use]
pub fn remarkable(trace: &Trace) -> [(Rank, Rank); 3] {
    let by_counter = |rank: &Rank| trace.counters[*rank as usize];
    let ranks = || 0..trace.counters.len() as Rank;
    let most = ranks().max_by_key(by_counter).unwrap_or(0);
    let least = ranks().filter(|rank| *rank != most).min_by_key(by_counter).unwrap_or(0);
    let failures = |tester: &Rank| trace.failures[*tester as usize][most as usize];
    let others = || ranks().filter(|rank| *rank != most);
    let (kind, strict) = (others().min_by_key(failures).unwrap_or(0), others().max_by_key(failures).unwrap_or(0));
    let other = others().find(|rank| *rank != least).unwrap_or(0);
    [(kind, most), (strict, most), (other, least)]
}

/// The paper's first one: a threshold that is very close to the replies (figure 7: process 1 tests process 0).
#[must_use]
pub fn close_threshold(intervals: u64, seed: u64) -> Trace {
    let mut scenario = Scenario::quiet(18, intervals);
    scenario.jobs = PAPER_JOBS.to_vec();
    scenario.load = Load::PAPER;
    scenario.config.tolerance = Tolerance { multiplier: 1000, ..Tolerance::default() };
    scenario.seed = seed;
    trace(&scenario, &[(1, 0)])
}

/// Runs it, with an eye on these testers and targets.
#[must_use]
pub fn trace(scenario: &Scenario, pairs: &[(Rank, Rank)]) -> Trace {
    let pair = |&(tester, target): &(Rank, Rank)| Pair {
        tester,
        target,
        samples: Vec::new(),
        failures: 0,
        requests: 0,
        votes: 0,
        has_asked: false,
    };
    let mut trace = Trace {
        intervals: scenario.end / SECOND,
        jobs: (0..scenario.count as usize).map(|host| scenario.jobs.get(host).copied().unwrap_or(0)).collect(),
        counters: Vec::new(),
        sizes: Vec::new(),
        changes: Vec::new(),
        pairs: pairs.iter().map(pair).collect(),
        ballots: 0,
        messages: 0,
        failures: vec![vec![0; scenario.count as usize]; scenario.count as usize],
        is_outside: vec![vec![false; scenario.count as usize]; scenario.count as usize],
    };
    let mut run = Run::new(scenario);
    run.until(scenario.end, &mut trace);
    trace.counters = run.known().to_vec();
    trace
}

/// Pearson's correlation of jobs and counters.
#[must_use]
pub fn correlation(jobs: &[u32], counters: &[u32]) -> f64 {
    let mean = |values: &[u32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    let (of_jobs, of_counters) = (mean(jobs), mean(counters));
    let products = |one: &[u32], mean_one: f64, other: &[u32], mean_other: f64| {
        let pairs = one.iter().zip(other);
        pairs.map(|(a, b)| (f64::from(*a) - mean_one) * (f64::from(*b) - mean_other)).sum::<f64>()
    };
    let spread = products(jobs, of_jobs, jobs, of_jobs) * products(counters, of_counters, counters, of_counters);
    products(jobs, of_jobs, counters, of_counters) / spread.sqrt()
}
