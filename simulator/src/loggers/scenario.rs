//! What is simulated, and what came of it.

use crate::loggers::costs::Costs;
use crate::loggers::deployment::Deployment;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The logger.
    pub deployment: Deployment,
    /// What messages take.
    pub costs: Costs,
    /// How many ranks save, each on a node of its own.
    pub ranks: u32,
    /// How many determinants a rank gathers before it sends.
    pub batch: u64,
    /// Until so many are stable, of all ranks; the first quarter is not measured.
    pub determinants: u64,
    /// Of all chance.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Determinants per millisecond, of all ranks.
    pub rate: f64,
    /// From the flush to the news that all of it is stable, in nanoseconds: mean.
    pub mean: f64,
    /// The same, 99th percentile.
    pub percentile_99: u64,
    /// How many processors the servers, acceptors or replicas of the busiest node used.
    pub store_processors: f64,
}
