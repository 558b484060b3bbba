//! Defines the protocol between a rank and the event logger of its node, a part of `ringwatchd`, and the nodes of a
//! rank's loggers.
//!
//! A packet of the connection (`SOCK_SEQPACKET`, a socket of the abstract namespace) holds one value in postcard
//! encoding. The first packet of a rank is [`ToLogger::Take`]; a connection serves one rank. The rank keeps data that
//! is not stable yet: a restarted logger lacks it.

use event_log::determinant::{Determinant, DeterminantId, Rank};
use event_log::logger::round::Position;
use propagation::NodeId;
use serde::{Deserialize, Serialize};

/// Environment variable of ranks with the name of the logger's socket, without the leading zero byte. Absent in a job
/// without event loggers.
pub const LOGGER_VARIABLE: &str = "RINGWATCH_EVENT_LOGGER";

/// Maximum number of determinants in one packet.
pub const MOST_IN_A_PACKET: usize = 256;

/// Maximum length of a packet in bytes.
pub const LONGEST_PACKET: usize = 16 << 10;

/// Identifies one process of a rank. No two processes of a rank have the same [`Writer::incarnation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Writer {
    /// The rank, of the job's first communicator.
    pub rank: Rank,
    /// Number of earlier processes of the rank.
    pub incarnation: u16,
    /// Number of earlier connections of this process.
    pub attempt: u16,
}

/// From a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLogger {
    /// This process is the rank from now on. Processes with a lower incarnation can save nothing any more.
    Take {
        /// The process.
        writer: Writer,
        /// The end of its checkpoint, or its last known stable position: it requests later determinants.
        after: Position,
    },
    /// Save these determinants, which have consecutive ids.
    Save(Vec<Determinant>),
    /// Number of bytes of standard output written so far. Only the last value counts.
    Output(u64),
    /// Remove all determinants up to this one: a durable checkpoint covers them.
    Trim(DeterminantId),
    /// This process is a replacement, and so many events of the processes before are left for it to repeat. 0: it has
    /// repeated all. Only the last one counts.
    ToRepeat(u64),
    /// What the sender log of this process takes. Only the last one counts.
    Keeps {
        /// Bytes.
        bytes: u64,
        /// The most that it may take, in bytes.
        limit: u64,
    },
}

/// To a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromLogger {
    /// All determinants up to this one are stable, and so is this count of output.
    Stable {
        /// The last stable determinant.
        position: Position,
        /// Bytes of standard output.
        output: u64,
    },
    /// An answer to [`ToLogger::Take`], or a part of it: the determinants after the checkpoint, in order. All are
    /// stable.
    Taken {
        /// The determinants of this part.
        determinants: Vec<Determinant>,
        /// Bytes of standard output.
        output: u64,
        /// The last stable determinant, with the last part.
        end: Option<Position>,
    },
    /// The other answer: a newer checkpoint exists, at least with this id.
    NewerCheckpoint(DeterminantId),
    /// Another process has become the rank.
    Deposed,
    /// A logger is full until the rank has written a checkpoint and sent [`ToLogger::Trim`].
    Full,
    /// Too many of the rank's loggers are dead for any further data to become stable.
    TooFew {
        /// Number of living loggers.
        living: u32,
        /// Number of loggers that are needed.
        needed: u32,
    },
}

/// The name of the logger's socket of a node.
#[must_use]
pub fn socket_name(uid: u32, job: u64, node: NodeId) -> String {
    format!("ringwatch-logger/{uid}/{job:016x}/{node}")
}

/// The nodes of the loggers of a rank whose first process is on `home`: that node and its successors on the ring, where
/// neighbours are in different failure domains. Their number is 2f + 1, or with fewer nodes the largest odd number.
#[must_use]
pub fn loggers_of(home: NodeId, ring: &[NodeId], universe: u32, failures: u32) -> Vec<NodeId> {
    let ids: Vec<NodeId> = (0..universe).collect();
    // All nodes ignore an invalid order, see `ring::settings`.
    let mut sorted = ring.to_vec();
    sorted.sort_unstable();
    let order = if sorted == ids { ring } else { &ids };
    let at = order.iter().position(|node| *node == home).unwrap_or(0);
    let count = survivable(universe, failures) as usize * 2 + 1;
    order.iter().cycle().skip(at).take(count.min(order.len())).copied().collect()
}

/// Number of nodes that may die, if `failures` is requested and there are `universe` nodes.
#[must_use]
pub fn survivable(universe: u32, failures: u32) -> u32 {
    failures.min(universe.saturating_sub(1) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggers_are_the_own_node_and_the_next_ones_on_the_ring() {
        assert_eq!(loggers_of(3, &[], 5, 1), [3, 4, 0]);
        assert_eq!(loggers_of(3, &[0, 3, 1, 4, 2], 5, 1), [3, 1, 4]);
        assert_eq!(loggers_of(3, &[], 5, 0), [3]);
        assert_eq!(loggers_of(1, &[], 5, 2), [1, 2, 3, 4, 0]);
    }

    #[test]
    fn where_there_are_too_few_nodes_an_odd_number_of_them_is_used() {
        assert_eq!(loggers_of(1, &[], 4, 2), [1, 2, 3]);
        assert_eq!(loggers_of(1, &[], 2, 1), [1]);
        assert_eq!(loggers_of(0, &[], 1, 8), [0]);
    }

    #[test]
    fn an_order_that_is_none_is_that_of_the_numbers() {
        assert_eq!(loggers_of(1, &[0, 1], 3, 1), [1, 2, 0]);
    }
}
