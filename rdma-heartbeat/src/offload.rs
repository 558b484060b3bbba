//! A host whose part of the protocol another machine carries: a DPU in the host, or a service node.
//!
//! | stays on the host | moves to the machine that serves it |
//! |---|---|
//! | the ranks, the runtime daemon, the plugin's socket | the UDP socket and the rendezvous |
//! | the failure log, what is killed, the history | the ring: heartbeats to and from the neighbours, flags between them |
//! | one flag a period, raised in the memory of the other machine | suspicions, broadcasts, the news of this host's own death |
//!
//! `ringwatchd` of the host starts `ringwatchd --for HOST` there with the remote shell that started the runtime daemons,
//! and speaks with it over that shell's standard input and output ([`pipe`]): so the other end is authentic, and the
//! job's key is neither in a command line nor readable on the way.
//!
//! | file | part |
//! |---|---|
//! | this one | what the two sides say to each other |
//! | `pipe` | packets over a stream |
//! | `host` | the side of the host |
//! | `machine` | where the other machine is, and how something is started there |
//! | `port` | the UDP port of the node |
//! | `service` | the side of the machine that serves it |
//!
//! What the loss of either side means is in `docs/offload.md`.

use std::net::{IpAddr, SocketAddr};

use propagation::{Action, Member, Message, NodeId, RankReason, Time};
use serde::{Deserialize, Serialize};

use crate::history::micros;
use crate::launch::{Carrier, Parameters, Startup};
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
    /// As on the host, with the number of this life of the service for `incarnation`.
    pub startup: Startup,
    /// Nodes that are known to be dead.
    pub dead: Vec<NodeId>,
    /// Whether the ranks of the host are held, because an earlier life of the service asked for it.
    pub held: bool,
    /// Address of the host towards the machine that serves it, if the host can tell.
    pub address: Option<IpAddr>,
    /// UDP port of the service in an earlier life, 0 in the first: the others know it under that one.
    pub port: u16,
}

/// From the host, after the [`Assignment`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToService {
    /// The host lives; in place of a flag.
    Beat,
    /// About the flag of the host.
    Word(Vec<u8>),
    /// A rank of the host is dead.
    RankDead {
        /// The rank.
        rank: u32,
        /// What became of it.
        reason: RankReason,
    },
    /// All ranks of the host have passed `MPI_Init`.
    Ready,
    /// The host has lost its runtime daemon.
    Resign,
    /// A message that the protocol only carries.
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
    /// It lives, and sees the ring like this.
    Beat(View),
    /// About the flag of the host.
    Word(Vec<u8>),
    /// The rendezvous is complete.
    Roster(Vec<SocketAddr>),
    /// Node 0 does not answer.
    NoAnswer,
    /// What the member asks for, except for messages.
    Act(Action),
    /// A message that the protocol only carries.
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
    /// How its heartbeats come, if not as messages of the transport.
    pub emitter_means: Option<String>,
    /// How this node's go, if not as messages of the transport.
    pub observer_means: Option<String>,
}

impl View {
    /// As a member of the ring has it.
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

/// The machine that serves this host, as the parameter `offload` says; host names may be shortened to their first part.
#[must_use]
pub fn server_of<'a>(parameters: &'a Parameters, host: &str) -> Option<&'a str> {
    let first = host.split('.').next();
    let is_meant = |name: &str| name == host || Some(name) == first;
    parameters.offload.iter().find(|(name, _)| is_meant(name)).map(|(_, server)| server.as_str())
}

/// How the host raises its flag where the peer is: in shared memory on the same machine, else by RDMA.
fn workshop(parameters: &Parameters, peer: Option<IpAddr>) -> Option<Box<dyn Workshop>> {
    let peer = peer.filter(|_| parameters.transport != Carrier::Udp)?;
    // An address of this machine is one that can be bound.
    if std::net::UdpSocket::bind((peer, 0)).is_ok() {
        return Some(Box::new(AtOnce::new(SharedMemory)));
    }
    let thread = Thread::start(Box::new(Verbs::new(parameters.period)?)).ok()?;
    Some(Box::new(thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_under_its_full_and_its_first_name() {
        let values = crate::parameters::DEFINITIONS.map(|definition| match definition.name {
            "offload" => "n1=dpu1,n2.cluster=user@10.0.0.2".to_owned(),
            _ => definition.default.to_owned(),
        });
        let parameters = crate::parameters::read(&values).unwrap().parameters;
        assert_eq!(server_of(&parameters, "n1"), Some("dpu1"));
        assert_eq!(server_of(&parameters, "n1.cluster"), Some("dpu1"));
        assert_eq!(server_of(&parameters, "n2.cluster"), Some("user@10.0.0.2"));
        assert_eq!((server_of(&parameters, "n2"), server_of(&parameters, "n11")), (None, None));
    }
}
