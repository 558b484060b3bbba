//! What a test changes around the machines, and what happened in a run.

use std::ops::AddAssign;

/// What a test changes around the machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// At most so many crashes, each of one rank or of two.
    pub crashes: usize,
    /// The bytes that each rank's logs may take.
    pub limit: Option<u64>,
    /// Not to wait for determinants.
    pub asynchronous: bool,
    /// To drop determinants when a checkpoint begins to be written.
    pub trims_early: bool,
    /// To store determinants of a dead rank after its replacement has got its list.
    pub has_no_fence: bool,
    /// To count what was received per peer only.
    pub counts_per_peer: bool,
    /// Only replacements tell survivors, and survivors replacements, what they have received.
    pub tells_replaced_only: bool,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub crashes: usize,
    /// Crashes while another rank was replaying.
    pub overlapping: usize,
    pub checkpoints: usize,
    /// Messages that were sent again.
    pub resent: usize,
    pub determinants: usize,
    /// What members of collective operations got from others' logs.
    pub served: usize,
    /// Ranks that have dropped their logs.
    pub unprotected: usize,
    pub events: usize,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.overlapping += other.overlapping;
        self.checkpoints += other.checkpoints;
        self.resent += other.resent;
        self.determinants += other.determinants;
        self.served += other.served;
        self.unprotected += other.unprotected;
        self.events += other.events;
    }
}
