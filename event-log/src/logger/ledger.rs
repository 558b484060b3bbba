//! The determinants of all ranks as a server keeps them: commands in one order, each with an outcome.
//!
//! To recover is a command like others. It makes the server refuse what the earlier process of the rank saves after it:
//! a list that was read without that could grow behind the reader's back. Trimming is per rank: the order of commands
//! is common to all ranks, and no prefix of it is done with before all of them are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::determinant::{Determinant, DeterminantId, Rank};
use crate::logger::Holding;
use crate::logger::round::{Position, Round};

/// What a rank asks of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Command {
    /// The rank.
    pub rank: Rank,
    /// Which of its processes; the answer goes to it.
    pub writer: Round,
    /// What.
    pub what: What,
}

/// See [`Command`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum What {
    /// Keep these, whose ids are consecutive.
    Save(Vec<Determinant>),
    /// The rank has a new process, whose checkpoint ends here: what is after it?
    Recover(Position),
    /// Remove all up to this one.
    Trim(DeterminantId),
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Outcome {
    /// The rank.
    pub rank: Rank,
    /// Which of its processes.
    pub writer: Round,
    /// What became of it.
    pub result: Result,
}

/// See [`Outcome`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Result {
    /// All up to this one are stable.
    Saved(DeterminantId),
    /// These are after the checkpoint.
    Found {
        /// The checkpoint of the request.
        after: Position,
        /// The determinants.
        determinants: Vec<Determinant>,
    },
    /// There is a newer checkpoint, at least with this id.
    NewerCheckpoint(DeterminantId),
    /// All up to this one are removed.
    Trimmed(DeterminantId),
    /// The rank has a later process.
    Refused(Round),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct Account {
    writer: Round,
    trimmed: DeterminantId,
    kept: BTreeMap<DeterminantId, Determinant>,
}

/// The determinants of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ledger {
    accounts: BTreeMap<Rank, Account>,
}

impl Ledger {
    /// Carries out a command. Once more, it changes nothing.
    pub fn apply(&mut self, command: &Command) -> Outcome {
        let Command { rank, writer, ref what } = *command;
        let account = self.accounts.entry(rank).or_default();
        let result =
            if writer < account.writer { Result::Refused(account.writer) } else { account.apply(writer, what) };
        Outcome { rank, writer, result }
    }

    /// What is here of each rank.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.accounts.iter().map(|(&rank, account)| Holding {
            rank,
            writer: account.writer,
            trimmed: account.trimmed,
            last: account.last(),
            count: account.kept.len(),
        })
    }
}

impl Account {
    fn apply(&mut self, writer: Round, what: &What) -> Result {
        self.writer = writer;
        match what {
            What::Save(determinants) => {
                for determinant in determinants {
                    if determinant.id == self.last() + 1 {
                        self.kept.insert(determinant.id, *determinant);
                    }
                }
                Result::Saved(self.last())
            }
            What::Recover(after) if self.trimmed > after.id => Result::NewerCheckpoint(self.trimmed),
            What::Recover(after) => Result::Found {
                after: *after,
                determinants: self.kept.range(after.id + 1..).map(|(_, one)| *one).collect(),
            },
            What::Trim(up_to) => {
                self.trimmed = self.trimmed.max(*up_to);
                self.kept = self.kept.split_off(&(self.trimmed + 1));
                Result::Trimmed(self.trimmed)
            }
        }
    }

    fn last(&self) -> DeterminantId {
        self.kept.keys().next_back().copied().unwrap_or(self.trimmed)
    }
}
