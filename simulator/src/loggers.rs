//! Event loggers by themselves: ranks that save one determinant, wait until it is stable, and save the next one.
//!
//! The machines are those of [`event_log`]; the simulator owns the time, the processors and the network. What a message
//! takes is a parameter, [`Costs`], with its source.
//!
//! | module | one idea |
//! |---|---|
//! | [`costs`] | what messages take, and where that is from |
//! | [`deployment`] | which process is on which node |
//! | `scenario` | what is simulated, and what came of it |
//! | `store` | what is at the other end of a rank's logger |
//! | `load` | what a message is to the processors |
//! | `processors` | jobs wait for a processor of their node |
//! | `run` | hands the events to the machines, and measures |

pub mod costs;
pub mod deployment;
mod load;
mod processors;
mod run;
mod scenario;
mod store;

pub use costs::Costs;
pub use deployment::Deployment;
pub use run::run;
pub use scenario::{Figures, Scenario};
