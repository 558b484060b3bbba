//! Processes that are spawned, and groups that meet.

mod ispawn;
mod meetings;
mod replacing;
mod spawned;
