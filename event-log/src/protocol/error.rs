//! What can go wrong: none of it can be repaired by the protocol.

use super::units::{Communicator, Request};
use crate::determinant::{Determinant, DeterminantId, Event, Rank};

/// Why a machine cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The event logger's answer is not a list without gaps.
    #[error(
        "the event logger returned determinant {found} where determinant {expected} belongs; this rank cannot be \
         replayed: end the job"
    )]
    Gap {
        /// The id that should have come.
        expected: DeterminantId,
        /// The id that came.
        found: DeterminantId,
    },
    /// The program does something else than before its failure.
    #[error(
        "the replay met a call of kind {call:?} where the recorded outcome is {recorded:?}; the program does not \
         depend on its messages alone and cannot be replayed: end the job"
    )]
    Diverged {
        /// The next recorded outcome of a call, if one is left.
        recorded: Option<Determinant>,
        /// The call that was made.
        call: Event,
    },
    /// A call or a completion names a receive that is not open.
    #[error("request {request} is not an open receive of this rank: the caller mixed up its requests")]
    UnknownRequest {
        /// The number that came.
        request: Request,
    },
    /// A collective operation on a communicator whose members were not told.
    #[error("the members of communicator {communicator} are not known: tell them when it is made")]
    UnknownCommunicator {
        /// The communicator.
        communicator: Communicator,
    },
    /// A call while another one has not returned, or an answer that nobody waits for.
    #[error("{what} came while this rank waits for something else: the caller mixed up its calls")]
    OutOfTurn {
        /// What came.
        what: &'static str,
    },
    /// A rank that is not in the job.
    #[error("rank {rank} is not one of the {ranks} ranks of this job")]
    UnknownRank {
        /// The rank that came.
        rank: Rank,
        /// How many there are.
        ranks: u32,
    },
    /// A replacement has started from an older checkpoint than the one that made messages garbage.
    #[error(
        "rank {rank} has started again from before a checkpoint that its peers were told of, and messages that it \
         lacks are gone: the files of its last checkpoints are damaged or lost; end the job"
    )]
    Collected {
        /// The rank.
        rank: Rank,
    },
    /// A death after protection has ended.
    #[error("a rank died after the message log had reached its limit and was dropped: it cannot be replaced")]
    Unprotected,
    /// A file is not a whole checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] super::checkpoint::Unreadable),
}
