//! The words that all parts of the protocol use.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::determinant::Rank;

/// A communicator, counted in the order in which the program made its communicators, so that a replacement counts
/// alike.
pub type Communicator = u32;

/// A receive, blocking or not, counted from 1 in the order in which a rank starts its receives.
pub type Request = u64;

/// The bytes of a message or of a contribution: kept once, however many lists they stand in.
pub type Payload = Arc<[u8]>;

/// The messages between two ranks that MPI keeps in order: those of one communicator and one tag.
///
/// MPI's messages do not overtake: of two that one receive could match, it matches the one sent first (MPI 4.1, section
/// 3.5). So the n-th message that a rank receives on a channel is the n-th that its peer sent on it, both count to the
/// same n, and no number has to travel with a message. A count per peer alone would not do: a program may receive tag
/// 7 before an earlier message with tag 5, and "three received" would not say which three.
///
/// A receive with `MPI_ANY_TAG` gets its channel from the status of the message that it matched. Which tag that is may
/// depend on time (threads of the sender, resends after a failure), so it is an outcome to be recorded like the source
/// of `MPI_ANY_SOURCE`, and a replay posts it with the recorded tag.
///
/// What has to hold for receives that overlap is in [`requests`](crate::protocol::requests).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Channel {
    /// The communicator.
    pub communicator: Communicator,
    /// The tag, never a wildcard.
    pub tag: i32,
}

/// What a receive or a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    /// The communicator.
    pub communicator: Communicator,
    /// The sender, a rank of the job's first communicator; `None` for any.
    pub source: Option<Rank>,
    /// The tag; `None` for any.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message of this envelope matches.
    pub fn covers(&self, envelope: Envelope) -> bool {
        self.communicator == envelope.channel.communicator
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.channel.tag)
    }

    /// Whether the program leaves open which message it gets.
    pub fn is_open(&self) -> bool {
        self.source.is_none() || self.tag.is_none()
    }

    /// The pattern of exactly this source and tag.
    pub fn forced(self, source: Rank, tag: i32) -> Self {
        Self { communicator: self.communicator, source: Some(source), tag: Some(tag) }
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender, a rank of the job's first communicator.
    pub source: Rank,
    /// Its communicator and tag.
    pub channel: Channel,
}
