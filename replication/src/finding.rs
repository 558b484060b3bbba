//! What was found wrong, as a sentence.

use std::fmt;

use event_log::determinant::Rank;
use event_log::protocol::units::Channel;

use crate::replicas::{Indices, Replica};

/// Which message: the `number`-th from one rank to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    /// The sender.
    pub source: Rank,
    /// The receiver.
    pub to: Rank,
    /// Its number, from 1.
    pub number: u64,
    /// Communicator and tag, as far as known.
    pub channel: Channel,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A replica has sent something else than the majority: it is to be rebuilt or retired.
    Corrupt {
        /// The replica.
        replica: Replica,
        /// The message.
        which: Which,
    },
    /// This replica has used a message that the majority contradicts: it is to be rebuilt or retired.
    Tainted {
        /// This replica.
        replica: Replica,
        /// The message.
        which: Which,
    },
    /// The senders disagree, and there is no majority.
    Undecided {
        /// The message.
        which: Which,
        /// Those that have sent the same as the lowest of them.
        one: Indices,
        /// The others.
        others: Indices,
        /// Whether this replica has used one of the copies.
        is_used: bool,
    },
    /// Two replicas of one rank do not make the same calls.
    Diverged {
        /// This replica.
        replica: Replica,
        /// The number of the decision that does not fit its call.
        decision: u64,
    },
}

impl Finding {
    /// The kind of finding, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Tainted { .. } => "tainted",
            Self::Undecided { .. } => "undecided",
            Self::Diverged { .. } => "diverged",
        }
    }
}

struct Names(Indices);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|index| index.to_string()).collect();
        write!(f, "{} {}", if names.len() == 1 { "replica" } else { "replicas" }, names.join(" and "))
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, to, number, channel } = self;
        write!(
            f,
            "message {number} from rank {source} to rank {to} (tag {}, communicator {})",
            channel.tag, channel.communicator
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { replica, which } => {
                write!(
                    f,
                    "replica {} of rank {} has sent {which} with other data than the other replicas",
                    replica.index, replica.rank
                )
            }
            Self::Tainted { replica, which } => {
                write!(
                    f,
                    "replica {} of rank {} has used {which}, which the majority contradicts",
                    replica.index, replica.rank
                )
            }
            Self::Undecided { which, one, others, is_used } => {
                let used = if *is_used { ", and one copy has been used" } else { "" };
                write!(
                    f,
                    "{which}: {} and {} of the sender differ, and no majority settles it{used}",
                    Names(*one),
                    Names(*others)
                )
            }
            Self::Diverged { replica, decision } => {
                let Replica { rank, index } = replica;
                write!(
                    f,
                    "replica {index} of rank {rank} makes another call than the replica that decides (decision {decision})"
                )
            }
        }
    }
}
