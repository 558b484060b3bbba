//! What the plugin and `ringwatchd` say to each other: the launch data that prterun sends to every node,
//! and the packets on the control socket between a runtime daemon and its `ringwatchd`.
//!
//! Everything is serde data in postcard encoding; one packet of the control socket (`SOCK_SEQPACKET`) holds one value. All
//! but the first, which brings the key of the job, are sealed with it ([`seal`](crate::seal)).

use std::net::SocketAddr;
use std::time::Duration;

use propagation::{EndReason, Fact, NodeId, NodeReason, RankReason, Strategy, Subject, Time};
use serde::{Deserialize, Serialize};

use crate::greeting::Place;
use crate::versions::{Contact, RELEASE};

/// Version of the data in this module; both ends must carry the same one.
pub const LAUNCH_VERSION: u16 = 12;

/// Largest packet on the control socket, in bytes.
pub const MAX_PACKET: usize = 8 << 20;

/// File descriptor on which `ringwatchd` finds its control socket.
pub const CONTROL_FD: i32 = 3;
/// File descriptor on which `ringwatchd` finds its UDP socket.
pub const UDP_FD: i32 = 4;
/// File descriptor on which `ringwatchd` finds the node segment.
pub const SEGMENT_FD: i32 = 5;
/// File descriptor that `ringwatchd` only has to keep open: when it closes, the kernel lets the runtime daemon go on, which
/// may be stopped by then.
pub const LIFE_FD: i32 = 6;

/// How heartbeats travel; everything else goes as datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carrier {
    /// As RDMA writes where both nodes have a usable port in the same subnet, else as datagrams.
    Auto,
    /// As datagrams.
    Udp,
    /// As with [`Carrier::Auto`], and a warning wherever they stay datagrams.
    Verbs,
}

/// Parameters of a job, read by prterun and the same on every node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Heartbeat period (eta in the paper).
    pub period: Duration,
    /// Suspicion timeout (delta in the paper).
    pub timeout: Duration,
    /// How long a rank may be stopped before it is declared dead; `None` switches the watch off.
    pub stop_timeout: Option<Duration>,
    /// Whether declared processes are killed on their node.
    pub fence: bool,
    /// Names or CIDR subnets of the interfaces to use; empty means all but loopback.
    pub interfaces: Vec<String>,
    /// How heartbeats travel.
    pub transport: Carrier,
    /// What the ring follows, as the user wrote it; the ring itself is [`LaunchData::ring`].
    pub ring_order: String,
    /// How deaths are broadcast.
    pub strategy: Strategy,
    /// Hosts whose part in the ring another machine carries, each with that machine's name for the remote shell.
    pub offload: Vec<(String, String)>,
    /// First and last UDP port to try; (0, 0) leaves the choice to the kernel.
    pub ports: (u16, u16),
    /// Least severe level that is logged (error, warn, info, debug, trace).
    pub log_level: String,
    /// Where the log goes: `stderr` or a path, in which `%h` is the host name, `%j` the job and `%n` the node number.
    pub log: String,
    /// Where node 0 writes the history of the job: a path like that of the log; empty for nowhere.
    pub events: String,
}

/// What prterun's plugin puts into the launch message of a job, for every node.
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
    /// Number of nodes, prterun's included: node numbers are the ranks of the runtime daemons, 0 is prterun.
    pub universe: u32,
    /// The nodes in the order of the ring; empty for the order of their numbers.
    pub ring: Vec<NodeId>,
    /// Node of each rank, by rank.
    pub rank_nodes: Vec<NodeId>,
    /// Where node 0 can be reached, most preferred first.
    pub rendezvous: Vec<SocketAddr>,
    /// Path of `ringwatchd` as the user wrote it; empty means that each node looks for its own.
    pub daemon: String,
    /// The remote shell with its options, for what the parameter `offload` names.
    pub agent: String,
    /// Variables for the environment of every rank.
    pub rank_environment: Vec<(String, String)>,
    /// Defaults of the runtime that were changed, for the log.
    pub changes: Vec<String>,
    /// Whether the ranks have the component that registers them in the node segment; if the user excluded it, nothing
    /// is known about their way through `MPI_Init`.
    pub ranks_register: bool,
    /// Whether ranks are started stopped, for a debugger: until they register that is no fault.
    pub ranks_start_stopped: bool,
    /// The job's parameters.
    pub parameters: Parameters,
}

