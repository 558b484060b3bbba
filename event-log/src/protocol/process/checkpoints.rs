//! Checkpoints (K1 to K4) and garbage collection (G1, G2).

use super::super::action::Action;
use super::super::call::{Outcome, Refusal};
use super::super::checkpoint::Checkpoint;
use super::super::error::Error;
use super::super::message::Message;
use super::super::sender_log::SenderLog;
use super::super::units::Payload;
use super::super::variant::{Rule, Variant};
use super::state::{Pending, Process, Stable};

impl<V: Variant> Process<V> {
    /// The program wants a checkpoint. While replaying it is refused (X7): determinants that are to be repeated after
    /// it would lie behind the last one that it names.
    pub(super) fn checkpoint(&mut self, out: &mut Vec<Action>) {
        let is_early = !self.replay.is_over() && V::keeps(Rule::NoCheckpointInReplay);
        let refusals = [
            (is_early, Refusal::Replaying),
            (self.writing.is_some(), Refusal::Writing),
            (!self.is_protected, Refusal::Unprotected),
        ];
        match refusals.into_iter().find(|(applies, _)| *applies) {
            Some((_, refusal)) => self.finish(Outcome::CheckpointRefused(refusal), out),
            None => self.pending = Pending::Checkpoint,
        }
    }

    /// Asks for the program's state when all determinants are stable (K1).
    pub(super) fn advance_checkpoint(&mut self, out: &mut Vec<Action>) {
        let is_ready = self.outstanding.is_empty();
        self.pending = if is_ready { Pending::Capture } else { Pending::Checkpoint };
        out.extend(is_ready.then_some(Action::Capture));
    }

    /// Takes the checkpoint (K2).
    pub(super) fn captured(&mut self, state: Payload, out: &mut Vec<Action>) -> Result<(), Error> {
        if self.pending != Pending::Capture {
            return Err(Error::OutOfTurn { what: "the program's state" });
        }
        let whole = V::keeps(Rule::LogIsInCheckpoint);
        let number = self.checkpoints + 1;
        let checkpoint = Checkpoint {
            rank: self.config.rank,
            number,
            state,
            last_determinant: self.outstanding.last(),
            counters: self.counters.clone(),
            log: if whole { self.log.clone() } else { SenderLog::new(self.config.ranks) },
            collectives: self.collectives.clone(),
            requests: self.requests.clone(),
            probed: self.probed,
            polls: self.polls,
        };
        self.checkpoints = number;
        self.writing = Some(Stable::of(&checkpoint));
        out.push(Action::Store { checkpoint: number, bytes: checkpoint.encode() });
        self.finish(Outcome::CheckpointTaken(number), out);
        Ok(())
    }

    /// A checkpoint is durable: only now do the determinants before it go (K3, K4).
    pub(super) fn durable(&mut self, checkpoint: u64, out: &mut Vec<Action>) {
        let Some(stable) = self.writing.take_if(|writing| writing.checkpoint == checkpoint) else { return };
        out.push(Action::Trim { up_to: stable.last_determinant });
        self.collectives.collect(self.config.rank, stable.completed.clone());
        if !V::keeps(Rule::EntriesWaitForAllMembers) {
            self.ranks().for_each(|rank| self.collectives.collect(rank, stable.completed.clone()));
        }
        self.stable = Some(stable);
    }

    /// A checkpoint is not there, and never will be.
    pub(super) fn not_stored(&mut self, checkpoint: u64) {
        self.writing.take_if(|writing| writing.checkpoint == checkpoint);
    }

    /// Tells every peer what it need not keep for this rank (G1).
    pub(super) fn collect_garbage(&mut self, out: &mut Vec<Action>) {
        if let Some(stable) = &self.stable {
            self.log.collect(self.config.rank, &stable.received[self.config.rank as usize]);
            let tell = |to: u32| {
                let received = stable.received[to as usize].clone();
                Action::Tell { to, message: Message::Garbage { received, completed: stable.completed.clone() } }
            };
            out.extend(self.peers().map(tell));
        }
        self.finish(Outcome::Done, out);
    }
}

impl Stable {
    /// What peers need not keep once this checkpoint is durable.
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            checkpoint: checkpoint.number,
            last_determinant: checkpoint.last_determinant,
            received: checkpoint.counters.received.clone(),
            completed: checkpoint.collectives.completed().clone(),
        }
    }
}
