//! Discrete-event simulation of the protocol in [`propagation`], and the figures of the paper.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
pub mod bounds;
mod failures;
pub mod figures;
pub mod log;
mod network;
mod outcome;
mod queue;
mod random;
mod run;
mod scenario;
mod spread;
mod truth;

pub use batch::{all_threads, batch};
pub use outcome::{Death, Outcome, Work};
pub use propagation::Strategy;
pub use random::{Purpose, Stream};
pub use run::{run, run_logged};
pub use scenario::{Elision, Failures, Scenario, ScenarioError};
