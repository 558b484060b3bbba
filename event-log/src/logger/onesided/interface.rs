//! The writer as a rank's end of a logger.

use crate::determinant::{Determinant, DeterminantId};
use crate::logger::message::Message;
use crate::logger::onesided::access::Access;
use crate::logger::onesided::region::{Completion, Operation};
use crate::logger::onesided::{Phase, Writer};
use crate::logger::round::{Address, Position};
use crate::logger::{Action, Logger, OutOfOrder};

impl Logger for Writer {
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
        if let Phase::Opening(checkpoint, _) = &mut self.phase {
            *checkpoint = Some(after);
            self.adopt(out);
        }
    }

    fn trim(&mut self, up_to: DeterminantId, out: &mut Vec<Action>) {
        self.trimmed = self.trimmed.max(up_to);
        self.is_full = false;
        self.send_unsent(out);
    }

    fn handle(&mut self, from: Address, message: Message, out: &mut Vec<Action>) {
        let Message::Completion { rank, completion } = message else { return };
        let Some(place) = self.group.place(from).filter(|_| rank == self.rank) else { return };
        match completion {
            Completion::Opened { round } if round == self.round => self.opened(place, out),
            Completion::Read { round, slots } if round == self.round => self.read(place, &slots, out),
            Completion::Written { round, up_to } if round == self.round => self.written(place, up_to, out),
            Completion::Denied { round, writer } if round == self.round => self.denied(writer, out),
            _ => {}
        }
    }

    fn retry(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Deposed {
            return;
        }
        let (round, run) = (self.round, self.log.run(self.limit()));
        let last = run.last().map_or(0, |entry| entry.determinant.id);
        let mut silent = vec![false; self.group.len()];
        for (place, access) in self.regions.iter().enumerate() {
            match access {
                Access::None => self.operate(place, Operation::Open { round }, out),
                Access::Opened => self.operate(place, Operation::Read { round }, out),
                Access::Ready(_, written) if self.is_writing() && *written < last => self.write(place, &run, out),
                Access::Ready(..) => continue,
            }
            silent[place] = true;
        }
        self.group.were_silent(|place| silent[place]);
    }
}
