//! Runs a host's part of the protocol on another machine: a DPU in the host, or a service node.
//!
//! | stays on the host | moves to the machine that serves it |
//! |---|---|
//! | the ranks, the runtime daemon, the plugin's socket | the UDP socket and the rendezvous |
//! | the failure log, fencing, the history | the ring: heartbeats to and from the neighbours, flags between them |
//! | one flag a period, raised in the memory of the other machine | suspicions, broadcasts, the report of this host's own death |
//!
//! `ringwatchd` of the host starts `ringwatchd --for HOST` there with the remote shell that started the runtime
//! daemons, and communicates through that shell's standard input and output ([`pipe`]): so the other end is authentic,
//! and the job's key is neither in a command line nor readable in transit.
//!
//! | file | part |
//! |---|---|
//! | this one | packets between the two sides |
//! | `pipe` | packets over a stream |
//! | `host` | the side of the host |
//! | `machine` | location of the other machine, and the start of programs there |
//! | `port` | the UDP port of the node |
//! | `service` | the side of the machine that serves it |
//!
//! `docs/offload.md` describes the effects of the loss of either side.

use std::net::{IpAddr, SocketAddr};

use node_abi::launch::{Carrier, Parameters, Startup};
use propagation::{Action, Member, Message, NodeId, RankReason, Time};
use serde::{Deserialize, Serialize};

use crate::history::micros;
use crate::transport::{AtOnce, Flags, SharedMemory, Thread, Verbs, Workshop};

mod host;
mod machine;
pub mod pipe;
mod port;
pub mod service;

pub use host::{Host, News};

/// First packet to the machine that serves a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// Name of the host.
    pub host: String,
    /// As on the host, with the number of this service's start as `incarnation`.
    pub startup: Startup,
    /// Known dead nodes.
    pub dead: Vec<NodeId>,
    /// Whether the ranks of the host are held, because an earlier service requested it.
    pub held: bool,
    /// Address of the host as seen by the machine that serves it, if the host knows it.
    pub address: Option<IpAddr>,
    /// UDP port of an earlier service, 0 for the first: the other nodes know the node under it.
    pub port: u16,
}

/// From the host, after the [`Assignment`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToService {
    /// The host is alive; replaces a flag.
    Beat,
    /// About the flag of the host.
    Word(Vec<u8>),
    /// A rank of the host is dead.
    RankDead {
        /// The rank.
        rank: u32,
        /// The reason.
        reason: RankReason,
    },
    /// All ranks of the host have passed `MPI_Init`.
    Ready,
    /// The host has lost its runtime daemon.
    Resign,
    /// A message that the protocol only forwards.
    Send {
        /// The node it is for.
        to: NodeId,
        /// The message.
        message: Message,
    },
}

/// From the machine that serves a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromService {
    /// It has a socket, with this UDP port.
    Bound(u16),
    /// The service is alive, with this view of the ring.
    Beat(View),
    /// About the flag of the host.
    Word(Vec<u8>),
    /// The rendezvous is complete.
    Roster(Vec<SocketAddr>),
    /// Node 0 does not answer.
    NoAnswer,
    /// An action of the member, except messages.
    Act(Action),
    /// A message that the protocol only forwards.
    Arrived {
        /// The node it came from.
        from: NodeId,
        /// The message.
        message: Message,
    },
}

/// The ring, for the status report of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Node whose heartbeats are watched.
    pub emitter: Option<NodeId>,
    /// Node that watches this one's.
    pub observer: Option<NodeId>,
    /// Age of the emitter's last heartbeat in microseconds.
    pub last_heartbeat_us: Option<u64>,
    /// Means of its heartbeats, if they are not messages of the transport.
    pub emitter_means: Option<String>,
    /// Means of this node's heartbeats, if they are not messages of the transport.
    pub observer_means: Option<String>,
}

impl View {
    /// The view of a ring member.
    #[must_use]
    pub fn of(member: &Member, flags: &Flags, now: Time) -> Self {
        Self {
            emitter: member.emitter(),
            observer: member.observer(),
            last_heartbeat_us: member.last_heartbeat().map(|at| micros(now.saturating_sub(at))),
            emitter_means: flags.incoming().map(Into::into),
            observer_means: flags.outgoing().map(Into::into),
        }
    }
}

/// Means to raise the host's flag at the peer: shared memory on the same machine, otherwise RDMA.
fn workshop(parameters: &Parameters, peer: Option<IpAddr>) -> Option<Box<dyn Workshop>> {
    let peer = peer.filter(|_| parameters.transport != Carrier::Udp)?;
    // A socket can be bound to an address of this machine.
    if std::net::UdpSocket::bind((peer, 0)).is_ok() {
        return Some(Box::new(AtOnce::new(SharedMemory)));
    }
    let thread = Thread::start(Box::new(Verbs::new(parameters.period)?)).ok()?;
    Some(Box::new(thread))
}
