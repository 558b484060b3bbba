//! Chooses context ids for new communicators, and decides how long each is kept.

pub mod cid_call;
pub mod cid_hold;
pub mod cid_turn;
pub mod claim;
pub mod comm_epoch;
pub mod early_revocation;
pub mod parallel_cid;
