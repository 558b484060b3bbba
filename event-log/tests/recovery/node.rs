//! One rank and what belongs to it.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::protocol::call::Outcome;
use event_log::protocol::process::{Config, Process};
use event_log::protocol::units::{Payload, Request};
use event_log::protocol::variant::Variant;

use crate::logger::Logger;
use crate::mpi::Matching;
use crate::program::Program;

/// A rank, its program, its side of MPI, its event logger and its files.
pub struct Node<V> {
    pub process: Process<V>,
    /// `None` until the machine has restored it.
    pub program: Option<Program>,
    pub may_call: bool,
    /// Whether the call that has not returned is the harness's own.
    pub is_own_call: bool,
    /// Whether a peer wants a checkpoint of it.
    pub wants_checkpoint: bool,
    /// Whether peers are to be told of the last one.
    pub wants_collection: bool,
    /// The memory that receives write into; 0 is the result of collective operations.
    pub memory: BTreeMap<Request, Payload>,
    pub matching: Matching,
    pub logger: Logger,
    /// The durable checkpoint.
    pub durable: Option<Vec<u8>>,
    /// The number and the file of the checkpoint that is being written.
    pub writing: Option<(u64, Vec<u8>)>,
    /// What each call of the program has returned.
    pub history: Vec<Outcome>,
    /// The operation that runs in MPI.
    pub running: Option<(u32, Vec<Rank>)>,
}

impl<V: Variant> Node<V> {
    /// A rank at its start.
    pub fn new(config: Config) -> Self {
        Self {
            process: Process::new(config),
            program: Some(Program::new(config.rank, config.ranks)),
            may_call: true,
            is_own_call: false,
            wants_checkpoint: false,
            wants_collection: false,
            memory: BTreeMap::new(),
            matching: Matching::default(),
            logger: Logger::default(),
            durable: None,
            writing: None,
            history: Vec::new(),
            running: None,
        }
    }
}

/// What a program puts into its checkpoint: itself and the memory that its receives write into.
pub fn state(program: &Program, memory: &BTreeMap<Request, Payload>) -> Payload {
    postcard::to_stdvec(&(program, memory)).expect("it can be written").into()
}
