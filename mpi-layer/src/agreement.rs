//! Open MPI's agreements, and those that ringwatch runs beside the program's.

pub mod background;
pub mod era_early_requests;
pub mod era_guard;
pub mod shadow_comm;
pub mod vote;
