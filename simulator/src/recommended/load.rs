//! How long an answer takes on a host with jobs of others.
//!
//! An answer takes some milliseconds, and some more where all processors are taken. Now and then something else runs,
//! for a moment: answers take many times as long then, and in a part of the cases nothing on the host is done in time,
//! so that its own process sees all others late. How often that is grows with the share of time in which the jobs take
//! all processors.

use std::time::Duration;

use crate::random::Stream;

/// Parameters of all hosts. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Processors of a host.
    pub processors: u32,
    /// An answer on an idle host.
    pub answer: u64,
    /// Mean of what is added to it on an idle host, exponentially distributed.
    pub jitter: u64,
    /// The same where jobs take all processors all the time, in addition.
    pub busy_jitter: u64,
    /// Moments in which an answer takes longer, in a thousand seconds: on an idle host.
    pub idle_moments: f64,
    /// The same where jobs take all processors all the time, in addition.
    pub busy_moments: f64,
    /// How long a moment is, in the mean; exponentially distributed.
    pub moment: u64,
    /// An answer in it takes uniformly between these many times as long.
    pub slowdown: (u64, u64),
    /// In which share of the moments the host handles messages late, too.
    pub stalls: f64,
}

impl Load {
    /// Nothing disturbs.
    pub const QUIET: Load = Load {
        processors: 32,
        answer: 10_000_000,
        jitter: 100_000,
        busy_jitter: 0,
        idle_moments: 0.0,
        busy_moments: 0.0,
        moment: 1,
        slowdown: (1, 1),
        stalls: 0.0,
    };

    /// Fitted to the paper's text: replies of 62 and 68 ms are late against thresholds of 48 and 62 ms, 72 evictions in
    /// 30,000 s, and three times in which most processes left at once.
    pub const PAPER: Load = Load {
        processors: 32,
        answer: 8_000_000,
        jitter: 500_000,
        busy_jitter: 2_500_000,
        idle_moments: 0.01,
        busy_moments: 0.2,
        moment: 120_000_000,
        slowdown: (5, 20),
        stalls: 0.3,
    };
}

/// A moment in which a host is slow.
#[derive(Clone, Copy, Debug)]
struct Moment {
    start: u64,
    end: u64,
    slowdown: u64,
    stalls: bool,
}

/// One host.
#[derive(Debug)]
pub struct Host {
    load: Load,
    jitter: f64,
    moments: Vec<Moment>,
    /// The first moment that is not over.
    next: usize,
}

impl Host {
    /// A host with so many jobs of others, until `end`.
    pub fn new(load: Load, jobs: u32, end: u64, chance: &mut Stream) -> Self {
        // The share of time in which the jobs leave no processor.
        let full = (f64::from(jobs) / f64::from(load.processors)).min(1.0).powi(8);
        let jitter = load.jitter as f64 + full * load.busy_jitter as f64;
        let rate = (load.idle_moments + full * load.busy_moments) / 1e12;
        let mut moments: Vec<Moment> = Vec::new();
        // Without any, the first one is beyond all time.
        let wait = |now: u64, chance: &mut Stream| now.saturating_add(chance.exponential(1.0 / rate) as u64);
        let mut now = wait(0, chance);
        while now < end {
            let length = chance.exponential(load.moment as f64) as u64;
            let slowdown = load.slowdown.0 + chance.below(load.slowdown.1 - load.slowdown.0 + 1);
            moments.push(Moment { start: now, end: now + length, slowdown, stalls: chance.chance(load.stalls) });
            now = wait(now + length, chance);
        }
        Self { load, jitter, moments, next: 0 }
    }

    fn moment(&mut self, now: u64) -> Option<Moment> {
        while self.moments.get(self.next).is_some_and(|moment| moment.end <= now) {
            self.next += 1;
        }
        self.moments.get(self.next).copied().filter(|moment| moment.start <= now)
    }

    /// How long the answer to a test takes now.
    pub fn answer(&mut self, now: u64, chance: &mut Stream) -> u64 {
        let time = self.load.answer + chance.exponential(self.jitter) as u64;
        time * self.moment(now).map_or(1, |moment| moment.slowdown)
    }

    /// How much later the host handles a message that arrives now: up to as much as an answer takes longer.
    pub fn delay(&mut self, now: u64, chance: &mut Stream) -> u64 {
        let stall = self.moment(now).filter(|moment| moment.stalls);
        stall.map_or(0, |moment| chance.below(self.load.answer * moment.slowdown))
    }
}

/// The jobs of others on the paper's 18 hosts (table 3).
pub const PAPER_JOBS: [u32; 18] = [9, 33, 33, 32, 32, 32, 3, 2, 3, 4, 8, 5, 32, 2, 1, 31, 31, 31];

/// The counters of the paper's 18 processes after 30,000 intervals (table 3).
pub const PAPER_COUNTERS: [u32; 18] = [6, 10, 22, 14, 12, 12, 2, 4, 6, 6, 6, 0, 6, 2, 2, 12, 8, 14];

/// Nanoseconds as a time.
pub fn time(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}
