//! What is simulated, and what came of it.

use replication::method::Method;

use crate::replication::costs::Costs;
use crate::replication::patterns::Pattern;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The program.
    pub pattern: Pattern,
    /// How messages are compared; `None`: no replicas.
    pub method: Option<Method>,
    /// Replicas of each rank: 2 or 3. Of no meaning without a method.
    pub replicas: u8,
    /// What messages take.
    pub costs: Costs,
    /// Of all chance.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Until the last replica has verified all, in seconds.
    pub time: f64,
    /// Until the first replicas of all ranks have come to `MPI_Finalize`, of the replica number that is the fastest, in
    /// seconds.
    pub first: f64,
    /// Messages with data or a digest.
    pub messages: u64,
    /// Messages of the protocol beside those.
    pub control: u64,
    /// Bytes of all messages, with 20 for each envelope.
    pub bytes: u64,
    /// Processor time for messages, copies and hashes, mean of all processes, in seconds.
    pub processor: f64,
    /// Messages that a process has received and not verified or not used: the most of any process.
    pub most_open: usize,
    /// Data that a process keeps, in bytes: the most of any process.
    pub most_kept: u64,
    /// Time in seconds, and open messages of a process at that time, mean of all processes.
    pub open: Vec<(f64, f64)>,
}
