//! What ends a replica or the job.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use event_log::determinant::Rank;
use openmpi_internals::error_class::ERR_PROC_FAILED;
use platform::say::say;
use replication::call::Call;
use virtual_ranks::packet::Packet;

use super::Engine;
use crate::envelope::{Envelope, Kind};
use crate::files::entries;

/// Turns in which a replica that ends sees its last messages off.
const LAST_TURNS: u32 = 10_000;
/// How long a replica that does not print waits for the one that does to end the job, too.
const PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    pub(super) fn check(&self) -> Result<(), c_int> {
        self.failure.map_or(Ok(()), Err)
    }

    pub(super) fn say(&self, sentence: &str) {
        say(&format!("ringwatch: {sentence}"));
    }

    /// All replicas of a rank are dead: operations fail from now on.
    pub(super) fn lose(&mut self, rank: Rank) {
        if self.failure.replace(ERR_PROC_FAILED).is_none() {
            let own = self.me.rank;
            self.say(&format!(
                "all replicas of rank {rank} are dead: the operations of rank {own} fail with MPI_ERR_PROC_FAILED"
            ));
        }
    }

    /// What this replica knows is wrong: the others of its rank go on without it.
    pub(super) fn retire(&mut self) {
        let (rank, index) = (self.me.rank, self.me.index);
        self.say(&format!("replica {index} of rank {rank} ends, and the other replicas go on"));
        for _ in 0..LAST_TURNS {
            if self.carrier.is_idle() {
                break;
            }
            self.carrier.turn();
        }
        // SAFETY: a signal to this process: MPI has no way for one process to leave a job that goes on.
        unsafe { libc::raise(libc::SIGKILL) };
    }

    pub(super) fn end_job(&mut self, sentence: &str) {
        self.say(&format!("{sentence}: the job ends (hook_ringwatch_replicas_on_mismatch)"));
        // SAFETY: Open MPI's function: all processes of the job end.
        unsafe { (self.stock.abort)(self.everywhere, 1) };
    }

    /// The program prints nothing more.
    pub fn end_output(&mut self) {
        self.output.end(self.printing.is_lowest());
        self.print();
        let mut acts = Vec::new();
        self.printing.end(&mut acts);
        self.carry_out(acts);
    }

    /// The job is about to be ended by the program: what it has printed leaves first. The replica that prints ends the
    /// job, unless it does not come to that.
    pub fn before_abort(&mut self) {
        let began = Instant::now();
        while !self.printing.is_lowest() && began.elapsed() < PATIENCE {
            self.turn();
        }
        self.print();
        for _ in 0..LAST_TURNS {
            if self.printing.has_printed() {
                break;
            }
            self.turn();
        }
    }

    /// Whether this process has said that it needs nobody.
    pub(super) fn has_left(&self) -> bool {
        self.places.process(self.me).is_some_and(|process| self.done[process as usize])
    }

    /// The end, after a barrier of all ranks: waits until all is verified and printed, here and at all living
    /// processes.
    pub fn leave(&mut self) {
        self.see_off();
        entries::end(self.printing.living());
    }

    fn see_off(&mut self) {
        if self.call(Call::Finalize).is_err() {
            return;
        }
        while !self.printing.is_over() && self.failure.is_none() {
            self.turn();
        }
        if let Some(own) = self.places.process(self.me) {
            self.done[own as usize] = true;
        }
        let all: Vec<_> = self.places.degrees().all().filter(|replica| *replica != self.me).collect();
        for replica in all {
            self.send_to(replica, Packet::Own(Envelope::of(Kind::Done).bytes().to_vec()));
        }
        let all_done = |engine: &Self| engine.done.iter().zip(&engine.alive).all(|(done, alive)| *done || !alive);
        while !all_done(self) && self.failure.is_none() {
            self.turn();
        }
        while !self.carrier.is_idle() {
            self.turn();
        }
    }
}
