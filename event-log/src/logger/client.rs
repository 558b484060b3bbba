//! A rank's end of a logger with a server: the centralised one, or the classic one, whose server is the coordinator.

use crate::determinant::{Determinant, DeterminantId, Rank};
use crate::logger::entry::Entry;
use crate::logger::ledger::{Command, Outcome, Result as Answer, What};
use crate::logger::message::Message;
use crate::logger::outstanding::Outstanding;
use crate::logger::round::{Address, Position, Round};
use crate::logger::{Action, Logger, OutOfOrder};

/// Asks one server, and the next one when it is silent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    rank: Rank,
    writer: Round,
    servers: Vec<Address>,
    log: Outstanding,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Saving,
    Recovering(Position),
    Deposed,
}

impl Client {
    /// The process with which a rank starts. The first server is asked first.
    #[must_use]
    pub fn first(rank: Rank, me: Address, servers: Vec<Address>) -> Self {
        let writer = Round::first(me);
        Self { rank, writer, servers, log: Outstanding::new(Position::START, writer), phase: Phase::Saving }
    }

    /// A process that takes a rank over: [`Logger::recover`] comes next.
    #[must_use]
    pub fn replacement(rank: Rank, me: Address, servers: Vec<Address>) -> Self {
        Self { writer: Round::first(me).above(me), ..Self::first(rank, me, servers) }
    }

    /// Which of the rank's processes it is.
    #[must_use]
    pub fn round(&self) -> Round {
        self.writer
    }

    fn command(&self, what: What, out: &mut Vec<Action>) {
        let message = Message::Command(Command { rank: self.rank, writer: self.writer, what });
        out.push(Action::Send { to: self.servers[0], message });
    }

    fn send(&self, run: &[Entry], out: &mut Vec<Action>) {
        self.command(What::Save(run.iter().map(|entry| entry.determinant).collect()), out);
    }

    fn send_unsent(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Saving {
            if let Some(run) = self.log.unsent(DeterminantId::MAX) {
                self.send(&run, out);
            }
        }
    }

    fn refused(&mut self, by: Round, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Recovering(after) if by > self.writer => {
                self.writer = by.above(self.writer.proposer);
                self.command(What::Recover(after), out);
            }
            Phase::Saving if by > self.writer => {
                self.phase = Phase::Deposed;
                out.push(Action::Deposed(by));
            }
            _ => {}
        }
    }
}

impl Logger for Client {
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
        self.phase = Phase::Recovering(after);
        self.command(What::Recover(after), out);
    }

    fn trim(&mut self, up_to: DeterminantId, out: &mut Vec<Action>) {
        self.command(What::Trim(up_to), out);
    }

    fn handle(&mut self, from: Address, message: Message, out: &mut Vec<Action>) {
        let Message::Outcome(Outcome { rank, writer, result }) = message else { return };
        if (rank, writer) != (self.rank, self.writer) {
            return;
        }
        // Whoever answers is asked first from now on.
        if let Some(place) = self.servers.iter().position(|server| *server == from) {
            self.servers.rotate_left(place);
        }
        match (result, self.phase) {
            (Answer::Saved(up_to), Phase::Saving) => {
                if self.log.settle(up_to) {
                    out.push(Action::Stable(self.log.stable().id));
                }
                self.send_unsent(out);
            }
            (Answer::Found { after, determinants }, Phase::Recovering(asked)) if after == asked => {
                self.phase = Phase::Saving;
                let last = determinants.last().map_or(after.id, |determinant| determinant.id);
                self.log = Outstanding::new(Position { id: last, origin: writer }, writer);
                out.extend([Action::Fenced, Action::Recovered(determinants)]);
            }
            (Answer::NewerCheckpoint(id), Phase::Recovering(_)) => out.push(Action::NewerCheckpoint(id)),
            (Answer::Refused(by), _) => self.refused(by, out),
            _ => {}
        }
    }

    fn retry(&mut self, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Recovering(after) => {
                self.servers.rotate_left(1);
                self.command(What::Recover(after), out);
            }
            Phase::Saving => {
                let run = self.log.run(DeterminantId::MAX);
                if !run.is_empty() {
                    self.servers.rotate_left(1);
                    self.send(&run, out);
                }
            }
            Phase::Deposed => {}
        }
    }
}
