//! Defines the interface of a means to raise flags in another node's memory.

use std::net::SocketAddr;

/// A means to raise flags. Its functions, and dropping their results, may take long: see [`Workshop`](super::Workshop).
pub trait Means: Send {
    /// Name for messages.
    fn name(&self) -> &'static str;

    /// Makes a slot that the node behind this address can be permitted to write. Both ends derive `first_packet`, a
    /// secret of 24 bits, for connections that number their packets.
    ///
    /// # Errors
    /// The reason why the two nodes cannot use this means, as a clause.
    fn open(&mut self, peer: SocketAddr, first_packet: u32) -> Result<Box<dyn Inlet>, String>;

    /// Connects to the slot that the node behind this address has offered.
    ///
    /// # Errors
    /// As above.
    fn attach(&mut self, peer: SocketAddr, offer: &[u8], first_packet: u32) -> Result<Box<dyn Outlet>, String>;
}

/// The observer's end.
pub trait Inlet: Send {
    /// Data for the emitter.
    fn offer(&self) -> Vec<u8>;

    /// Permits the emitter with this answer to write.
    ///
    /// # Errors
    /// The reason why that does not work, as a clause.
    fn connect(&mut self, answer: &[u8]) -> Result<(), String>;

    /// The value last written by the emitter; zero before.
    fn load(&self) -> u64;
}

/// The emitter's end.
pub trait Outlet: Send {
    /// Data for the observer.
    fn answer(&self) -> Vec<u8>;

    /// Writes a value, and returns whether the other side acknowledges what was written before.
    ///
    /// # Errors
    /// The reason why this outlet is unusable, as a clause.
    fn store(&mut self, value: u64) -> Result<bool, String>;
}
