//! Connects the daemon with the ring's state machine.
//!
//! | module | subject |
//! |---|---|
//! | [`neighbours`] | heartbeats that are flags |
//! | [`settings`] | the settings of the member |

pub mod neighbours;
pub mod settings;
