//! Where protection ends, and where the job does.

use std::ffi::c_int;

use openmpi_internals::error_class::ERR_PROC_FAILED;
use platform::say::say;

use super::Engine;
use crate::envelope::{Envelope, Kind};
use virtual_ranks::packet::Packet;

impl Engine {
    pub(super) fn check(&self) -> Result<(), c_int> {
        if self.has_failed { Err(ERR_PROC_FAILED) } else { Ok(()) }
    }

    /// The operations of this rank fail from now on.
    pub fn fail(&mut self, reason: &str) {
        if !self.has_failed {
            self.has_failed = true;
            let rank = self.rank.unwrap_or(0);
            say(&format!("ringwatch: {reason}: the operations of rank {rank} fail with MPI_ERR_PROC_FAILED"));
        }
    }

    /// From now on a death is an error of MPI. Everybody is told before anything else is sent: whoever has a message of
    /// this process that no replacement would send again knows that there must be none.
    pub(super) fn end_protection(&mut self, reason: &str) {
        if !self.is_unprotected {
            self.is_unprotected = true;
            say(&format!("ringwatch: message logging repairs no death from now on: {reason}"));
            self.tell_all(&self.word(Kind::Unprotected));
        }
    }

    /// The end, after a barrier of all ranks: waits until all ranks have passed it, and serves those that have not.
    pub fn leave(&mut self) {
        let Some(rank) = self.rank else { return };
        self.done[rank as usize] = true;
        let mut told = None;
        while !self.is_over && !self.has_failed {
            // A replacement has to be told again.
            if told != Some(self.world.epoch()) {
                told = Some(self.world.epoch());
                self.tell_all(&self.word(Kind::Done));
            }
            if self.done.iter().all(|is_done| *is_done) {
                break;
            }
            self.turn();
        }
        self.tell_all(&self.word(Kind::Leave));
        while !self.carrier.is_idle() {
            self.turn();
        }
        self.is_over = true;
    }

    pub(super) fn word(&self, kind: Kind) -> Vec<u8> {
        Envelope::of(kind, self.rank.unwrap_or(0), self.world.epoch()).encode(&[])
    }

    /// Sends to all processes that live.
    pub(super) fn tell_all(&mut self, message: &[u8]) {
        for process in self.world.alive().into_iter().filter(|process| *process != self.process) {
            self.carrier.send(process, Packet::Own(message.to_vec()));
        }
    }
}