impl LaunchData {
    /// As bytes for the launch message: after a [`Contact`], which every release can read.
    ///
    /// # Errors
    /// Only if the value cannot be encoded, which nothing can cause.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        Ok([encode(&self.contact())?, encode(self)?].concat())
    }

    /// What nodes of every release can read of it.
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
    /// If they are of another release, with which a [`Contact`] is all that both know; or no launch data.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (contact, rest) = postcard::take_from_bytes::<Contact>(bytes)?;
        if (contact.version, contact.release.as_str()) != (LAUNCH_VERSION, RELEASE) {
            return Err(Unreadable::Release(contact));
        }
        Ok(decode(rest)?)
    }

    /// Ranks on `node`, ascending: the order of the slots in the node's segment.
    pub fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.rank_nodes).filter(move |(_, n)| **n == node).map(|(rank, _)| rank)
    }
}

/// What prterun's plugin puts into the launch message of a job that a rank of the first job, or of another spawned one,
/// spawns: the same nodes watch its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// PMIx namespace of the job.
    pub nspace: String,
    /// Number of its first rank among the ranks of all jobs; nobody else has it or the following ones.
    pub first: u32,
    /// Node of each of its ranks.
    pub rank_nodes: Vec<NodeId>,
    /// Those who spawn it wait in MPI for its ranks to leave `MPI_Init`: its program is one with MPI.
    pub is_awaited: bool,
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

/// Why launch data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It was made by another release.
    #[error("the node of mpirun has another release of ringwatch")]
    Release(Contact),
    /// It is none.
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
    /// How many times `ringwatchd` was started before on this node for this job.
    pub incarnation: u32,
    /// Addresses by node if an earlier incarnation learned them; otherwise the rendezvous is held first.
    pub roster: Option<Vec<SocketAddr>>,
    /// Process id of prterun or prted: its end is the end of this node.
    pub runtime_pid: i32,
    /// When that process started, see [`crate::pin::started`]: another one may have its number since.
    pub runtime_started: u64,
    /// Where tools find their key.
    pub tools: Place,
    /// Jobs that were spawned since.
    pub spawned: Vec<Spawned>,
    /// What earlier incarnations have learned of the deaths in the failure log.
    pub known: Vec<Known>,
}

/// A death that a `ringwatchd` has heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// What it was told.
    pub fact: Fact,
    /// When, on the clock of the node.
    pub at: Time,
}

impl Known {
    /// Whether a rank that is on `node` died of it.
    #[must_use]
    pub fn tells_of_rank(&self, rank: u32, node: Option<NodeId>) -> bool {
        match self.fact.subject {
            Subject::Rank { rank: dead, .. } => dead == rank,
            Subject::Node { node: dead, .. } => Some(dead) == node,
            _ => false,
        }
    }

    /// Whether this node died of it.
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

    /// Whether a rank belongs to a job that was spawned.
    #[must_use]
    pub fn is_spawned(&self, rank: u32) -> bool {
        rank as usize >= self.launch.rank_nodes.len()
    }

    /// Whether others wait in MPI for a rank of a spawned job to leave `MPI_Init`.
    #[must_use]
    pub fn is_awaited(&self, rank: u32) -> bool {
        self.spawned.iter().any(|job| job.is_awaited && job.has(rank))
    }

    /// Whether a rank that was spawned is a program without MPI.
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
        /// What is known about its end.
        reason: RankReason,
    },
    /// A rank has ended, in order as far as the runtime knows (prterun: any rank; prted: its own).
    RankEnded(u32),
    /// The ranks of one more job are about to be started; the segment has their slots.
    Spawned(Spawned),
    /// Every process of the job has ended: stop watching (prterun tells the others).
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
    /// Kept by the plugin for the next incarnation, for people who ask that one.
    Learned(Known),
    /// A node was declared dead.
    NodeDead {
        /// The node.
        node: NodeId,
        /// Why.
        reason: NodeReason,
        /// Node that suspected it.
        suspector: Option<NodeId>,
        /// Monotonic time of the declaration, for logs.
        at: Time,
    },
    /// The job is over on this node: its ranks have been ended.
    End {
        /// Why.
        reason: End,
        /// One sentence for the user.
        sentence: String,
    },
}

/// Why a job ends on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Announced by prterun's node.
    Announced(EndReason),
    /// This node has lost contact with prterun's node.
    CutOff,
    /// The other nodes hold this node dead.
    DeclaredDead,
}

/// Encodes one packet.
///
/// # Errors
/// Only if the value cannot be encoded, which none of this module's types can cause.
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
