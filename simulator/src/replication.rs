//! Replicated ranks whose messages are compared: the machines of [`replication`] run small communication patterns.
//!
//! The simulator owns the time, the processors and the network. What a message takes is a parameter, [`Costs`].
//!
//! | module | one idea |
//! |---|---|
//! | [`costs`] | what messages and hashes take, and where that is from |
//! | [`patterns`] | who sends how much to whom in the programs of the NAS Parallel Benchmarks |
//! | `network` | ports of nodes, and delays |
//! | `scenario` | what is simulated, and what came of it |
//! | `run` | hands calls and messages to the machines, and measures |

pub mod costs;
mod network;
pub mod patterns;
mod run;
mod scenario;

pub use costs::Costs;
pub use run::run;
pub use scenario::{Figures, Scenario};
