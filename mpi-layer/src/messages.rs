//! Protects messages to and from dead processes.

pub mod bridge_tags;
pub mod dead_rendezvous;
pub mod late_addresses;
pub mod pending_receives;
pub mod sends_to_the_dead;
pub mod sequence_gaps;
pub mod tcp_to_the_dead;
