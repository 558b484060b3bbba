//! Defines the data that the plugin and `ringwatchd` exchange: the launch data that prterun sends to every node, and
//! the packets on the control socket between a runtime daemon and its `ringwatchd`.
//!
//! All is serde data in postcard encoding; one packet of the control socket (`SOCK_SEQPACKET`) holds one value. The
//! first packet brings the key of the job; all others are sealed with it ([`seal`](crate::seal)).

use std::net::SocketAddr;
use std::time::Duration;

use platform::sink::Places;
use propagation::{EndReason, Fact, NodeId, NodeReason, RankReason, Strategy, Subject, Time};
use serde::{Deserialize, Serialize};

use crate::greeting::Place;
use crate::hosts::Hosts;
use crate::segment::replicas::ReplicaOf;
use crate::versions::{Contact, RELEASE};

/// Version of the data in this module; both ends must carry the same one.
pub const LAUNCH_VERSION: u16 = 16;

/// Maximum length of a packet on the control socket, in bytes.
pub const MAX_PACKET: usize = 8 << 20;

/// File descriptor on which `ringwatchd` finds its control socket.
pub const CONTROL_FD: i32 = 3;
/// File descriptor on which `ringwatchd` finds its UDP socket.
pub const UDP_FD: i32 = 4;
/// File descriptor on which `ringwatchd` finds the node segment.
pub const SEGMENT_FD: i32 = 5;
/// File descriptor that `ringwatchd` keeps open. When it closes, the kernel continues the runtime daemon, which may be
/// stopped at that time.
pub const LIFE_FD: i32 = 6;
/// File descriptor on which `ringwatchd` finds an anonymous file for its event logger's data.
pub const LOGGER_FD: i32 = 7;

/// The transport of heartbeats; other packets are datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carrier {
    /// RDMA writes if both nodes have a usable port in the same subnet, otherwise datagrams.
    Auto,
    /// Datagrams.
    Udp,
    /// As [`Carrier::Auto`], with a warning for each pair of nodes that uses datagrams.
    Verbs,
}

/// Parameters of a job, read by prterun and the same on every node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Heartbeat period (eta in the paper).
    pub period: Duration,
    /// Suspicion timeout (delta in the paper).
    pub timeout: Duration,
    /// How long a rank may be stopped before it is declared dead; `None` disables this detection.
    pub stop_timeout: Option<Duration>,
    /// Whether declared processes are killed on their node.
    pub fence: bool,
    /// Names or CIDR subnets of the interfaces to use; empty means all but loopback.
    pub interfaces: Vec<String>,
    /// The transport of heartbeats.
    pub transport: Carrier,
    /// The order of the ring, in the user's notation; the ring itself is [`LaunchData::ring`].
    pub ring_order: String,
    /// How deaths are broadcast.
    pub strategy: Strategy,
    /// Hosts whose part in the ring another machine runs, each with that machine's name for the remote shell.
    pub offload: Vec<(String, String)>,
    /// Number of nodes that may die without loss of event loggers' data; `None` without event loggers.
    pub event_loggers: Option<u32>,
    /// First and last UDP port to try; (0, 0) leaves the choice to the kernel.
    pub ports: (u16, u16),
    /// Least severe logged level (error, warn, info, debug, trace).
    pub log_level: String,
    /// Destination of the log: `stderr` or a path with [`Places`](platform::sink::Places).
    pub log: String,
    /// Path of the job's history on node 0, with the same placeholders, or [`LAST_JOBS`]; empty for none.
    pub events: String,
}

/// In place of the path of a history: it is kept with those of the user's last jobs.
pub const LAST_JOBS: &str = "last";

/// What started a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Process number of mpirun, which is prterun.
    pub mpirun_pid: u32,
    /// Number of the job of Slurm in which it runs.
    pub slurm_job: Option<String>,
}

