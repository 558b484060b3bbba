//! Protects windows and files.

pub mod am_rdma;
pub mod file;
pub mod owner;
pub mod sm_locks;
pub mod unwind;
pub mod win_and_file;
pub mod window;
