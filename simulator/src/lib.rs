//! Discrete-event simulation of the protocol in [`propagation`], and the figures of the paper.
//!
//! The members are those of `ringwatchd`; the simulator owns the time (whole nanoseconds), the network, the failures
//! and all chance. A run is a function of its [`Scenario`], bit for bit:
//!
//! ```
//! use simulator::{Scenario, run};
//!
//! let outcome = run(&Scenario::low_noise(1000)).expect("a valid scenario");
//! let (first_known, stable) = outcome.stabilization().expect("one failure is always repaired");
//! // Found between timeout - period and timeout after it struck, then log2(n) message times.
//! assert!(first_known.as_secs_f64() > 50.0 && stable.as_secs_f64() < 60.02);
//! ```
//!
//! # Modules
//!
//! | module | one idea |
//! |---|---|
//! | `scenario`, `failures` | what is simulated; who dies when |
//! | `random` | one stream of numbers per purpose |
//! | `network` | delays, loss, duplication, ports |
//! | `queue` | events, earliest first |
//! | `spread` | when each node gets its first copy of a broadcast |
//! | `truth` | what an onlooker knows who sees everything |
//! | `run` | hands the events to the members; `sending`: what they ask for; `quiet`: nodes that need no member |
//! | [`log`], `outcome` | what happened, and what came of it |
//! | `batch` | many runs on several threads |
//! | [`bounds`] | what the paper proves |
//! | [`figures`] | the paper's figures |
//! | [`loggers`] | event loggers of message logging by themselves: the machines of [`event_log`] |
//! | [`recommended`] | the group of recommended processes over time: the machines of [`recommended_group`] |
//! | [`hyperquicksort`] | a sort that lives on such a group |
//! | [`replication`] | replicated ranks: the machines of [`::replication`] |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
pub mod bounds;
mod failures;
pub mod figures;
pub mod hyperquicksort;
pub mod log;
pub mod loggers;
mod network;
mod outcome;
mod queue;
mod random;
pub mod recommended;
pub mod replication;
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
