//! Transfers messages between the nodes of a job: datagrams for everything, and flags in each other's memory for
//! heartbeats where that works ([`Flags`]).
//!
//! A transport may lose, repeat and reorder datagrams; the protocol above tolerates it. It never blocks. It does not
//! report network errors, because they are no evidence of a failure.

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

/// Carries the protocol's messages.
pub trait Transport {
    /// Name for messages.
    fn name(&self) -> &'static str;

    /// Sets the nodes' addresses, by node.
    fn set_roster(&mut self, roster: &[SocketAddr]);

    /// Sends to a node; does nothing before its address is known.
    fn send(&mut self, to: NodeId, datagram: &[u8]);

    /// Sends to an address, before the nodes know each other.
    fn send_to(&mut self, to: SocketAddr, datagram: &[u8]);

    /// Takes the next datagram: its length and its sender's address. It is truncated to `buffer`.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)>;

    /// Takes the next datagram that looks like a heartbeat, if heartbeats are separate: its length, its sender's
    /// address, and its age according to the wall clock.
    fn receive_heartbeat(&mut self, buffer: &mut [u8]) -> Option<(usize, SocketAddr, Duration)>;

    /// Descriptors that become readable when [`Transport::receive`] has data.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}
