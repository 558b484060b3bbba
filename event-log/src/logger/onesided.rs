//! One-sided: determinants are written straight into the registered memory of acceptors. One round trip of the network,
//! and no code of an acceptor runs.
//!
//! It is parallel Paxos with access to memory for a promise (Mu, OSDI 2020; DARE, HPDC 2015). A writer has access to a
//! region from when the acceptor's process has opened it for the writer's round until it is opened for a higher one; a
//! write that completes was made with access. A process that takes a rank over has a quorum of regions opened for it:
//! now the earlier process can make nothing stable, and [`Action::Fenced`] says so. It reads these regions and writes
//! what it has found to a quorum, in its own round, before it returns it.
//!
//! Nobody trims: a slot is used again when its id is below the checkpoint by the capacity of the region. Therefore
//! choose the checkpoint after [`Action::Fenced`]. An earlier process that still wrote checkpoints could use slots
//! again that are needed for an older one.

mod access;
mod interface;
pub mod planes;
pub mod region;
pub mod slot;

use crate::determinant::{Determinant, DeterminantId, Rank};
use crate::logger::Action;
use crate::logger::entry::Entry;
use crate::logger::group::Group;
use crate::logger::history::history;
use crate::logger::message::Message;
use crate::logger::outstanding::Outstanding;
use crate::logger::promises::{Found, keep_highest};
use crate::logger::round::{Address, Position, Round};
use access::Access;
use planes::Planes;
use region::Operation;

/// The writer of a rank's regions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    rank: Rank,
    round: Round,
    group: Group,
    log: Outstanding,
    /// What is known of each region.
    regions: Vec<Access>,
    /// All up to this one are in a checkpoint: their slots may be used again.
    trimmed: DeterminantId,
    is_full: bool,
    is_replacement: bool,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Saving,
    /// It takes access; the checkpoint, once it is known; what was read.
    Opening(Option<Position>, Found<Entry>),
    /// It writes what it has found in its own round.
    Adopting(Vec<Determinant>),
    Deposed,
}

impl Writer {
    /// The process with which a rank starts: it has its regions opened, and may save after [`Action::Recovered`], which
    /// is empty.
    pub fn first(rank: Rank, me: Address, group: Group, out: &mut Vec<Action>) -> Self {
        let mut writer = Self::replacement(rank, me, group, &mut Vec::new());
        (writer.round, writer.is_replacement) = (Round::first(me), false);
        writer.phase = Phase::Opening(Some(Position::START), Found::new());
        writer.open(out);
        writer
    }

    /// A process that takes a rank over: [`recover`](crate::logger::Logger::recover) comes after [`Action::Fenced`].
    pub fn replacement(rank: Rank, me: Address, group: Group, out: &mut Vec<Action>) -> Self {
        let round = Round::first(me).above(me);
        let regions = vec![Access::None; group.len()];
        let log = Outstanding::new(Position::START, round);
        let phase = Phase::Opening(None, Found::new());
        let mut writer =
            Self { rank, round, group, log, regions, trimmed: 0, is_full: false, is_replacement: true, phase };
        writer.open(out);
        writer
    }

    /// The round in which it writes.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    fn open(&mut self, out: &mut Vec<Action>) {
        self.regions.fill(Access::None);
        (0..self.group.len()).for_each(|place| self.operate(place, Operation::Open { round: self.round }, out));
    }

    fn operate(&self, place: usize, operation: Operation, out: &mut Vec<Action>) {
        self.group.send(place, Message::Operation { rank: self.rank, operation }, out);
    }

    fn write(&self, place: usize, run: &[Entry], out: &mut Vec<Action>) {
        let (Access::Ready(planes, _), Some(last)) = (&self.regions[place], run.last()) else { return };
        let (round, up_to) = (self.round, last.determinant.id);
        self.operate(place, Operation::Write { round, up_to, pieces: planes.pieces(round, run) }, out);
    }

    fn is_writing(&self) -> bool {
        matches!(self.phase, Phase::Saving | Phase::Adopting(_))
    }

    /// The last id whose slots are free.
    fn limit(&self) -> DeterminantId {
        self.trimmed + self.regions.iter().filter_map(Access::capacity).min().unwrap_or(0)
    }

    fn send_unsent(&mut self, out: &mut Vec<Action>) {
        if !self.is_writing() {
            return;
        }
        let limit = self.limit();
        if let Some(run) = self.log.unsent(limit) {
            self.group.preferred().for_each(|place| self.write(place, &run, out));
        }
        if self.log.last() > limit && !self.is_full {
            self.is_full = true;
            out.push(Action::Full);
        }
    }

    fn is_fenced(&self) -> bool {
        self.regions.iter().filter(|access| **access != Access::None).count() >= self.group.quorum()
    }

    /// Begins to write what was read of a quorum.
    fn adopt(&mut self, out: &mut Vec<Action>) {
        let Phase::Opening(Some(after), found) = &self.phase else { return };
        if self.regions.iter().filter(|access| access.is_ready()).count() < self.group.quorum() {
            return;
        }
        let after = *after;
        self.trimmed = after.id;
        if let Some(id) = found.keys().next_back().filter(|id| **id > self.limit()) {
            return out.push(Action::NewerCheckpoint(id + after.id - self.limit()));
        }
        let found = history(after, found);
        let determinants = found.iter().map(|entry| entry.determinant).collect();
        self.log = Outstanding::of_found(after, found, self.round);
        self.phase = Phase::Adopting(determinants);
        let ready: Vec<bool> = self.regions.iter().map(Access::is_ready).collect();
        self.group.ask_last(|place| !ready[place]);
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

    fn opened(&mut self, place: usize, out: &mut Vec<Action>) {
        if self.regions[place] != Access::None {
            return;
        }
        let was_fenced = self.is_fenced();
        self.regions[place] = Access::Opened;
        if !was_fenced && self.is_fenced() {
            out.push(Action::Fenced);
        }
        self.operate(place, Operation::Read { round: self.round }, out);
    }

    fn read(&mut self, place: usize, slots: &[region::Bytes], out: &mut Vec<Action>) {
        if self.regions[place] != Access::Opened {
            return;
        }
        let (planes, entries) = Planes::read(slots);
        self.regions[place] = Access::Ready(planes, 0);
        if let Phase::Opening(_, found) = &mut self.phase {
            entries.into_iter().for_each(|(round, entry)| keep_highest(found, entry.determinant.id, round, entry));
            self.adopt(out);
        }
    }

    fn written(&mut self, place: usize, last: DeterminantId, out: &mut Vec<Action>) {
        let Access::Ready(_, written) = &mut self.regions[place] else { return };
        *written = last.max(*written);
        let reached: Vec<_> = self.regions.iter().map(Access::written).collect();
        if self.is_writing() && self.log.settle(self.group.reached(&reached)) {
            if self.phase == Phase::Saving {
                out.push(Action::Stable(self.log.stable().id));
            }
            self.send_unsent(out);
            self.finish(out);
        }
    }

    fn denied(&mut self, by: Round, out: &mut Vec<Action>) {
        match &mut self.phase {
            // It starts over, and its caller chooses the checkpoint again: others may have written one meanwhile.
            Phase::Opening(checkpoint, found) if by > self.round && self.is_replacement => {
                *checkpoint = None;
                found.clear();
                self.round = by.above(self.round.proposer);
                self.open(out);
            }
            Phase::Deposed => {}
            _ if by > self.round => {
                self.phase = Phase::Deposed;
                out.push(Action::Deposed(by));
            }
            _ => {}
        }
    }
}
