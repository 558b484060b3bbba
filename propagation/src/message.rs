//! Defines messages between members.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::units::NodeId;

/// One message from one node to another.
///
/// The order of the variants is part of the [wire format](crate::wire): new ones go to the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Message {
    /// I am alive (T1 of the paper). `count` grows by one with every heartbeat of the sender.
    Heartbeat {
        /// The number of this heartbeat, from 1.
        count: u64,
    },
    /// The sender is your observer from now on (T4 of the paper): send it a heartbeat at once.
    NewObserver,
    /// To the arbiter: I suspect this node, my emitter or one behind it. From the node itself it means: I resign,
    /// declare me dead.
    ///
    /// The arbiter always answers: with the [`Notice`] of the death, with a [`Message::Verdict`] if the sender
    /// itself is dead, else with a [`Message::ProbeReply`] and, when it knows more, with a [`Message::Spared`] or the
    /// notice.
    Suspect {
        /// The node under suspicion.
        node: NodeId,
    },
    /// A copy of a broadcast. Shared, because a member sends the same one to all its neighbours.
    Notice(Arc<Notice>),
    /// The copy of this broadcast arrived.
    Ack {
        /// See [`Notice::source`].
        source: NodeId,
        /// See [`Notice::incarnation`].
        incarnation: u32,
        /// See [`Notice::seq`].
        seq: u64,
    },
    /// A probe, sent to the arbiter, by the arbiter to a suspect, and to the nodes behind a silent emitter.
    Probe,
    /// I am here: proves contact with the arbiter, or that the sender is alive.
    ProbeReply,
    /// The receiver is declared dead. The answer to any message of a dead node.
    Verdict,
    /// To the arbiter: every rank of my node has passed MPI_Init. Sent again until [`Message::ReadyAck`] comes.
    Ready,
    /// The arbiter heard [`Message::Ready`].
    ReadyAck,
    /// Rendezvous before a member exists: this node listens here. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it.
    Hello {
        /// The node that introduces itself.
        node: NodeId,
        /// The port that it sends from and can be reached at: a copy relayed from another port is rejected. 0 in the
        /// answer, where it has no meaning.
        port: u16,
    },
    /// Rendezvous before a member exists: the addresses of all nodes, in parts that fit into a datagram. Shares the
    /// wire format only; [`Member`](crate::Member) ignores it.
    Roster {
        /// Which piece this is: less than `parts`.
        part: u16,
        /// The number of pieces.
        parts: u16,
        /// The addresses of this piece, in the order of the node ids.
        #[serde(with = "crate::address_runs")]
        addresses: Vec<SocketAddr>,
    },
    /// The arbiter's answer to a suspicion: the node is alive, watch it for another timeout.
    Spared {
        /// The suspect.
        node: NodeId,
    },
    /// To the sender of a [`Route::Tree`] copy: all nodes below this one in the tree have this broadcast.
    Complete {
        /// See [`Notice::source`].
        source: NodeId,
        /// See [`Notice::incarnation`].
        incarnation: u32,
        /// See [`Notice::seq`].
        seq: u64,
    },
    /// Down the tree again: all nodes have this broadcast.
    Done {
        /// See [`Notice::source`].
        source: NodeId,
        /// See [`Notice::incarnation`].
        incarnation: u32,
        /// See [`Notice::seq`].
        seq: u64,
    },
    /// To the arbiter, or to the observer without one: this node leaves the job in order. Answered by a
    /// [`Message::Verdict`].
    Leave,
    /// To the launcher's node: events on the sender's node, for users. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it.
    Records {
        /// The incarnation of the sender that recorded it.
        incarnation: u32,
        /// The number of the first record, from 0.
        first: u64,
        /// When this was sent, on the sender's monotonic clock, in microseconds.
        sent_us: u64,
        /// The records, each a line.
        lines: Vec<u8>,
    },
    /// The answer to [`Message::Records`]. Shares the wire format only; [`Member`](crate::Member) ignores it.
    RecordsHeard {
        /// The life of the receiver.
        incarnation: u32,
        /// Number of records of that incarnation that have arrived.
        count: u64,
    },
    /// To the launcher's node: every living rank of the sender's node is stopped. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it.
    AllStopped {
        /// Their number.
        ranks: u32,
    },
    /// The answer to [`Message::AllStopped`] while it holds for every node: the job is suspended. Shares the wire
    /// format only; [`Member`](crate::Member) ignores it.
    JobSuspended,
    /// Between transports of nodes: a way for heartbeats other than messages. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it and learns of such heartbeats by [`Member::saw`](crate::Member::saw).
    Transport {
        /// In the transport's own format.
        word: Vec<u8>,
    },
    /// Several messages sent at the same time; see [`bundle`](crate::bundle).
    Bundle(Vec<Part>),
    /// The receiver's message was meant for an earlier incarnation of the sender, which has not read it. The envelope
    /// of this message contains the current incarnation.
    NewLife,
    /// From one node's event logger to another's. Shares the wire format only; [`Member`](crate::Member) ignores it.
    Logger {
        /// In the event loggers' own format.
        word: Vec<u8>,
    },
    /// Between processes of a group of recommended processes, on sockets of their own. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it.
    Group {
        /// In the group's own format.
        word: Vec<u8>,
    },
}

