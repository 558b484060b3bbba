//! Checkpoints in the memory of partners ([`Copies`]): pieces are sent and heard, a save waits for its partner, and a
//! replacement asks for what there is.

use std::ffi::c_int;
use std::sync::Arc;

use checkpoints::whole::Whole;
use event_log::determinant::Rank;
use event_log::protocol::checkpoint::Checkpoint;
use openmpi_internals::error_class::{ERR_INTERN, ERR_NO_SPACE};
use platform::say::say;

use super::Engine;
use crate::copies::{Copies, Progress, Version};
use crate::envelope::{Envelope, Kind};
use crate::store::{self, Restored};
use virtual_ranks::packet::Packet;

/// A checkpoint has room if it takes at most one of so many parts of what the node has left.
const PARTS: u64 = 2;

/// Bytes that a new checkpoint may have in the memory of this node.
pub fn room() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    // Without the figure nothing is refused.
    kib.map_or(u64::MAX, |kib| (kib << 10) / PARTS)
}

impl Engine {
    /// Checkpoints are in the memory of partners.
    pub fn copy_with(&mut self, copies: Copies) {
        self.copies = Some(copies);
    }

    /// Sends the next piece when everything before it has left.
    pub(super) fn send_piece(&mut self) {
        let Some(copies) = self.copies.as_mut().filter(|copies| copies.is_sending()) else { return };
        if !self.carrier.is_idle() {
            return;
        }
        let (rank, epoch) = (self.rank.unwrap_or(0), self.world.epoch());
        if let Some((process, message)) = copies.next(|kind| Envelope::of(kind, rank, epoch).encode(&[])) {
            self.carrier.send(process, Packet::Own(message));
        }
    }

    /// A message about a checkpoint. What it says holds in any epoch.
    pub(super) fn hear_of_copy(&mut self, process: u32, envelope: Envelope, bytes: &[u8]) {
        let source = envelope.source;
        let Some(copies) = self.copies.as_mut().filter(|_| source < self.world.ranks()) else { return };
        let is_from_rank = self.world.place(source).process == process;
        match envelope.kind {
            // Another process may be that rank by now.
            Kind::Copy if is_from_rank => {
                if let Some(copied) = copies.hear_copy(source, process, bytes, room()) {
                    let answer = postcard::to_stdvec(&copied).unwrap_or_default();
                    let envelope = Envelope::of(Kind::Copied, self.rank.unwrap_or(0), self.world.epoch());
                    self.carrier.send(process, Packet::Own(envelope.encode(&answer)));
                }
            }
            Kind::Copied if is_from_rank => copies.hear_copied(bytes),
            Kind::Recall => copies.give_back(source, process),
            Kind::Returned if is_from_rank => copies.hear_returned(bytes),
            _ => {}
        }
    }

    /// The partner of this rank gets a checkpoint. Returns when it has it: after its replacement, if it dies.
    ///
    /// # Errors
    /// `MPI_ERR_NO_SPACE` if there is no room for it; `MPIX_ERR_PROC_FAILED` if a rank is dead that nobody replaces.
    pub fn save_with_partner(&mut self, number: u32, bytes: Vec<u8>) -> Result<(), c_int> {
        let (Some(copies), Some(rank)) = (&mut self.copies, self.rank) else { return Err(ERR_INTERN) };
        let partner = copies.partner_of(rank);
        copies.keep(Version { number, bytes: Arc::new(bytes) }, self.world.place(partner).process);
        loop {
            match self.copies.as_mut().map(|copies| copies.progress(number)) {
                Some(Progress::Kept) => return Ok(()),
                Some(Progress::Refused) | None => return Err(ERR_NO_SPACE),
                // Nobody would start from it.
                Some(Progress::Underway) if self.is_unprotected => return Ok(()),
                Some(Progress::Underway) => {}
            }
            self.turn();
            self.check()?;
        }
    }

    /// The last checkpoint of a rank whose place this process takes, from the memory of its partner.
    pub(super) fn recall(&mut self, rank: Rank) -> Option<(Restored, Checkpoint)> {
        let job = self.store.as_ref()?.job();
        let copies = self.copies.as_mut()?;
        let partner = copies.partner_of(rank);
        let place = self.world.place(partner);
        let is_lost = || {
            say(&format!(
                "ringwatch: the copies of rank {rank}'s checkpoints were in the memory of rank {partner}, which is dead"
            ));
            None
        };
        if !place.is_alive {
            return is_lost();
        }
        copies.begin_recall(place.process);
        let envelope = Envelope::of(Kind::Recall, rank, self.world.epoch());
        self.carrier.send(place.process, Packet::Own(envelope.encode(&[])));
        loop {
            if let Some(versions) = self.copies.as_ref()?.returned() {
                let whole = versions.iter().rev().filter_map(|version| Whole::decode(version.bytes.clone()).ok());
                return whole.filter(|whole| whole.head.job == job).find_map(store::restored);
            }
            if self.is_over {
                return None;
            }
            if self.world.place(partner) != place {
                return is_lost();
            }
            self.turn();
        }
    }
}
