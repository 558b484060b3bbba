//! Event loggers: where the determinants of a rank are stable, so that a replacement of the rank finds them.
//!
//! A rank has one end of a logger, a [`Logger`]; the other ends are servers, acceptors or memory regions on other
//! nodes. All are state machines: calls and messages come in, [`Action`]s come out. Messages may get lost, come twice
//! and overtake each other; [`Logger::retry`] sends again what has no answer yet.
//!
//! | module | idea |
//! |---|---|
//! | [`round`] | who may write: rounds of proposers, and the place of a checkpoint in a rank's sequence |
//! | [`entry`] | a determinant and the life of the rank in which it came about |
//! | [`outstanding`] | what is not stable yet goes in one message, just before the next send |
//! | [`ledger`] | the determinants of all ranks as a server keeps them |
//! | [`client`] | a rank's end of a logger with a server: centralised, classic |
//! | [`centralised`] | one server |
//! | [`acceptor`] | Paxos: promise, accept and trim for all instances from a number on |
//! | [`promises`] | the answers to a prepare request |
//! | [`history`] | which of the found entries follow each other |
//! | [`group`] | the 2f + 1 acceptors of a proposer, and whom it asks first |
//! | [`classic`] | one Paxos sequence for all ranks, with a coordinator |
//! | [`parallel`] | one Paxos sequence for each rank, whose proposer is the rank |
//! | [`onesided`] | the same without code at the acceptors: writes into their memory, and access that is taken away |
//! | [`message`] | what the ends say to each other |

pub mod acceptor;
pub mod centralised;
pub mod classic;
pub mod client;
pub mod entry;
pub mod group;
pub mod history;
pub mod ledger;
pub mod message;
pub mod onesided;
pub mod outstanding;
pub mod parallel;
pub mod promises;
pub mod round;

use serde::{Deserialize, Serialize};

use crate::determinant::{Determinant, DeterminantId, Rank};
use message::Message;
use round::{Address, Position, Round};

/// One thing for the caller to do or to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a message to another node. It may get lost.
    Send {
        /// The process it is for.
        to: Address,
        /// The message.
        message: Message,
    },
    /// Hand a message to the acceptor, or the memory region, of the own node, and its answer to [`Logger::handle`] at
    /// once.
    Store {
        /// The acceptor of the own node.
        to: Address,
        /// The message.
        message: Message,
    },
    /// All determinants up to this one are stable: what depends on them may leave the process.
    Stable(DeterminantId),
    /// The earlier process of this rank can save nothing any more. Comes before [`Action::Recovered`]. With
    /// [`onesided`] it comes again if another process took the rank meanwhile; then choose the checkpoint and recover
    /// again.
    Fenced,
    /// The determinants after the checkpoint, in order. All are stable.
    Recovered(Vec<Determinant>),
    /// Determinants after the checkpoint were removed, because there is a newer one, at least with this id: recover
    /// from that.
    NewerCheckpoint(DeterminantId),
    /// The logger has no room for more determinants until the rank has written a checkpoint and called
    /// [`Logger::trim`].
    Full,
    /// Another process has taken this rank over; this one must stop.
    Deposed(Round),
}

/// A rank's end of an event logger.
pub trait Logger {
    /// Adds a determinant to those that are outstanding. Nothing is sent before [`Logger::flush`].
    ///
    /// # Errors
    /// If its id is not the next one.
    fn save(&mut self, determinant: Determinant) -> Result<(), OutOfOrder>;
    /// Sends all that is outstanding, in one message to each receiver: just before the rank's next send.
    fn flush(&mut self, out: &mut Vec<Action>);
    /// The last stable determinant, for a checkpoint. Wait until nothing is outstanding before you take one.
    fn stable(&self) -> Position;
    /// How many determinants are not stable.
    fn outstanding(&self) -> usize;
    /// Takes the rank over, and fetches the determinants after its last checkpoint ([`Position::START`] without one).
    ///
    /// Choose the checkpoint after [`Action::Fenced`] where the logger says that before this call ([`onesided`]). Else
    /// the answer may be [`Action::NewerCheckpoint`].
    fn recover(&mut self, after: Position, out: &mut Vec<Action>);
    /// Removes all determinants up to this one. Only after a checkpoint with it is durable.
    fn trim(&mut self, up_to: DeterminantId, out: &mut Vec<Action>);
    /// Takes a message from this process.
    fn handle(&mut self, from: Address, message: Message, out: &mut Vec<Action>);
    /// Sends again what has had no answer for a time that the caller chooses, to others as well.
    fn retry(&mut self, out: &mut Vec<Action>);
}

/// A determinant whose id is not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the next determinant to save has id {expected}, not {found}: save them in order")]
pub struct OutOfOrder {
    /// The next id.
    pub expected: DeterminantId,
    /// The id that was given.
    pub found: DeterminantId,
}

/// What a logger's server, acceptor or memory holds of one rank, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holding {
    /// The rank.
    pub rank: Rank,
    /// The process that may write.
    pub writer: Round,
    /// All up to this one were removed after a checkpoint.
    pub trimmed: DeterminantId,
    /// The highest id here, or `trimmed`.
    pub last: DeterminantId,
    /// How many determinants are here.
    pub count: usize,
}
