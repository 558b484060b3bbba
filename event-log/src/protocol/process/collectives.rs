//! Operations of all members: run in MPI, or, where somebody has completed one already, made of what members keep.
//!
//! Whether an operation is run or served must be the same at all members. It follows from what everybody told everybody
//! after the last repair: an operation that some rank had completed then is served, every later one runs in MPI. MPI
//! does not end a collective operation everywhere or nowhere; this rule does not need it to.

use std::collections::BTreeMap;

use super::super::action::Action;
use super::super::call::{Gathered, Outcome};
use super::super::error::Error;
use super::super::message::Message;
use super::super::units::{Communicator, Payload};
use super::super::variant::{Rule, Variant};
use super::state::{Operation, Pending, Process, Stage};
use crate::determinant::Rank;

impl<V: Variant> Process<V> {
    /// The last operation of a communicator that some rank had completed at the last repair; `None` until all have
    /// told.
    fn served_up_to(&self, communicator: Communicator) -> Option<u64> {
        let told = self.completed.iter().map(|completed| {
            let completed = completed.as_ref()?;
            Some(completed.get(&communicator).copied().unwrap_or(0))
        });
        told.collect::<Option<Vec<u64>>>().map(|all| all.into_iter().max().unwrap_or(0))
    }

    pub(super) fn advance_collective(&mut self, mut operation: Operation, out: &mut Vec<Action>) {
        let communicator = operation.communicator;
        if operation.stage == Stage::Held {
            let cost = operation.contribution.len() as u64;
            if self.must_wait(cost, out) {
                self.pending = Pending::Collective(operation);
                return;
            }
            let sequence = self.collectives.enter(communicator, operation.contribution.clone());
            operation.stage = Stage::Undecided { sequence };
            for rank in self.wishes.remove(&(communicator, sequence)).into_iter().flatten() {
                self.give(rank, communicator, sequence, out);
            }
        }
        if let Stage::Undecided { sequence } = operation.stage {
            if let Some(served_up_to) = self.served_up_to(communicator) {
                let is_served = sequence <= served_up_to && V::keeps(Rule::CompletedIsServed);
                operation.stage = if is_served {
                    self.ask(&operation, sequence, out)
                } else {
                    let contribution = operation.contribution.clone();
                    out.push(Action::Enter { communicator, sequence, contribution });
                    Stage::Running { sequence }
                };
            }
        }
        match operation.stage {
            Stage::Asking { sequence, have } if operation.needs.iter().all(|rank| have.contains_key(rank)) => {
                self.collectives.complete(communicator, sequence, None);
                self.finish(Outcome::Collective(Gathered::Contributions(have)), out);
            }
            stage => self.pending = Pending::Collective(Operation { stage, ..operation }),
        }
    }

    fn ask(&self, operation: &Operation, sequence: u64, out: &mut Vec<Action>) -> Stage {
        let (communicator, own) = (operation.communicator, self.config.rank);
        let message = Message::Want { communicator, sequence };
        let others = operation.needs.iter().filter(|&&rank| rank != own);
        out.extend(others.map(|&to| Action::Tell { to, message: message.clone() }));
        let have = BTreeMap::from([(own, operation.contribution.clone())]);
        Stage::Asking { sequence, have }
    }

    /// MPI has completed the operation that runs.
    pub(super) fn collective_done(&mut self, result: Payload, out: &mut Vec<Action>) -> Result<(), Error> {
        let Pending::Collective(Operation { communicator, alike, stage: Stage::Running { sequence }, .. }) =
            self.pending
        else {
            return Err(Error::OutOfTurn { what: "the result of a collective operation" });
        };
        self.collectives.complete(communicator, sequence, alike.then_some(&result));
        if !self.is_protected {
            // Nobody can be behind an operation that ran, but after a death, and that cannot be repaired.
            self.collectives.forget(communicator, sequence);
        }
        self.finish(Outcome::Collective(Gathered::Result(result)), out);
        Ok(())
    }

    /// A member asks: it is answered now, or when this rank begins that operation.
    pub(super) fn wanted(&mut self, from: Rank, communicator: Communicator, sequence: u64, out: &mut Vec<Action>) {
        if !self.give(from, communicator, sequence, out) {
            self.wishes.entry((communicator, sequence)).or_default().insert(from);
        }
    }

    fn give(&self, to: Rank, communicator: Communicator, sequence: u64, out: &mut Vec<Action>) -> bool {
        let share = self.collectives.share(communicator, sequence);
        let give = share.map(|share| Action::Tell { to, message: Message::Give { communicator, sequence, share } });
        let is_given = give.is_some();
        out.extend(give);
        is_given
    }

    /// A member has answered. An answer to an operation that is complete by others' answers says nothing new.
    pub(super) fn given(
        &mut self,
        from: Rank,
        communicator: Communicator,
        sequence: u64,
        (bytes, is_result): (Payload, bool),
        out: &mut Vec<Action>,
    ) {
        let Pending::Collective(operation) = &mut self.pending else { return };
        let Stage::Asking { sequence: asked, have } = &mut operation.stage else { return };
        if (operation.communicator, *asked) != (communicator, sequence) {
            return;
        }
        if is_result {
            self.collectives.complete(communicator, sequence, Some(&bytes));
            self.finish(Outcome::Collective(Gathered::Result(bytes)), out);
        } else {
            have.insert(from, bytes);
        }
    }
}