/// A broadcast: one subject on its way to every survivor.
///
/// `source`, `incarnation` and `seq` together name the broadcast; its copies differ in nothing but the `route`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Notice {
    /// The node that announces the subject: label 0 of the broadcast graph.
    pub source: NodeId,
    /// The incarnation of the source's member that began the broadcast.
    pub incarnation: u32,
    /// The number of the broadcast within that life, from 0.
    pub seq: u64,
    /// The announced subject.
    pub subject: Subject,
    /// The node whose observation led to it, if it announces the death of a silent node.
    pub suspector: Option<NodeId>,
    /// The nodes that the source held dead when it began the broadcast, ascending. The subject of
    /// [`Subject::Node`] is one of them.
    ///
    /// Every participant derives the broadcast graph from this list and never from its own knowledge. Otherwise two of
    /// them could compute different graphs and miss a node (section 2.2 of the paper).
    #[serde(with = "gaps")]
    pub dead: Vec<NodeId>,
    /// The reasons of `dead`, in the same order: each with the number of successive entries that have it.
    pub reasons: Vec<(NodeReason, u32)>,
    /// The number of nodes that had ever belonged to the job when the source began the broadcast. Together with `dead`
    /// it determines the participants.
    pub universe: u32,
    /// The route of this copy.
    pub route: Route,
}

/// The route of a broadcast's copy; see [`graph`](crate::graph) for costs and guarantees.
///
/// It travels with the copy, so that all participants compute the same whatever their own
/// [`Strategy`](crate::Strategy) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Route {
    /// Along all links of the circulant graph.
    Circulant,
    /// To the children in the binomial tree, which report when all nodes below them have it.
    Tree,
    /// Along the circulant graph, because a node did not learn in time that the tree is complete.
    Rescue,
}

/// What a broadcast announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Subject {
    /// A node is dead.
    Node {
        /// The node.
        node: NodeId,
        /// The reason.
        reason: NodeReason,
    },
    /// One MPI rank is dead, its node is not.
    Rank {
        /// The rank in the job.
        rank: u32,
        /// The node it ran on.
        node: NodeId,
        /// The reason.
        reason: RankReason,
    },
    /// The job is over for all nodes. Only the arbiter may announce it.
    End {
        /// The reason.
        reason: EndReason,
    },
    /// The source has no contact with the arbiter: check your own. Never delivered.
    Doubt,
    /// Nodes have joined: the job has [`Notice::universe`] nodes. Delivered at members that did not know that.
    Grown,
}

/// The name of a broadcast: the key for telling the first copy from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BroadcastId {
    /// See [`Notice::source`].
    pub source: NodeId,
    /// See [`Notice::incarnation`].
    pub incarnation: u32,
    /// See [`Notice::seq`].
    pub seq: u64,
}

impl Notice {
    /// The nodes of `dead`, each with its reason.
    pub fn dead_with_reasons(&self) -> impl Iterator<Item = (NodeId, NodeReason)> + '_ {
        let reasons = self.reasons.iter().flat_map(|&(reason, count)| std::iter::repeat_n(reason, count as usize));
        self.dead.iter().copied().zip(reasons)
    }

    pub(crate) fn id(&self) -> BroadcastId {
        BroadcastId { source: self.source, incarnation: self.incarnation, seq: self.seq }
    }
}

/// One message of a [`Message::Bundle`], which is never another bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// See [`Message::Notice`].
    Notice(Arc<Notice>),
    /// See [`Message::Ack`].
    Ack(BroadcastId),
    /// See [`Message::Complete`].
    Complete(BroadcastId),
    /// See [`Message::Done`].
    Done(BroadcastId),
}

impl From<Part> for Message {
    fn from(part: Part) -> Message {
        match part {
            Part::Notice(notice) => Message::Notice(notice),
            Part::Ack(BroadcastId { source, incarnation, seq }) => Message::Ack { source, incarnation, seq },
            Part::Complete(BroadcastId { source, incarnation, seq }) => Message::Complete { source, incarnation, seq },
            Part::Done(BroadcastId { source, incarnation, seq }) => Message::Done { source, incarnation, seq },
        }
    }
}

