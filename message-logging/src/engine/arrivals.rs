//! What other processes and the event logger say.

use event_log::protocol::action::Input;
use event_log::protocol::message::Message as Word;
use event_log::protocol::process::Process;
use event_log::protocol::units::{Channel, Envelope as From};
use openmpi_internals::sync::lock;

use super::Engine;
use crate::envelope::{self, Envelope, Kind};
use crate::matching::Message;
use crate::world::Taking;
use virtual_ranks::packet::Packet;

/// In how many parts it is told how far a replay is.
const REPLAY_PARTS: usize = 64;
/// The size of the sender log is told when it has changed by one of so many parts: a few hundred times in a gigabyte.
const LOG_PARTS: u64 = 16;

impl Engine {
    /// Looks for what has arrived, who has died, and what is stable.
    pub fn turn(&mut self) {
        self.sends = 0;
        let (messages, somebody_died) = self.carrier.turn();
        for (process, bytes) in messages {
            self.packet(process, bytes);
        }
        if somebody_died {
            self.note_deaths();
        }
        if self.is_short {
            self.fill_vacancy();
        }
        self.send_piece();
        self.note_stable();
        self.tell_replay();
        self.tell_kept();
        self.run();
    }

    /// Tells how far the replay is, whenever a part of it is done.
    fn tell_replay(&mut self) {
        let Some((all, told)) = self.replay else { return };
        let left = match told {
            usize::MAX => all,
            _ => self.machine.as_ref().map_or(0, Process::left_to_replay),
        };
        if left == 0 || told - left > all / REPLAY_PARTS {
            lock(&self.logger).tell_to_repeat(left);
            self.replay = (left > 0).then_some((all, left));
        }
    }

    /// Tells how much the sender log takes, for those who ask the node.
    fn tell_kept(&mut self) {
        let Some(kept) = self.machine.as_ref().map(Process::log_bytes) else { return };
        if kept.abs_diff(self.told_kept) > self.told_kept / LOG_PARTS {
            lock(&self.logger).tell_keeps(kept, self.limit.bytes);
            self.told_kept = kept;
        }
    }

    fn note_stable(&mut self) {
        let mut logger = lock(&self.logger);
        if logger.last() == self.stable {
            return;
        }
        // Nobody is going to ask for what is not stable.
        let stable = if self.is_unprotected { logger.last() } else { logger.stable() };
        drop(logger);
        if stable > self.stable {
            self.stable = stable;
            self.step(Input::Stable { up_to: stable });
        }
    }

    /// Waits a moment for the event logger, and looks after everything else if that has said nothing.
    pub(super) fn rest(&mut self) {
        if !self.is_unprotected {
            lock(&self.logger).rest();
        }
        let before = self.stable;
        self.note_stable();
        self.run();
        if self.stable == before {
            self.turn();
        }
    }

    /// Hands determinants over while the program computes, so that its next send need not wait for all of their way.
    pub(super) fn flush_early(&mut self) {
        if lock(&self.logger).is_ready() {
            self.flush();
        }
    }

    /// Hands determinants over before something waits for them.
    pub(super) fn flush(&mut self) {
        let flushed = lock(&self.logger).flush();
        match flushed {
            Ok(()) => {}
            // Another process is this rank: this one was declared dead, and is one too many.
            Err(logger_client::Error::Deposed) => std::process::exit(1),
            Err(error) => self.end_protection(&format!(
                "the event loggers cannot keep what rank {} has seen: {error}",
                self.rank.unwrap_or(0)
            )),
        }
    }

    fn packet(&mut self, process: u32, bytes: Vec<u8>) {
        let Some(envelope) = Envelope::decode(&bytes) else { return };
        match envelope.kind {
            Kind::Take => {
                let taken: Vec<Taking> = postcard::from_bytes(&bytes[envelope::LENGTH..]).unwrap_or_default();
                self.hear_of_replacement(process, envelope.source, &taken);
            }
            Kind::Done => {
                if let Some(done) = self.done.get_mut(envelope.source as usize) {
                    *done = true;
                }
            }
            Kind::Leave => self.is_over = true,
            Kind::Unprotected => {
                self.is_unprotected = true;
                self.look_for_lost();
            }
            Kind::Copy | Kind::Copied | Kind::Recall | Kind::Returned => {
                self.hear_of_copy(process, envelope, &bytes[envelope::LENGTH..]);
            }
            // It is one too many.
            Kind::Deposed => std::process::exit(1),
            Kind::Data | Kind::Protocol | Kind::Resent => self.message(process, envelope, bytes),
        }
    }

    fn message(&mut self, process: u32, envelope: Envelope, bytes: Vec<u8>) {
        let is_rank = envelope.source < self.world.ranks() && self.rank.is_some();
        if !is_rank || envelope.epoch < self.world.epoch() {
            return;
        }
        if envelope.epoch > self.world.epoch() {
            return self.early.push((process, bytes));
        }
        if self.world.place(envelope.source).process != process {
            return;
        }
        if envelope.kind == Kind::Resent {
            return self.hear_resent(&bytes[envelope::LENGTH..]);
        }
        if envelope.kind == Kind::Data {
            let Envelope { source, communicator, tag, .. } = envelope;
            let envelope = From { source, channel: Channel { communicator, tag } };
            self.arrive(Message { envelope, packet: Packet::Own(bytes) });
        } else if let Ok(message) = postcard::from_bytes(&bytes[envelope::LENGTH..]) {
            let tells_counters = matches!(message, Word::Counters { .. });
            self.step(Input::Peer { from: envelope.source, message });
            if tells_counters {
                self.tell_resent(envelope.source);
            }
        }
        self.run();
    }

    /// A spare has taken a place, here or elsewhere.
    pub(super) fn begin_epoch(&mut self) {
        self.is_short = self.world.is_short();
        self.matching.lose();
        self.looking = None;
        if let (Some(copies), Some(rank)) = (&mut self.copies, self.rank) {
            copies.settle(rank, |rank| self.world.place(rank).process);
        }
        self.resent.begin();
        self.step(Input::Repaired);
        self.run();
        for (process, bytes) in std::mem::take(&mut self.early) {
            self.packet(process, bytes);
        }
    }
}
