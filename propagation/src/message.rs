//! What members say to each other.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::NodeId;
use crate::bundle::Part;

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
    /// To the arbiter: I suspect this node. From the node itself it means: I resign, declare me dead.
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
    /// Are you there? Asked of the arbiter, and by the arbiter of a suspect.
    Probe,
    /// I am here: proves contact with the arbiter, or to the arbiter that the suspect is alive.
    ProbeReply,
    /// You have been declared dead. The answer to whatever a dead node says.
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
        /// The port that it sends from and can be reached at: who sends this on from another one is not believed. 0 in the
        /// answer, which says nothing.
        port: u16,
    },
    /// Rendezvous before a member exists: where everybody listens, in pieces that fit into a datagram. Shares
    /// the wire format only; [`Member`](crate::Member) ignores it.
    Roster {
        /// Which piece this is: less than `parts`.
        part: u16,
        /// The number of pieces.
        parts: u16,
        /// The addresses of this piece, in the order of the node ids.
        addresses: Vec<SocketAddr>,
    },
    /// The arbiter's answer to a suspicion: the node is alive, watch it for another timeout.
    Spared {
        /// The suspect.
        node: NodeId,
    },
    /// To whom the copy of a [`Route::Tree`] came from: everybody below this node in the tree has this broadcast.
    Complete {
        /// See [`Notice::source`].
        source: NodeId,
        /// See [`Notice::incarnation`].
        incarnation: u32,
        /// See [`Notice::seq`].
        seq: u64,
    },
    /// Down the tree again: everybody has this broadcast.
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
    /// To the launcher's node: what happened on the sender's, for people. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it.
    Records {
        /// Which life of the sender recorded it.
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
        /// How many records of that life have arrived.
        count: u64,
    },
    /// To the launcher's node: every living rank of mine is stopped. Shares the wire format only;
    /// [`Member`](crate::Member) ignores it.
    AllStopped {
        /// How many they are.
        ranks: u32,
    },
    /// The answer to [`Message::AllStopped`] while it holds for every node: somebody has suspended the job. Shares the
    /// wire format only; [`Member`](crate::Member) ignores it.
    JobSuspended,
    /// From one node's transport to another's: how heartbeats can reach it otherwise than as messages. Shares the wire
    /// format only; [`Member`](crate::Member) ignores it and hears of such heartbeats by
    /// [`Member::saw`](crate::Member::saw).
    Transport {
        /// In the transport's own format.
        word: Vec<u8>,
    },
    /// Several messages that left at the same time; see [`bundle`](crate::bundle).
    Bundle(Vec<Part>),
    /// What you sent was meant for a former life of mine, and I have not read it: the envelope of this message tells you
    /// which one I live.
    NewLife,
}

/// A broadcast: one subject on its way to every survivor.
///
/// `source`, `incarnation` and `seq` together name the broadcast; its copies differ in nothing but the `route`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Notice {
    /// The node that announces the subject: label 0 of the broadcast graph.
    pub source: NodeId,
    /// Which life of the source's member began the broadcast.
    pub incarnation: u32,
    /// The number of the broadcast within that life, from 0.
    pub seq: u64,
    /// What is announced.
    pub subject: Subject,
    /// Whose observation led to it, if it announces the death of a node that fell silent.
    pub suspector: Option<NodeId>,
    /// The nodes that the source held dead when it began the broadcast, ascending. The subject of
    /// [`Subject::Node`] is one of them.
    ///
    /// Every participant derives the broadcast graph from this list and never from what it believes itself,
    /// else two of them could compute different graphs and leave somebody out (section 2.2 of the paper).
    #[serde(with = "gaps")]
    pub dead: Vec<NodeId>,
    /// Those of `dead` that [left in order](NodeReason::Left), ascending.
    #[serde(with = "gaps")]
    pub left: Vec<NodeId>,
    /// The number of nodes that had ever belonged to the job when the source began the broadcast. Together with
    /// `dead` it says who takes part.
    pub universe: u32,
    /// How this copy is to be passed on.
    pub route: Route,
}

/// How a copy of a broadcast is passed on; see [`graph`](crate::graph) for what each costs and guarantees.
///
/// It travels with the copy, so that all participants compute the same whatever their own
/// [`Strategy`](crate::Strategy) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Route {
    /// Along all links of the circulant graph.
    Circulant,
    /// To the children in the binomial tree, which report when everybody below them has it.
    Tree,
    /// Along the circulant graph, because somebody did not hear in time that the tree is complete.
    Rescue,
}

/// What a broadcast announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Subject {
    /// A node is dead.
    Node {
        /// The node.
        node: NodeId,
        /// Why it is held dead.
        reason: NodeReason,
    },
    /// One MPI rank is dead, its node is not.
    Rank {
        /// The rank in the job.
        rank: u32,
        /// The node it ran on.
        node: NodeId,
        /// What became of it.
        reason: RankReason,
    },
    /// The job is over for everybody. Only the arbiter may say so.
    End {
        /// Why.
        reason: EndReason,
    },
    /// The source has no contact with the arbiter: check your own. Never delivered.
    Doubt,
    /// Nodes have joined: the job has as many nodes as [`Notice::universe`] says. Delivered at the members that did
    /// not know.
    Grown,
}

/// Why a node is held dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeReason {
    /// Its observer heard nothing from it for a whole timeout.
    Silent,
    /// It said so itself.
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

/// What became of a dead rank.
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

/// Why the job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EndReason {
    /// It finished.
    Finished,
    /// The launcher is gone.
    LauncherLost,
    /// A failure struck before every rank had passed MPI_Init.
    InitFailure,
    /// A failure struck, and the job may not fence what is left of the dead.
    FencingOff,
    /// Nobody is left.
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

/// An ascending list of nodes as the gaps between neighbours: one byte for most entries, and a list that is
/// not strictly ascending cannot arrive.
mod gaps {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::NodeId;

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
        let (left, route) = (vec![], Route::Tree);
        Notice { source: 1, incarnation: 0, seq: 0, subject, suspector: None, dead, left, universe: 9, route }
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