/// The reason why a node is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeReason {
    /// Its observer heard nothing from it for a whole timeout.
    Silent,
    /// It requested it.
    Resigned,
    /// The runtime saw its connection to the node break.
    ConnectionLost,
    /// It left the job in order: no failure, but like a dead node it takes no further part.
    Left,
}

impl fmt::Display for NodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeReason::Silent => "no heartbeat arrived within the timeout",
            NodeReason::Resigned => "the node resigned after losing its runtime daemon",
            NodeReason::ConnectionLost => "the runtime lost its connection to the node",
            NodeReason::Left => "the node left the job in order",
        })
    }
}

/// The reason why a rank is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RankReason {
    /// Its process exited without finishing MPI.
    Exited {
        /// The exit status.
        status: i32,
    },
    /// Its process was ended by a signal.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// Its process was stopped for too long.
    Stopped,
    /// Something outside the detector reported it as failed.
    Reported,
    /// Its process ended before it had left `MPI_Init`.
    Early,
    /// A signal is ending its process, and the kernel still writes its core.
    DumpsCore {
        /// The number of the signal, 0 if the kernel does not say.
        signal: i32,
    },
}

impl fmt::Display for RankReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankReason::Exited { status } => write!(f, "the process exited with status {status}"),
            RankReason::Signaled { signal } => {
                write!(f, "the process was killed by signal {signal}")
            }
            RankReason::Stopped => f.write_str("the process was stopped"),
            RankReason::Reported => f.write_str("the process was reported as failed"),
            RankReason::Early => f.write_str("the process ended before it had left MPI_Init"),
            RankReason::DumpsCore { signal: 0 } => f.write_str("the process is dumping core"),
            RankReason::DumpsCore { signal } => write!(f, "the process is dumping core after signal {signal}"),
        }
    }
}

/// The reason for the end of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndReason {
    /// It finished.
    Finished,
    /// The launcher is lost.
    LauncherLost,
    /// A failure struck before every rank had passed MPI_Init.
    InitFailure,
    /// A failure occurred, and the job must not kill processes of dead nodes that may still run.
    FencingOff,
    /// No rank survives.
    NoSurvivor,
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndReason::Finished => "the job finished",
            EndReason::LauncherLost => "the launcher was lost",
            EndReason::InitFailure => "a failure struck before every rank had passed MPI_Init",
            EndReason::FencingOff => "a failure struck while fencing is switched off",
            EndReason::NoSurvivor => "no node survived",
        })
    }
}

/// An ascending list of nodes as the gaps between neighbours: one byte for most entries. A list that is not strictly
/// ascending cannot be received.
mod gaps {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::units::NodeId;

    pub fn serialize<S: Serializer>(list: &[NodeId], serializer: S) -> Result<S::Ok, S::Error> {
        let before = std::iter::once(None).chain(list.iter().copied().map(Some));
        // An unsorted list wraps around here and is refused by the receiver.
        serializer.collect_seq(before.zip(list).map(|(before, &node)| match before {
            None => node,
            Some(before) => node.wrapping_sub(before).wrapping_sub(1),
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NodeId>, D::Error> {
        let mut list = Vec::<NodeId>::deserialize(deserializer)?;
        let mut smallest_next = Some(0);
        for entry in &mut list {
            *entry = smallest_next
                .and_then(|smallest: NodeId| smallest.checked_add(*entry))
                .ok_or_else(|| D::Error::custom("a list of nodes is not ascending"))?;
            smallest_next = entry.checked_add(1);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(dead: Vec<NodeId>) -> Notice {
        let subject = Subject::Doubt;
        let (reasons, route) = (vec![], Route::Tree);
        Notice { source: 1, incarnation: 0, seq: 0, subject, suspector: None, dead, reasons, universe: 9, route }
    }

    #[test]
    fn ascending_lists_survive_the_gap_encoding() {
        for dead in [vec![], vec![0], vec![0, 1, 2], vec![7, 9, 1000, u32::MAX], vec![u32::MAX]] {
            let bytes = postcard::to_stdvec(&notice(dead.clone())).unwrap();
            assert_eq!(postcard::from_bytes::<Notice>(&bytes).unwrap().dead, dead);
        }
    }

    #[test]
    fn other_lists_are_refused() {
        for dead in [vec![5, 5], vec![5, 4], vec![u32::MAX, 0]] {
            let bytes = postcard::to_stdvec(&notice(dead)).unwrap();
            assert!(postcard::from_bytes::<Notice>(&bytes).is_err());
        }
    }

    #[test]
    fn a_dense_list_takes_a_byte_per_node() {
        let bytes = postcard::to_stdvec(&notice((0..10_000).collect())).unwrap();
        assert!(bytes.len() < 10_020);
    }
}
