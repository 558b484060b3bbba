//! What is simulated.

use recommended_group::config::Config;
use recommended_group::units::Rank;

use crate::recommended::load::Load;

/// What happens to a process from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is killed.
    Kill,
    /// It is stopped.
    Stop,
    /// It goes on.
    Resume,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How many processes, each on a host of its own.
    pub count: u32,
    /// The jobs of others, by host; those beyond the end have none.
    pub jobs: Vec<u32>,
    /// What these do.
    pub load: Load,
    /// A message takes up to this, in nanoseconds.
    pub network: u64,
    /// How long, in nanoseconds.
    pub end: u64,
    /// Who is killed, stopped or let go on, and when; in any order.
    pub fates: Vec<(u64, Rank, Fate)>,
    /// The parameters, of which the rank is ignored.
    pub config: Config,
    /// Of all chance.
    pub seed: u64,
}

impl Scenario {
    /// Nothing disturbs, and nobody fails.
    #[must_use]
    pub fn quiet(count: u32, seconds: u64) -> Self {
        Self {
            count,
            jobs: Vec::new(),
            load: Load::QUIET,
            network: 100_000,
            end: seconds * 1_000_000_000,
            fates: Vec::new(),
            config: Config::new(0, count),
            seed: 1,
        }
    }
}
