//! Detects deaths on this node, and determines their consequences for the job.
//!
//! | module | subject |
//! |---|---|
//! | [`watch`] | the ranks of this node |
//! | [`launched`] | processes started for ranks, before any has registered |
//! | [`runtime`] | this node's runtime daemon |
//! | [`stopped`] | when a process counts as stopped: no I/O |
//! | [`suspension`] | when the whole job is suspended, so that stopped ranks are not failed: no I/O |
//! | [`lifeline`] | detection of a death as soon as it begins |
//! | [`fate`] | the protocol's reasons for the end of a process: no I/O |
//! | [`job`] | dead ranks and nodes, and the end of the job because of them: no I/O |

pub mod fate;
pub mod job;
pub mod launched;
pub mod lifeline;
pub mod runtime;
pub mod stopped;
pub mod suspension;
pub mod watch;