/// The content of a job's launch message, from prterun's plugin to every node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchData {
    /// [`LAUNCH_VERSION`] of the sender.
    pub version: u16,
    /// Random identity of the job on the wire.
    pub job: u64,
    /// Key that authenticates every datagram of the job.
    pub key: [u8; 32],
    /// PMIx namespace of the job.
    pub nspace: String,
    /// What started it.
    pub origin: Origin,
    /// Number of nodes, prterun's included: node numbers are the ranks of the runtime daemons, 0 is prterun.
    pub universe: u32,
    /// The host of each node.
    pub hosts: Hosts,
    /// The nodes in ring order; empty for numerical order.
    pub ring: Vec<NodeId>,
    /// Node of each rank, by rank.
    #[serde(with = "crate::rank_runs")]
    pub rank_nodes: Vec<NodeId>,
    /// Addresses of node 0, most preferred first.
    pub rendezvous: Vec<SocketAddr>,
    /// Path of `ringwatchd` in the user's notation; empty if each node searches for its own.
    pub daemon: String,
    /// The remote shell with its options, for the machines of the parameter `offload`.
    pub agent: String,
    /// Variables for the environment of every rank.
    pub rank_environment: Vec<(String, String)>,
    /// Changed defaults of the runtime, for the log.
    pub changes: Vec<String>,
    /// Whether the ranks have the component that registers them in the node segment. If the user has excluded it, their
    /// progress through `MPI_Init` is unknown.
    pub ranks_register: bool,
    /// Whether ranks are started stopped, for a debugger: being stopped is no fault until they register.
    pub ranks_start_stopped: bool,
    /// The job's parameters.
    pub parameters: Parameters,
}

impl LaunchData {
    /// Encodes the launch message: it begins with a [`Contact`], which every release can read.
    ///
    /// # Errors
    /// If the value cannot be encoded, which cannot occur.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        Ok([encode(&self.contact())?, encode(self)?].concat())
    }

    /// The part that nodes of every release can read.
    #[must_use]
    pub fn contact(&self) -> Contact {
        Contact {
            version: self.version,
            release: RELEASE.into(),
            job: self.job,
            key: self.key,
            rendezvous: self.rendezvous.clone(),
        }
    }

    /// Reads the bytes of a launch message.
    ///
    /// # Errors
    /// If the bytes come from another release, with which only the [`Contact`] is common; or are no launch data.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (contact, rest) = postcard::take_from_bytes::<Contact>(bytes)?;
        if (contact.version, contact.release.as_str()) != (LAUNCH_VERSION, RELEASE) {
            return Err(Unreadable::Release(contact));
        }
        Ok(decode(rest)?)
    }

    /// What stands in the places of paths on this node of the job.
    #[must_use]
    pub fn places<'a>(&'a self, host: &'a str, node: NodeId) -> Places<'a> {
        let Origin { mpirun_pid, slurm_job } = &self.origin;
        Places { host, job: &self.nspace, node, mpirun_pid: *mpirun_pid, slurm_job: slurm_job.as_deref() }
    }

    /// Ranks on `node`, ascending; the slots of the node's segment have this order.
    pub fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.rank_nodes).filter(move |(_, n)| **n == node).map(|(rank, _)| rank)
    }
}

/// The content of the launch message of a spawned job: the nodes of the first job watch its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// PMIx namespace of the job.
    pub nspace: String,
    /// Number of its first rank among the ranks of all jobs; its numbers are unique.
    pub first: u32,
    /// Node of each of its ranks.
    #[serde(with = "crate::rank_runs")]
    pub rank_nodes: Vec<NodeId>,
    /// Whether the spawning ranks wait in MPI for its ranks to leave `MPI_Init`: its program uses MPI.
    pub is_awaited: bool,
    /// Whether its rank replaces one under message logging: nobody waits for it, and another one is spawned if it dies.
    pub is_replacement: bool,
}

impl Spawned {
    /// Numbers of its ranks on `node`, ascending.
    pub fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        (self.first..).zip(&self.rank_nodes).filter(move |(_, n)| **n == node).map(|(rank, _)| rank)
    }

    /// Whether this is the number of one of its ranks.
    #[must_use]
    pub fn has(&self, rank: u32) -> bool {
        rank.checked_sub(self.first).is_some_and(|index| (index as usize) < self.rank_nodes.len())
    }
}

/// The reason why launch data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Another release made it.
    #[error("the node of mpirun has another release of ringwatch")]
    Release(Contact),
    /// It is malformed.
    #[error("the launch data cannot be read ({0})")]
    Malformed(#[from] postcard::Error),
}

/// First packet to a new `ringwatchd`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Startup {
    /// The job.
    pub launch: LaunchData,
    /// Number of this node.
    pub me: NodeId,
    /// Number of earlier starts of `ringwatchd` on this node for this job.
    pub incarnation: u32,
    /// Addresses by node, if an earlier incarnation learned them; otherwise the rendezvous comes first.
    pub roster: Option<Vec<SocketAddr>>,
    /// Process id of prterun or prted. The node counts as ended when that process ends.
    pub runtime_pid: i32,
    /// Start time of that process, see [`platform::pin::started`]: another process may have reused its number.
    pub runtime_started: u64,
    /// The place of the key for tools.
    pub tools: Place,
    /// Jobs spawned so far.
    pub spawned: Vec<Spawned>,
    /// Facts of earlier incarnations about the deaths in the failure log.
    pub known: Vec<Known>,
}

