//! What messages take, and where that is from.

/// Times in nanoseconds. Each processor time is drawn within 20 % of its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Their name in tables.
    pub name: &'static str,
    /// Processor time to send a message.
    pub send: u64,
    /// Processor time to receive one.
    pub receive: u64,
    /// Processor time of each determinant in a message beyond the first, at its receiver.
    pub determinant: u64,
    /// Processor time to have the own node's acceptor accept: a store.
    pub store: u64,
    /// From the end of sending to the beginning of receiving.
    pub wire: u64,
    /// Processor time to post a write into a remote memory.
    pub post: u64,
    /// Processor time to find its completion.
    pub poll: u64,
    /// From the posting to the completion.
    pub write: u64,
}

/// As a prototype measured over loopback with UDP, two shared cores, 50 bytes: a centralised server answered one client
/// after 16 us, which is four times the end of a message; ten determinants in a datagram were 441 instead of 56 per
/// millisecond, which is half a microsecond for each further one. A store is what `cargo bench -p event-log` measures
/// for an acceptor.
///
/// Not measured are the network, 10 us each way, and what belongs to RDMA: as Mu (OSDI 2020) has it, 1.3 us for all.
pub const MEASURED: Costs = Costs {
    name: "measured",
    send: 4_000,
    receive: 4_000,
    determinant: 500,
    store: 100,
    wire: 10_000,
    post: 200,
    poll: 200,
    write: 900,
};

/// Fitted to the thesis's own figures: a server that does 83 determinants per millisecond receives and sends in 6 us
/// each, and a parallel logger that takes 0.31 ms, the latency that agrees with its rate, has a network of 143 us each
/// way.
pub const THESIS: Costs =
    Costs { name: "fitted to the thesis", send: 6_000, receive: 6_000, wire: 143_000, ..MEASURED };
