//! Exchanges messages over a transport: seals and opens them, and counts refused ones.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use node_abi::launch::LaunchData;
use node_abi::versions::Refusal;
use platform::clock;
use propagation::wire::{MAX_LEN, Opener, Rejected, Sealer};
use propagation::{Message, NodeId, Time, bundle};
use tracing::warn;

use crate::transport::Transport;

/// Kinds of refused datagrams, in the order of [`Counters::rejected`].
pub const REJECTED_KINDS: [&str; 10] = [
    "truncated",
    "oversized",
    "not ours",
    "version",
    "other job",
    "forged",
    "malformed",
    "replayed",
    "unknown node",
    "other life",
];

/// Maximum number of datagrams in one turn of the loop: a flood must not delay this node's heartbeats.
pub const DATAGRAMS_PER_TURN: usize = 64;

/// Number of consecutive refusals of apparent heartbeats that count as a flood: a network that duplicates datagrams
/// causes single ones.
const FLOOD: u32 = 4;
/// Interval of reading in a flood. It causes no wakeups, and would fill the buffer for real heartbeats between two
/// reads.
const LOOK_IN_A_FLOOD: Duration = Duration::from_millis(1);

const UNKNOWN_NODE: usize = 8;
const OTHER_LIFE: usize = 9;

/// Network counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Heartbeats received.
    pub heartbeats_received: u64,
    /// Messages of any kind sent.
    pub sent: u64,
    /// Messages of any kind received and accepted.
    pub received: u64,
    /// Datagrams refused, by [`REJECTED_KINDS`].
    pub rejected: [u64; REJECTED_KINDS.len()],
}

/// A datagram: sender, source address and message; `None` if it was refused.
pub type Datagram = Option<(NodeId, SocketAddr, Message)>;

/// The nodes of the job, as message endpoints.
pub struct Network {
    transport: Box<dyn Transport>,
    sealer: Sealer,
    opener: Opener,
    me: NodeId,
    universe: u32,
    incoming: Box<[u8]>,
    outgoing: Vec<u8>,
    /// Messages for the next flush.
    posted: Vec<(NodeId, Message)>,
    counters: Counters,
    job: u64,
    key: [u8; 32],
    refusal: Option<Refusal>,
    /// Time up to which heartbeats were read, and whether some may remain.
    heard_until: Time,
    may_have_more: bool,
    /// Whether the last one arrived less than a period ago, so that the next is not due.
    is_recent: bool,
    period: Duration,
    /// Number of consecutive refusals, and time until which more may arrive.
    refused: u32,
    flooded_until: Time,
    timeout: Duration,
}

