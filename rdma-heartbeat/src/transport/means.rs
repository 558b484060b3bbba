//! What a way to raise flags in another node's memory has to offer.

use std::net::SocketAddr;

/// A way to raise flags. Its functions, and dropping what they make, may take long: see
/// [`Workshop`](super::Workshop).
pub trait Means: Send {
    /// Name for people.
    fn name(&self) -> &'static str;

    /// Makes a slot that the node behind this address can be allowed to write. Both ends derive `first_packet`, 24
    /// bits that nobody else knows, for connections that number their packets.
    ///
    /// # Errors
    /// Why the two nodes cannot use this, as a clause.
    fn open(&mut self, peer: SocketAddr, first_packet: u32) -> Result<Box<dyn Inlet>, String>;

    /// Connects to the slot that the node behind this address has offered.
    ///
    /// # Errors
    /// As above.
    fn attach(&mut self, peer: SocketAddr, offer: &[u8], first_packet: u32) -> Result<Box<dyn Outlet>, String>;
}

/// The observer's end.
pub trait Inlet: Send {
    /// What the emitter has to know.
    fn offer(&self) -> Vec<u8>;

    /// Lets the emitter write, which has answered this.
    ///
    /// # Errors
    /// Why that does not work, as a clause.
    fn connect(&mut self, answer: &[u8]) -> Result<(), String>;

    /// What the emitter wrote last; zero before.
    fn load(&self) -> u64;
}

/// The emitter's end.
pub trait Outlet: Send {
    /// What the observer has to know.
    fn answer(&self) -> Vec<u8>;

    /// Writes a value, and returns whether the other side acknowledges what was written before.
    ///
    /// # Errors
    /// Why this outlet is of no use any more, as a clause.
    fn store(&mut self, value: u64) -> Result<bool, String>;
}
