//! What a sender owes each replica of the receiver (chapters 3 and 4 of the thesis).

use std::str::FromStr;

use thiserror::Error;

use crate::replicas::Indices;

/// How messages are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Each replica sends the message to each replica of the receiver, which waits for all copies.
    AllToAll,
    /// Each replica of the receiver gets the message of one sender and the digest of another one, and waits for both.
    MsgPlusHash,
    /// As [`AllToAll`](Self::AllToAll), but the receiver goes on with an early copy and compares the others later.
    Async,
    /// As [`MsgPlusHash`](Self::MsgPlusHash), but the receiver goes on with the message and compares the digest later.
    AsyncHash,
}

/// A name that is no method.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0} is no method; there are alltoall, msgplushash, async and asynchash")]
pub struct UnknownMethod(String);

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::AllToAll, Self::MsgPlusHash, Self::Async, Self::AsyncHash];

    /// Its name as a value of a parameter.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllToAll => "alltoall",
            Self::MsgPlusHash => "msgplushash",
            Self::Async => "async",
            Self::AsyncHash => "asynchash",
        }
    }

    /// Whether a receiver may use a message before it is verified.
    pub fn is_lazy(self) -> bool {
        matches!(self, Self::Async | Self::AsyncHash)
    }

    /// Whether receivers get digests instead of most copies.
    pub fn sends_digests(self) -> bool {
        matches!(self, Self::MsgPlusHash | Self::AsyncHash)
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL.into_iter().find(|method| method.name() == name).ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// What a sender owes a receiver of one message. The larger one includes the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// Nothing.
    Nothing,
    /// The digest.
    Digest,
    /// The message.
    Full,
}

/// What replica `me` of the sender owes replica `to` of the receiver while these senders live.
///
/// With digests the k-th living sender sends the message to the receiver of its number, and the digest to the next one.
/// So each receiver has two senders. The only sender alive sends the message to all.
pub fn duty(method: Method, senders: Indices, me: u8, to: u8) -> Duty {
    if !method.sends_digests() {
        return Duty::Full;
    }
    let count = senders.len();
    let Some(place) = senders.iter().position(|sender| sender == me) else { return Duty::Nothing };
    let to = usize::from(to);
    if to % count == place {
        Duty::Full
    } else if (to + count - 1) % count == place {
        Duty::Digest
    } else {
        Duty::Nothing
    }
}