impl Network {
    /// The network of a job, for node `me`.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, launch: &LaunchData, me: NodeId, incarnation: u32) -> Self {
        Self {
            transport,
            sealer: Sealer::new(launch.job, launch.key, me, incarnation),
            opener: Opener::new(launch.job, launch.key, me, incarnation),
            me,
            universe: launch.universe,
            // One byte more than the maximum, so that an oversized datagram is detected.
            incoming: vec![0; MAX_LEN + 1].into_boxed_slice(),
            outgoing: Vec::with_capacity(2048),
            posted: Vec::new(),
            counters: Counters::default(),
            job: launch.job,
            key: launch.key,
            refusal: None,
            heard_until: clock::now(),
            may_have_more: false,
            is_recent: false,
            period: launch.parameters.period,
            refused: 0,
            flooded_until: Time::ZERO,
            timeout: launch.parameters.timeout,
        }
    }

    /// Sets the nodes' addresses, by node.
    pub fn set_roster(&mut self, roster: &[SocketAddr]) {
        self.transport.set_roster(roster);
    }

    /// The newest known incarnation of a node, from 0.
    #[must_use]
    pub fn life_of(&self, node: NodeId) -> u32 {
        self.opener.life_of(node)
    }

    /// Sends a message to a node.
    pub fn send(&mut self, to: NodeId, message: &Message) {
        self.seal(to, message);
        self.transport.send(to, &self.outgoing);
    }

    /// Queues a message to a node for the next [`flush`](Self::flush), in one datagram with others; sends it at once if
    /// it cannot share one.
    pub fn post(&mut self, to: NodeId, message: Message) {
        if bundle::is_part(&message) {
            self.posted.push((to, message));
        } else {
            self.send(to, &message);
        }
    }

    /// Sends [queued](Self::post) messages.
    pub fn flush(&mut self) {
        for (to, message) in bundle::pack(std::mem::take(&mut self.posted)) {
            self.send(to, &message);
        }
    }

    /// Sends a message to a node that is not on the roster yet.
    pub fn send_to(&mut self, to: NodeId, address: SocketAddr, message: &Message) {
        self.seal(to, message);
        self.transport.send_to(address, &self.outgoing);
    }

    fn seal(&mut self, to: NodeId, message: &Message) {
        self.sealer.seal(to, self.opener.life_of(to), message, &mut self.outgoing);
        self.counters.sent += 1;
        self.counters.heartbeats_sent += u64::from(matches!(message, Message::Heartbeat { .. }));
    }

    /// Reads one datagram. `None` if there is none.
    pub fn receive(&mut self) -> Option<Datagram> {
        let (length, address) = self.transport.receive(&mut self.incoming)?;
        Some(self.open(length, address))
    }

    /// Reads one heartbeat that causes no wakeup, with its time of arrival. `None` if there is none, or if the last
    /// accepted one arrived less than a period ago.
    ///
    /// Call it before everything else of a turn, until there is none: then times are monotonic.
    pub fn receive_heartbeat(&mut self, now: Time) -> Option<(Datagram, Time)> {
        let is_recent = std::mem::take(&mut self.is_recent);
        let next = if is_recent { None } else { self.transport.receive_heartbeat(&mut self.incoming) };
        self.may_have_more = next.is_some();
        let Some((length, address, age)) = next else {
            if !is_recent {
                self.refused = 0;
            }
            self.heard_until = now;
            return None;
        };
        // Whatever the wall clock says, it had not arrived at the last read.
        self.heard_until = now.saturating_sub(age).max(self.heard_until);
        let datagram = self.open(length, address);
        self.refused = if datagram.is_some() { 0 } else { self.refused.saturating_add(1) };
        if self.refused >= FLOOD {
            self.flooded_until = now + self.timeout;
        }
        self.is_recent = datagram.is_some() && now < self.heard_until + self.period;
        Some((datagram, self.heard_until))
    }

    /// Latest time to read heartbeats again, except for one that is due.
    #[must_use]
    pub fn deadline(&self, now: Time) -> Time {
        if self.may_have_more || now < self.flooded_until { now + LOOK_IN_A_FLOOD } else { Time::MAX }
    }

    fn open(&mut self, length: usize, address: SocketAddr) -> Datagram {
        match self.opener.open(&self.incoming[..length]) {
            Ok((from, message)) if from < self.universe && from != self.me => {
                self.counters.received += 1;
                self.counters.heartbeats_received += u64::from(matches!(message, Message::Heartbeat { .. }));
                Some((from, address, message))
            }
            Ok((from, _)) => {
                self.refuse(UNKNOWN_NODE, address, &format!("it claims to come from node {from}"));
                None
            }
            // Legitimate: the sender does not know yet that this daemon was restarted.
            Err(Rejected::OtherLife(from)) if from < self.universe && from != self.me => {
                self.counters.rejected[OTHER_LIFE] += 1;
                self.send_to(from, address, &Message::NewLife);
                None
            }
            Err(Rejected::NotOurs | Rejected::Truncated) if self.is_refusal(length) => None,
            Err(rejected) => {
                self.refuse(kind_of(rejected), address, &rejected);
                None
            }
        }
    }

    /// Whether a node of another release refuses to take part: [`Network::take_refusal`] returns the refusal then.
    fn is_refusal(&mut self, length: usize) -> bool {
        let refusal = Refusal::open(&self.incoming[..length], self.job, &self.key);
        let known = refusal.filter(|refusal| refusal.node < self.universe && refusal.node != self.me);
        self.refusal = known;
        self.refusal.is_some()
    }

    /// The refusal in the last datagram, if it was one.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    fn refuse(&mut self, kind: usize, address: SocketAddr, why: &dyn std::fmt::Display) {
        self.counters.rejected[kind] += 1;
        if self.counters.rejected[kind] == 1 {
            let kind = REJECTED_KINDS[kind];
            warn!(kind, from = %address, why = %why, "datagram refused; further ones of this kind are only counted");
        }
    }

    /// Name of the transport, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.transport.name()
    }

    /// Network counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Descriptors that become readable when [`Network::receive`] has data.
    #[must_use]
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.transport.descriptors()
    }
}

fn kind_of(rejected: Rejected) -> usize {
    match rejected {
        Rejected::Truncated => 0,
        Rejected::Oversized => 1,
        Rejected::NotOurs => 2,
        Rejected::Version(_) => 3,
        Rejected::Job => 4,
        Rejected::Forged => 5,
        Rejected::Malformed => 6,
        Rejected::Replayed => 7,
        Rejected::OtherLife(_) => UNKNOWN_NODE,
    }
}
