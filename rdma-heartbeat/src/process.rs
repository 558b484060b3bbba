//! Sets up the process itself.
//!
//! | module | subject |
//! |---|---|
//! | [`setup`] | the process's requests to the operating system |
//! | [`allocations`] | number of memory allocations |
//! | [`logging`] | the log |
//! | [`token`] | sources of wakeups of the loop |

pub mod allocations;
pub mod logging;
pub mod setup;
pub mod token;
