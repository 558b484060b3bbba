//! A spare takes the place of a dead rank.

use std::time::Duration;

use event_log::determinant::Rank;
use event_log::logger::round::Position;
use event_log::protocol::action::Input;
use logger_client::Taken;
use openmpi_internals::sync::lock;

use super::Engine;
use crate::envelope::{Envelope, Kind};
use crate::world::Taking;
use virtual_ranks::packet::Packet;

impl Engine {
    /// Waits, as a spare, with a rest after each look. Returns whether it has become a rank: else the job is over.
    pub fn stand_by(&mut self, rest: Duration) -> bool {
        while self.rank.is_none() && !self.is_over {
            self.turn();
            if let Some((rank, spare)) = self.world.next_for(self.process).filter(|_| !self.is_unprotected) {
                self.replace(rank, spare);
            } else {
                std::thread::sleep(rest);
            }
        }
        self.rank.is_some()
    }

    /// Takes the place of a rank, as a process that was spawned for that, which knows these places. Returns whether it is
    /// the rank: else another process is.
    pub fn step_in(&mut self, rank: Rank, number: u32, taken: &[Taking], living: &[u32]) -> bool {
        self.world.take(taken);
        let spares = taken.iter().map(|(_, spare)| self.world.process_of(*spare));
        let all: Vec<u32> = (0..self.world.launched()).chain(spares).collect();
        for process in all.into_iter().filter(|process| !living.contains(process)) {
            self.world.note_death(process);
        }
        self.replace(rank, number);
        self.rank.is_some()
    }

    /// A process says that it takes the place of a rank, and who has the others.
    pub(super) fn hear_of_replacement(&mut self, process: u32, rank: Rank, taken: &[Taking]) {
        let before = (rank < self.world.ranks()).then(|| self.world.place(rank));
        match (self.world.take(taken), self.is_unprotected) {
            (false, _) if self.world.has_place(process) => return,
            // It comes too late: a later one was spawned without knowing of it.
            (false, _) => self.depose(process),
            (true, _) if Some(rank) == self.rank => std::process::exit(1),
            (true, false) => self.begin_epoch(),
            (true, true) => self.fail(&format!("rank {rank} is dead and is not replaced")),
        }
        if let Some(before) = before.filter(|before| before.is_alive && !self.world.has_place(before.process)) {
            self.depose(before.process);
        }
    }

    /// Tells a process that another one is its rank.
    fn depose(&mut self, process: u32) {
        let word = self.word(Kind::Deposed);
        self.carrier.send(process, Packet::Own(word));
    }

    /// Takes the place of a dead rank.
    fn replace(&mut self, rank: Rank, spare: u32) {
        let restored = match &self.store {
            Some(store) if self.copies.is_none() => store.last(rank),
            _ => self.recall(rank),
        };
        if self.is_over {
            return;
        }
        let mut taken = self.world.taken();
        taken.push((rank, spare));
        self.world.take(&taken);
        let after = restored.as_ref().map_or(Position::START, |(restored, _)| restored.part.position);
        let taken_over = lock(&self.logger).take(rank, spare, after);
        let Taken { determinants, output } = match taken_over {
            Ok(before) => before,
            Err(reason) if spare <= self.world.launched() - self.world.ranks() => {
                self.end_protection(&format!("the event loggers do not return what rank {rank} has seen ({reason})"));
                self.is_over = true;
                return;
            }
            // Another one is the rank, or the one that had this process spawned will say what is wrong.
            Err(_) => return,
        };
        self.start_from(rank, restored);
        self.rank = Some(rank);
        self.printed = self.printed.max(output);
        self.stable = determinants.last().map_or(after.id, |last| last.id);
        self.replay = Some((determinants.len(), usize::MAX));
        let list = postcard::to_stdvec(&taken).unwrap_or_default();
        self.tell_all(&Envelope::of(Kind::Take, rank, self.world.epoch()).encode(&list));
        self.begin_epoch();
        self.step(Input::Fetched(determinants));
        self.run();
        self.returned = None;
    }

    pub(super) fn note_deaths(&mut self) {
        for process in self.carrier.dead() {
            self.world.note_death(process);
        }
        self.is_short = self.world.is_short();
        self.look_for_lost();
    }

    /// Whether a rank is dead that nobody will replace.
    pub(super) fn look_for_lost(&mut self) {
        let Some(rank) = self.world.lost(self.is_unprotected) else { return };
        if self.rank.is_none() {
            self.is_over = true;
        } else if self.is_unprotected {
            self.fail(&format!("rank {rank} is dead and is not replaced"));
        } else {
            self.fail(&format!("rank {rank} is dead and no spare is left"));
        }
    }
}
