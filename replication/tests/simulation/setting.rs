//! What kind of jobs are simulated.

/// How a bit is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flip {
    /// In the buffer of one send.
    Buffer,
    /// In the memory from which all later sends are computed.
    Memory,
    /// In one copy or digest on its way.
    Wire,
}

/// A kind of job.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// 2 or 3; 0: drawn.
    pub replicas: u8,
    /// Whether some ranks may be one process.
    pub partial: bool,
    /// The most deaths.
    pub deaths: usize,
    /// Whether one replica is corrupt.
    pub flips: bool,
}

/// What the jobs had in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub jobs: u64,
    pub deaths: u64,
    pub flips: u64,
    pub found: u64,
    pub ended: u64,
    pub retired: u64,
    pub tainted: u64,
    pub compared: u64,
    pub uncompared: u64,
    pub decisions: u64,
    pub asks: u64,
    pub late: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.deaths += other.deaths;
        self.flips += other.flips;
        self.found += other.found;
        self.ended += other.ended;
        self.retired += other.retired;
        self.tainted += other.tainted;
        self.compared += other.compared;
        self.uncompared += other.uncompared;
        self.decisions += other.decisions;
        self.asks += other.asks;
        self.late += other.late;
    }
}
