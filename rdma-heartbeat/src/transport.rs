//! How the nodes of a job reach each other: datagrams for everything, and flags in each other's memory for heartbeats
//! where that works ([`Flags`]).
//!
//! A transport may lose, repeat and reorder datagrams; the protocol above it copes. It never blocks, and an error of
//! the network is not reported: it is no evidence about anybody.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use propagation::NodeId;

mod flag;
mod flags;
mod lane;
mod means;
mod shared;
mod udp;
pub mod verbs;
mod workshop;

pub use flags::{FlagCounters, Flags};
pub use means::{Inlet, Means, Outlet};
pub use shared::SharedMemory;
pub use udp::Udp;
pub use verbs::Verbs;
pub use workshop::{AtOnce, Thread, Workshop};

/// What carries the protocol's messages.
pub trait Transport {
    /// Name for people.
    fn name(&self) -> &'static str;

    /// Learns where the nodes are, by node.
    fn set_roster(&mut self, roster: &[SocketAddr]);

    /// Sends to a node; does nothing before its address is known.
    fn send(&mut self, to: NodeId, datagram: &[u8]);

    /// Sends to an address, for the time before the nodes know each other.
    fn send_to(&mut self, to: SocketAddr, datagram: &[u8]);

    /// Takes the next datagram: its length and its sender's address. What does not fit into `buffer` is cut off.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)>;

    /// Takes the next datagram that looks like a heartbeat, if such ones are kept apart: its length, its sender's
    /// address, and how long ago it came as far as the wall clock can be believed.
    fn receive_heartbeat(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr, Duration)>;

    /// What becomes readable when [`Transport::receive`] has something.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}
