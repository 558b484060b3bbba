//! Messages over a transport: sealing, opening, and counting what was refused.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use propagation::wire::{MAX_LEN, Opener, Rejected, Sealer};
use propagation::{Message, NodeId, Time, bundle};
use tracing::warn;

use crate::clock;
use crate::launch::LaunchData;
use crate::transport::Transport;
use crate::versions::Refusal;

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

/// Most datagrams to take in one turn of a loop: a flood must not keep it from its own heartbeats.
pub const DATAGRAMS_PER_TURN: usize = 64;

/// So many refusals in a row of what looks like heartbeats are a flood: a network that doubles datagrams has one at a time.
const FLOOD: u32 = 4;
/// How soon to look again in a flood: nobody is woken up by it, and it would fill the room for the real heartbeats between
/// two looks.
const LOOK_IN_A_FLOOD: Duration = Duration::from_millis(1);

const UNKNOWN_NODE: usize = 8;
const OTHER_LIFE: usize = 9;

/// What went over the network so far.
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

/// A datagram: its sender, where it came from and what it says; `None` if it was refused.
pub type Datagram = Option<(NodeId, SocketAddr, Message)>;

/// The nodes of the job, as messages see them.
pub struct Network {
    transport: Box<dyn Transport>,
    sealer: Sealer,
    opener: Opener,
    me: NodeId,
    universe: u32,
    incoming: Box<[u8]>,
    outgoing: Vec<u8>,
    /// What leaves with the next flush.
    posted: Vec<(NodeId, Message)>,
    counters: Counters,
    job: u64,
    key: [u8; 32],
    refusal: Option<Refusal>,
    /// Up to when heartbeats that wake nobody up were taken, and whether some may be left.
    heard_until: Time,
    may_have_more: bool,
    /// The last one that was taken came less than a period ago, so that the next is not due.
    is_recent: bool,
    period: Duration,
    /// How many in a row were refused, and until when there may be more.
    refused: u32,
    flooded_until: Time,
    timeout: Duration,
}

impl Network {
    /// The network of a job as node `me` sees it.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, launch: &LaunchData, me: NodeId, incarnation: u32) -> Self {
        Self {
            transport,
            sealer: Sealer::new(launch.job, launch.key, me, incarnation),
            opener: Opener::new(launch.job, launch.key, me, incarnation),
            me,
            universe: launch.universe,
            // One byte more than any datagram of ours, so that one that is too long does not look like one that is not.
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

    /// Learns where the nodes are, by node.
    pub fn set_roster(&mut self, roster: &[SocketAddr]) {
        self.transport.set_roster(roster);
    }

    /// The newest life of a node that was heard of, from 0.
    #[must_use]
    pub fn life_of(&self, node: NodeId) -> u32 {
        self.opener.life_of(node)
    }

    /// Sends a message to a node.
    pub fn send(&mut self, to: NodeId, message: &Message) {
        self.seal(to, message);
        self.transport.send(to, &self.outgoing);
    }

    /// Sends a message to a node with the next [`flush`](Self::flush), in one datagram with others for it; at once if it
    /// can share none.
    pub fn post(&mut self, to: NodeId, message: Message) {
        if bundle::is_part(&message) {
            self.posted.push((to, message));
        } else {
            self.send(to, &message);
        }
    }

    /// Sends what was [posted](Self::post).
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

    /// Looks at one datagram. `None`: nothing is there.
    pub fn receive(&mut self) -> Option<Datagram> {
        let (length, address) = self.transport.receive(&mut self.incoming)?;
        Some(self.open(length, address))
    }

    /// Looks at one datagram of those that wake nobody up, and tells when it came. `None`: nothing is there, or as good as
    /// nothing, because the last one that was accepted came less than a period ago.
    ///
    /// To be called before everything else of a turn, until there is none: then no time goes back.
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
        // Whatever the wall clock says, it was not there at the last look.
        self.heard_until = now.saturating_sub(age).max(self.heard_until);
        let datagram = self.open(length, address);
        self.refused = if datagram.is_some() { 0 } else { self.refused.saturating_add(1) };
        if self.refused >= FLOOD {
            self.flooded_until = now + self.timeout;
        }
        self.is_recent = datagram.is_some() && now < self.heard_until + self.period;
        Some((datagram, self.heard_until))
    }

    /// When to look for heartbeats again at the latest, other than for one that is due.
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
            // Nothing bad: it does not know yet that this daemon was started again.
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

    /// Whether a node of another release refuses to take part: [`Network::take_refusal`] has it then.
    fn is_refusal(&mut self, length: usize) -> bool {
        let refusal = Refusal::open(&self.incoming[..length], self.job, &self.key);
        let known = refusal.filter(|refusal| refusal.node < self.universe && refusal.node != self.me);
        self.refusal = known;
        self.refusal.is_some()
    }

    /// What the last datagram was if it was a refusal to take part.
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

    /// Name of the transport, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.transport.name()
    }

    /// What went over the network so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What becomes readable when [`Network::receive`] has something.
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
