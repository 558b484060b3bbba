//! Parallel Paxos: one sequence for each rank, whose only proposer is the rank itself. Two delays, 2f messages.
//!
//! An instance is a determinant's id. The first process of a rank has the lowest round, which nobody else may have: it
//! needs no promise. A process that takes the rank over prepares a higher round for all instances after its checkpoint,
//! at a quorum; the acceptors refuse the earlier process from then on. It gives what it finds its own round before it
//! returns it: what only f acceptors have could be missing in the next recovery.

mod acceptors;

pub use acceptors::Acceptors;

use crate::determinant::{Determinant, DeterminantId, Rank};
use crate::logger::acceptor::{Reply, Request};
use crate::logger::entry::Entry;
use crate::logger::group::Group;
use crate::logger::history::history;
use crate::logger::message::Message;
use crate::logger::outstanding::Outstanding;
use crate::logger::promises::{Next, Promises};
use crate::logger::round::{Address, Position, Round};
use crate::logger::{Action, Logger, OutOfOrder};

/// The proposer of a rank's sequence, which is its learner as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer {
    rank: Rank,
    round: Round,
    group: Group,
    log: Outstanding,
    /// The last entry that each acceptor has accepted in this round, with all before it that were not stable.
    accepted: Vec<DeterminantId>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Saving,
    /// It asks what was accepted.
    Preparing(Position, Promises<Entry>),
    /// It gives that its own round.
    Adopting(Vec<Determinant>),
    Deposed,
}

impl Proposer {
    /// The process with which a rank starts.
    #[must_use]
    pub fn first(rank: Rank, me: Address, group: Group) -> Self {
        let (round, accepted) = (Round::first(me), vec![0; group.len()]);
        Self { rank, round, group, log: Outstanding::new(Position::START, round), accepted, phase: Phase::Saving }
    }

    /// A process that takes a rank over: [`Logger::recover`] comes next.
    #[must_use]
    pub fn replacement(rank: Rank, me: Address, group: Group) -> Self {
        Self { round: Round::first(me).above(me), ..Self::first(rank, me, group) }
    }

    /// A process that takes a rank over in this round, which is its own and higher than that of every process before
    /// it: it never needs another one. [`Logger::recover`] comes next.
    #[must_use]
    pub fn in_round(rank: Rank, round: Round, group: Group) -> Self {
        Self { round, ..Self::first(rank, round.proposer, group) }
    }

    /// The round in which it proposes.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    fn ask(&self, place: usize, request: Request<Entry>, out: &mut Vec<Action>) {
        self.group.send(place, Message::Request { rank: self.rank, request }, out);
    }

    fn prepare(&self, place: usize, after: DeterminantId, out: &mut Vec<Action>) {
        self.ask(place, Request::Prepare { round: self.round, after }, out);
    }

    fn accept(&self, place: usize, run: &[Entry], out: &mut Vec<Action>) {
        let first = self.log.stable().id + 1;
        self.ask(place, Request::Accept { round: self.round, first, values: run.to_vec() }, out);
    }

    fn send_unsent(&mut self, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Saving | Phase::Adopting(_)) {
            return;
        }
        if let Some(run) = self.log.unsent(DeterminantId::MAX) {
            self.group.preferred().for_each(|place| self.accept(place, &run, out));
        }
    }

    fn adopt(&mut self, after: Position, found: Vec<Entry>, out: &mut Vec<Action>) {
        out.push(Action::Fenced);
        let determinants = found.iter().map(|entry| entry.determinant).collect();
        self.log = Outstanding::of_found(after, found, self.round);
        self.accepted.fill(after.id);
        self.phase = Phase::Adopting(determinants);
        self.send_unsent(out);
        self.finish(out);
    }

    /// Returns what was found when all of it is stable.
    fn finish(&mut self, out: &mut Vec<Action>) {
        if let (Phase::Adopting(found), true) = (&mut self.phase, self.log.is_empty()) {
            out.push(Action::Recovered(std::mem::take(found)));
            self.phase = Phase::Saving;
        }
    }

    fn accepted(&mut self, place: usize, last: DeterminantId, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Saving | Phase::Adopting(_)) {
            return;
        }
        self.accepted[place] = self.accepted[place].max(last);
        if self.log.settle(self.group.reached(&self.accepted)) {
            if self.phase == Phase::Saving {
                out.push(Action::Stable(self.log.stable().id));
            }
            self.send_unsent(out);
            self.finish(out);
        }
    }

    fn refused(&mut self, by: Round, out: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Preparing(after, _) => {
                let after = *after;
                self.round = by.above(self.round.proposer);
                self.recover(after, out);
            }
            Phase::Saving | Phase::Adopting(_) => {
                self.phase = Phase::Deposed;
                out.push(Action::Deposed(by));
            }
            Phase::Deposed => {}
        }
    }
}

impl Logger for Proposer {
    fn save(&mut self, determinant: Determinant) -> Result<(), OutOfOrder> {
        self.log.push(determinant)
    }

    fn flush(&mut self, out: &mut Vec<Action>) {
        self.log.flush();
        self.send_unsent(out);
    }

    fn stable(&self) -> Position {
        self.log.stable()
    }

    fn outstanding(&self) -> usize {
        self.log.len()
    }

    fn recover(&mut self, after: Position, out: &mut Vec<Action>) {
        self.phase = Phase::Preparing(after, Promises::new(after.id, self.group.len(), self.group.quorum()));
        (0..self.group.len()).for_each(|place| self.prepare(place, after.id, out));
    }

    fn trim(&mut self, up_to: DeterminantId, out: &mut Vec<Action>) {
        let round = self.round;
        (0..self.group.len()).for_each(|place| self.ask(place, Request::Trim { round, up_to }, out));
    }

    fn handle(&mut self, from: Address, message: Message, out: &mut Vec<Action>) {
        let Message::Reply { rank, reply } = message else { return };
        let Some(place) = self.group.place(from).filter(|_| rank == self.rank) else { return };
        match reply {
            Reply::Promise { round, after, trimmed, accepted, is_part } if round == self.round => {
                let Phase::Preparing(checkpoint, promises) = &mut self.phase else { return };
                let checkpoint = *checkpoint;
                if trimmed > checkpoint.id {
                    return out.push(Action::NewerCheckpoint(trimmed));
                }
                match promises.add(place, after, accepted, is_part) {
                    Next::Wait => {}
                    Next::Ask(after) => self.prepare(place, after, out),
                    Next::Complete(found) => self.adopt(checkpoint, history(checkpoint, &found), out),
                }
            }
            Reply::Accepted { round, last, .. } if round == self.round => self.accepted(place, last, out),
            Reply::Refused { round, promised } if round == self.round => self.refused(promised, out),
            _ => {}
        }
    }

    fn retry(&mut self, out: &mut Vec<Action>) {
        match &self.phase {
            Phase::Preparing(_, promises) => promises.open().for_each(|(place, after)| self.prepare(place, after, out)),
            Phase::Saving | Phase::Adopting(_) => {
                let run = self.log.run(DeterminantId::MAX);
                let Some(last) = run.last().map(|entry| entry.determinant.id) else { return };
                let accepted = &self.accepted;
                self.group.were_silent(|place| accepted[place] < last);
                let silent = (0..self.group.len()).filter(|place| self.accepted[*place] < last);
                silent.for_each(|place| self.accept(place, &run, out));
            }
            Phase::Deposed => {}
        }
    }
}
