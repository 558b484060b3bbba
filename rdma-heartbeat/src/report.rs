//! Reports the state of this node to queries.
//!
//! | module | subject |
//! |---|---|
//! | [`status`] | data of `ringwatch status` |
//! | [`regularity`] | regularity of heartbeats and of the daemon's turns: no I/O |
//! | [`distribution`] | distributions of measured times: no I/O |

pub mod distribution;
pub mod regularity;
pub mod status;
