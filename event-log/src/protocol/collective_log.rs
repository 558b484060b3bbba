//! What a rank put into collective operations and got out of them, for members that are behind.
//!
//! The operations of a communicator are numbered from 1 in the order in which each member calls them, which is the same
//! at all members. A member that finds, after a failure, that somebody has completed an operation that it has not,
//! cannot run it in MPI any more: it asks the others for what they keep under that number. An entry becomes garbage
//! when the checkpoints of all members lie behind it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::{Communicator, Payload};
use crate::determinant::Rank;

/// How many operations of each communicator are completed. One that is not in it has had none.
pub type Completed = BTreeMap<Communicator, u64>;

/// What a member serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// What it put in.
    Contribution(Payload),
    /// What it got out, which is every member's result.
    Result(Payload),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    contribution: Payload,
    /// Kept only where every member has the same.
    result: Option<Payload>,
}

impl Entry {
    fn cost(&self) -> u64 {
        let result = self.result.as_ref().map_or(0, |result| result.len());
        (size_of::<Self>() + self.contribution.len() + result) as u64
    }
}

/// The log of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveLog {
    members: BTreeMap<Communicator, Vec<Rank>>,
    entries: BTreeMap<(Communicator, u64), Entry>,
    completed: Completed,
    /// What each rank has behind its last checkpoint.
    stable: BTreeMap<Rank, Completed>,
    bytes: u64,
}

impl CollectiveLog {
    /// A communicator was made, of these ranks of the job's first communicator.
    pub fn add_communicator(&mut self, communicator: Communicator, members: Vec<Rank>) {
        self.members.insert(communicator, members);
    }

    /// Whether a communicator was told: without its members its operations would never become garbage.
    pub fn knows(&self, communicator: Communicator) -> bool {
        self.members.contains_key(&communicator)
    }

    /// Bytes of memory that the log takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many operations this rank has completed.
    pub fn completed(&self) -> &Completed {
        &self.completed
    }

    /// The program begins an operation. Returns its number.
    pub fn enter(&mut self, communicator: Communicator, contribution: Payload) -> u64 {
        let sequence = self.completed.get(&communicator).map_or(1, |completed| completed + 1);
        let entry = Entry { contribution, result: None };
        self.bytes += entry.cost();
        self.entries.insert((communicator, sequence), entry);
        sequence
    }

    /// The program has the result of an operation; `result` if it is the same at all members.
    pub fn complete(&mut self, communicator: Communicator, sequence: u64, result: Option<&Payload>) {
        self.completed.insert(communicator, sequence);
        if let (Some(entry), Some(result)) = (self.entries.get_mut(&(communicator, sequence)), result) {
            self.bytes += result.len() as u64;
            entry.result = Some(result.clone());
        }
    }

    /// What this rank has of an operation; `None` before it has begun it.
    pub fn share(&self, communicator: Communicator, sequence: u64) -> Option<Share> {
        let entry = self.entries.get(&(communicator, sequence))?;
        let contribution = || Share::Contribution(entry.contribution.clone());
        Some(entry.result.clone().map_or_else(contribution, Share::Result))
    }

    /// `rank` will not ask again for the operations that are behind its checkpoint.
    pub fn collect(&mut self, rank: Rank, stable: Completed) {
        self.stable.insert(rank, stable);
        let behind = |rank: &Rank, communicator: Communicator, sequence: u64| {
            let stable = self.stable.get(rank).and_then(|stable| stable.get(&communicator));
            stable.is_some_and(|&stable| sequence <= stable)
        };
        let members = &self.members;
        let is_garbage = |communicator: Communicator, sequence: u64| {
            let members = members.get(&communicator);
            members.is_some_and(|all| all.iter().all(|rank| behind(rank, communicator, sequence)))
        };
        self.entries.retain(|&(communicator, sequence), _| !is_garbage(communicator, sequence));
        self.bytes = self.entries.values().map(Entry::cost).sum();
    }

    /// Drops one operation, which nobody will ask for.
    pub fn forget(&mut self, communicator: Communicator, sequence: u64) {
        let cost = self.entries.remove(&(communicator, sequence)).map_or(0, |entry| entry.cost());
        self.bytes -= cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(byte: u8) -> Payload {
        vec![byte; 10].into()
    }

    fn log() -> CollectiveLog {
        let mut log = CollectiveLog::default();
        log.add_communicator(0, vec![0, 1]);
        log.add_communicator(1, vec![0, 2]);
        log
    }

    #[test]
    fn a_contribution_is_served_from_the_beginning_and_a_result_that_is_alike_once_it_is_there() {
        let mut log = log();
        assert_eq!(log.share(0, 1), None);
        assert_eq!((log.enter(0, payload(1)), log.enter(1, payload(2))), (1, 1));
        assert_eq!(log.share(0, 1), Some(Share::Contribution(payload(1))));
        log.complete(0, 1, Some(&payload(3)));
        log.complete(1, 1, None);
        assert_eq!(log.share(0, 1), Some(Share::Result(payload(3))));
        assert_eq!(log.share(1, 1), Some(Share::Contribution(payload(2))));
        assert_eq!(log.enter(0, payload(5)), 2);
    }

    #[test]
    fn an_entry_is_kept_until_the_checkpoints_of_all_its_members_lie_behind_it() {
        let mut log = log();
        for sequence in 1..=2 {
            assert_eq!(log.enter(0, payload(1)), sequence);
            log.complete(0, sequence, Some(&payload(1)));
        }
        log.enter(1, payload(2));
        let full = log.bytes();
        log.collect(0, Completed::from([(0, 2), (1, 1)]));
        assert_eq!(log.bytes(), full);
        log.collect(1, Completed::from([(0, 1)]));
        assert_eq!((log.share(0, 1), log.share(0, 2).is_some(), log.share(1, 1).is_some()), (None, true, true));
        assert!(log.bytes() < full);
        log.collect(2, Completed::from([(1, 1)]));
        assert_eq!(log.share(1, 1), None);
    }
}
