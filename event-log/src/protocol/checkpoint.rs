//! What a rank starts again from, as one file.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`], with the version of the format |
//! | 8 | length of the body, little endian |
//! | length | the body: a [`Checkpoint`] in postcard's format |
//! | 32 | BLAKE3 of all before |
//!
//! A file that is cut off at any byte, longer than it says or changed in any bit is refused. [`last_whole`] chooses
//! among what a crash has left: a checkpoint is written beside the one before, which goes when it is durable.

use serde::{Deserialize, Serialize};

use super::collective_log::CollectiveLog;
use super::counters::Counters;
use super::requests::{Probed, Requests};
use super::sender_log::SenderLog;
use super::units::Payload;
use crate::determinant::{DeterminantId, Rank};

/// The first bytes of a checkpoint.
pub const MAGIC: [u8; 8] = *b"rwckpt\x00\x01";
const HEAD: usize = MAGIC.len() + size_of::<u64>();

/// A rank between two calls of its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The rank.
    pub rank: Rank,
    /// Its number among this rank's checkpoints, from 1, over all lives of the rank.
    pub number: u64,
    /// The program's own state.
    pub state: Payload,
    /// The last determinant before it.
    pub last_determinant: DeterminantId,
    /// Messages each way.
    pub counters: Counters,
    /// Messages that peers may still ask for.
    pub log: SenderLog,
    /// Collective operations that members may still ask for.
    pub collectives: CollectiveLog,
    /// Receives that the program has started and not finished.
    pub(crate) requests: Requests,
    /// What the last probe has found, until the next receive starts.
    pub(crate) probed: Option<Probed>,
    /// Calls that saw nothing since the last recorded outcome of a call.
    pub(crate) polls: u64,
}

/// Why a file is not a checkpoint that a rank can start from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It does not begin like one.
    #[error("the file is not a checkpoint of this version of ringwatch")]
    Foreign,
    /// It ends too early or too late.
    #[error("the checkpoint has {found} bytes where {expected} belong: it was cut off while it was written")]
    Length {
        /// What the file has.
        found: u64,
        /// What its head says.
        expected: u64,
    },
    /// Its check sum is wrong, or its body is no checkpoint.
    #[error("the checkpoint is damaged: its contents do not match its check sum")]
    Damaged,
    /// It is another rank's, or of a job of another size.
    #[error("the checkpoint is of rank {rank} of {ranks}, not of this rank: the folder holds another job's files")]
    OtherRank {
        /// The rank in the file.
        rank: Rank,
        /// The ranks of its job.
        ranks: u32,
    },
}

impl Checkpoint {
    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("every checkpoint can be written to memory");
        let mut bytes = Vec::with_capacity(HEAD + body.len() + blake3::OUT_LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(blake3::hash(&bytes).as_bytes());
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Unreadable`] if it is not a whole checkpoint.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let found = bytes.len() as u64;
        let start = bytes.len().min(MAGIC.len());
        if bytes[..start] != MAGIC[..start] {
            return Err(Unreadable::Foreign);
        }
        let too_short = Unreadable::Length { found, expected: (HEAD + blake3::OUT_LEN) as u64 };
        let length = bytes.get(MAGIC.len()..HEAD).and_then(|length| length.try_into().ok()).ok_or(too_short)?;
        let expected = u64::from_le_bytes(length).saturating_add((HEAD + blake3::OUT_LEN) as u64);
        if found != expected {
            return Err(Unreadable::Length { found, expected });
        }
        let (checked, sum) = bytes.split_at(bytes.len() - blake3::OUT_LEN);
        if *blake3::hash(checked).as_bytes() != *sum {
            return Err(Unreadable::Damaged);
        }
        postcard::from_bytes(&checked[HEAD..]).map_err(|_| Unreadable::Damaged)
    }

    /// This checkpoint, if it is of that rank.
    ///
    /// # Errors
    /// [`Unreadable::OtherRank`] if it is not.
    pub fn of(self, rank: Rank, ranks: u32) -> Result<Self, Unreadable> {
        let found = Unreadable::OtherRank { rank: self.rank, ranks: self.counters.ranks() };
        if self.rank == rank && self.counters.ranks() == ranks { Ok(self) } else { Err(found) }
    }
}

/// The latest whole checkpoint among files of one rank; `None` if no file is one.
pub fn last_whole<'a>(files: impl IntoIterator<Item = &'a [u8]>) -> Option<Checkpoint> {
    let whole = files.into_iter().filter_map(|file| Checkpoint::decode(file).ok());
    whole.max_by_key(|checkpoint| checkpoint.number)
}

#[cfg(test)]
mod tests {
    use super::super::sender_log::Sent;
    use super::super::units::Channel;
    use super::*;

    fn checkpoint(number: u64) -> Checkpoint {
        let mut log = SenderLog::new(2);
        let channel = Channel { communicator: 0, tag: -3 };
        log.add(1, Sent { channel, number: 1, payload: vec![7; 20].into() });
        let mut counters = Counters::new(2);
        counters.sent[1].add(channel);
        let (collectives, requests) = (CollectiveLog::default(), Requests::default());
        let state = vec![1, 2, 3].into();
        Checkpoint {
            rank: 1,
            number,
            state,
            last_determinant: 9,
            counters,
            log,
            collectives,
            requests,
            probed: None,
            polls: 2,
        }
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let written = checkpoint(4);
        assert_eq!(Checkpoint::decode(&written.encode()).unwrap(), written);
        assert_eq!(Checkpoint::decode(b"ELF and so on ...."), Err(Unreadable::Foreign));
        assert_eq!(written.clone().of(0, 2), Err(Unreadable::OtherRank { rank: 1, ranks: 2 }));
        assert_eq!(written.clone().of(1, 2).unwrap(), written);
    }

    #[test]
    fn one_that_is_cut_off_at_any_byte_is_refused_and_the_one_before_counts() {
        let (old, new) = (checkpoint(4).encode(), checkpoint(5).encode());
        for length in 0..new.len() {
            assert!(matches!(Checkpoint::decode(&new[..length]), Err(Unreadable::Length { .. })), "at {length}");
            assert_eq!(last_whole([&new[..length], &old]).unwrap().number, 4);
        }
        assert_eq!(last_whole([&old[..], &new]).unwrap().number, 5);
        assert_eq!(last_whole([&new[..10]]), None);
    }

    #[test]
    fn one_with_any_changed_bit_or_more_bytes_is_refused() {
        let whole = checkpoint(4).encode();
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Checkpoint::decode(&changed).is_err(), "bit {bit}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(matches!(Checkpoint::decode(&longer), Err(Unreadable::Length { .. })));
    }
}
