//! What replicas say to each other, and the data that they carry.

use std::fmt::Debug;
use std::sync::Arc;

use event_log::protocol::units::Channel;
use serde::{Deserialize, Serialize};

use crate::decisions::Decision;
use crate::digest::{Digest, digest};

/// The data of a message, of which the machine needs the length and the digest only.
pub trait Data: Clone + Debug + PartialEq {
    /// Bytes that it takes in memory and on the wire.
    fn length(&self) -> u64;
    /// Its digest on a channel, of the data as it is here now.
    fn digest(&self, channel: Channel) -> Digest;
}

impl Data for Arc<[u8]> {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn digest(&self, channel: Channel) -> Digest {
        digest(channel, self)
    }
}

/// What a sender gives of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body<P> {
    /// The data.
    Full(P),
    /// The digest.
    Digest(Digest),
}

/// A message from a replica to a replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message<P> {
    /// A message of the program, of which other replicas of the sender send the like.
    Copy {
        /// Its number from 1, among those of the two ranks.
        number: u64,
        /// Communicator and tag.
        channel: Channel,
        /// The data or its digest.
        body: Body<P>,
    },
    /// The receiver needs the data of this message: what it has does not agree.
    Ask {
        /// The number.
        number: u64,
    },
    /// The receiver needs nothing more of messages up to this one.
    Settled {
        /// The number.
        up_to: u64,
    },
    /// The sender keeps too much: it wants [`Settled`](Self::Settled) as soon as there is something new.
    PleaseReport,
    /// To replicas of the same rank: what was decided.
    Decided(Decision),
    /// To replicas of the same rank: the sender knows all decisions up to this one.
    Known {
        /// The number of the decision.
        up_to: u64,
    },
    /// To the replica that decides after a death: all that the sender knows and the receiver may not.
    Ledger(Vec<Decision>),
}
