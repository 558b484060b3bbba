//! What messages and hashes take, and where that is from.

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Their name in tables.
    pub name: &'static str,
    /// From a node to another one, without the time in ports.
    pub latency: u64,
    /// In a port, per byte.
    pub per_byte: f64,
    /// Processes of a node, which share its ports.
    pub per_node: u32,
    /// Processor time to send or to receive a message.
    pub message: u64,
    /// Processor time to copy a byte.
    pub copy: f64,
    /// Processor time to hash a byte.
    pub hash: f64,
    /// Floating point operations of a processor in a nanosecond.
    pub flops: f64,
    /// Computing takes up to this share longer, drawn for each process.
    pub noise: f64,
}

/// A link of 500 us with 10 Gbit/s for each process. A hash is what `cargo bench -p replication` measures (25 bytes a
/// nanosecond); a message is what a prototype took over sockets; the rest is assumed.
pub const LINK: Costs = Costs {
    name: "link of 500 us",
    latency: 500_000,
    per_byte: 0.8,
    per_node: 1,
    message: 4_000,
    copy: 0.1,
    hash: 0.04,
    flops: 1.0,
    noise: 0.03,
};

/// As the second environment of the thesis: Gigabit Ethernet shared by the four processes of a node, 0.62 ms there and
/// back (appendix A.1), slow cores. Its hash is SHA-1, some 2 ns a byte on such a core. Assumed are the times of a
/// message and of a flop.
pub const THESIS: Costs = Costs {
    name: "as environment 2 of the thesis",
    latency: 310_000,
    per_byte: 8.0,
    per_node: 4,
    message: 20_000,
    copy: 0.5,
    hash: 2.0,
    flops: 0.45,
    noise: 0.03,
};