/// A death that a `ringwatchd` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The fact.
    pub fact: Fact,
    /// The time, on the node's clock.
    pub at: Time,
}

impl Known {
    /// Whether this is the death of a rank on `node`.
    #[must_use]
    pub fn tells_of_rank(&self, rank: u32, node: Option<NodeId>) -> bool {
        match self.fact.subject {
            Subject::Rank { rank: dead, .. } => dead == rank,
            Subject::Node { node: dead, .. } => Some(dead) == node,
            _ => false,
        }
    }

    /// Whether this is the death of this node.
    #[must_use]
    pub fn tells_of_node(&self, node: NodeId) -> bool {
        matches!(self.fact.subject, Subject::Node { node: dead, .. } if dead == node)
    }
}

impl Startup {
    /// Numbers of all ranks of this node.
    pub fn own_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.launch.ranks_of(self.me).chain(self.spawned.iter().flat_map(|job| job.ranks_of(self.me)))
    }

    /// Whether a rank belongs to a spawned job.
    #[must_use]
    pub fn is_spawned(&self, rank: u32) -> bool {
        rank as usize >= self.launch.rank_nodes.len()
    }

    /// Whether other ranks wait in MPI for a spawned rank to leave `MPI_Init`.
    #[must_use]
    pub fn is_awaited(&self, rank: u32) -> bool {
        self.spawned.iter().any(|job| job.is_awaited && job.has(rank))
    }

    /// Whether a spawned rank replaces another one.
    #[must_use]
    pub fn is_replacement(&self, rank: u32) -> bool {
        self.spawned.iter().any(|job| job.is_replacement && job.has(rank))
    }

    /// Whether a spawned rank is a program without MPI.
    #[must_use]
    pub fn is_program(&self, rank: u32) -> bool {
        self.is_spawned(rank) && !self.is_awaited(rank)
    }

    /// Namespace of a rank, and its rank there.
    #[must_use]
    pub fn name_of(&self, rank: u32) -> (&str, u32) {
        match self.spawned.iter().find(|job| job.has(rank)) {
            Some(job) => (&job.nspace, rank - job.first),
            None => (&self.launch.nspace, rank),
        }
    }
}

/// Packets from the plugin to `ringwatchd`, after [`Startup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToDaemon {
    /// The runtime lost its connection to a node's daemon (prterun only).
    ConnectionLost(NodeId),
    /// The runtime reports that a rank ended abnormally (prterun only: any rank; prted: its own).
    RankLost {
        /// The rank.
        rank: u32,
        /// The known reason.
        reason: RankReason,
    },
    /// A rank has ended, in order according to the runtime (prterun: any rank; prted: its own).
    RankEnded(u32),
    /// The ranks of a further job are about to be started; the segment has their slots.
    Spawned(Spawned),
    /// Every process of the job has ended: stop watching (prterun notifies the other nodes).
    Finished,
}

/// Packets from `ringwatchd` to the plugin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromDaemon {
    /// The rendezvous is complete; kept by the plugin for the next incarnation.
    Roster(Vec<SocketAddr>),
    /// These ranks are dead: one PMIx event each for the ranks of this node.
    RanksDead {
        /// The ranks.
        ranks: Vec<u32>,
        /// One sentence for the log.
        why: String,
    },
    /// Which processes of the job are which replicas; at node 0, for sentences.
    Replicas(Vec<(u32, ReplicaOf)>),
    /// Kept by the plugin for the next incarnation, which answers queries.
    Learned(Known),
    /// A node was declared dead.
    NodeDead {
        /// The node.
        node: NodeId,
        /// The reason.
        reason: NodeReason,
        /// The node that suspected it.
        suspector: Option<NodeId>,
        /// Monotonic time of the declaration, for logs.
        at: Time,
    },
    /// The job has ended on this node: its ranks are killed.
    End {
        /// The reason.
        reason: End,
        /// One sentence for the user.
        sentence: String,
    },
}

/// The reason why a job ends on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Announced by prterun's node.
    Announced(EndReason),
    /// This node has lost contact with prterun's node.
    CutOff,
    /// The other nodes have declared this node dead.
    DeclaredDead,
}

/// Encodes one packet.
///
/// # Errors
/// If the value cannot be encoded, which cannot occur with this module's types.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_stdvec(value)
}

/// Decodes one packet.
///
/// # Errors
/// If the bytes are not a value of this type.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}
