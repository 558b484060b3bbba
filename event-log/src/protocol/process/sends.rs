//! What leaves the rank: a message, or a part of a collective operation.

use super::super::action::Action;
use super::super::call::Outcome;
use super::super::error::Error;
use super::super::message::Message;
use super::super::sender_log::{Room, Sent};
use super::super::units::{Channel, Envelope, Payload};
use super::super::variant::{Rule, Variant};
use super::state::{Pending, Process};
use crate::determinant::{Event, Rank};

impl<V: Variant> Process<V> {
    /// Something is about to leave. Calls that saw nothing before it have had an effect: what leaves may tell of them.
    /// So their number is an outcome to be recorded (the thesis's `MPI_TEST_SEND`).
    pub(super) fn leave(&mut self, out: &mut Vec<Action>) -> Result<(), Error> {
        if self.polls > 0 && V::keeps(Rule::PollsAreRecordedBeforeSend) {
            let calls = self.polls + 1;
            if self.replay.block(Event::Send, calls)?.is_none() {
                let own = Envelope { source: self.config.rank, channel: Self::NO_CHANNEL };
                self.record(Event::Send, own, 0, calls, out);
            }
            self.polls = 0;
        }
        Ok(())
    }

    /// Whether `new` bytes more may be kept now.
    fn has_room(&mut self, new: u64, out: &mut Vec<Action>) -> bool {
        let (kept, limit) = (self.log_bytes(), self.config.limit);
        let room = limit.room(kept, new);
        match room {
            Room::Enough | Room::Low | Room::Wait => {
                if room > self.asked_at {
                    self.ask_for_room(out);
                }
                self.asked_at = if room == Room::Enough { room } else { room.max(self.asked_at) };
                room != Room::Wait
            }
            // What a peer lacks after a repair is nowhere but in the log.
            Room::Never if self.links.iter().any(|link| !link.is_open) => false,
            Room::Never => {
                self.is_protected = false;
                self.log.clear();
                out.push(Action::ProtectionEnded { bytes: kept.saturating_add(new), limit: limit.bytes });
                true
            }
        }
    }

    /// Asks the rank whose checkpoint makes the most room. Operations of all members become garbage by the checkpoints
    /// of all.
    fn ask_for_room(&self, out: &mut Vec<Action>) {
        let heaviest = self.log.heaviest().filter(|_| self.log.bytes() > self.collectives.bytes());
        let asked = self.ranks().filter(|&rank| heaviest.is_none_or(|heaviest| heaviest == rank));
        out.extend(asked.map(|rank| match rank {
            own if own == self.config.rank => Action::CheckpointWanted { by: own },
            to => Action::Tell { to, message: Message::PleaseCheckpoint },
        }));
    }

    /// S1 to S5. The pessimistic condition (S3) comes first: what is in the log has met it and may be sent again at any
    /// time.
    pub(super) fn advance_send(
        &mut self,
        to: Rank,
        channel: Channel,
        payload: Payload,
        mut number: Option<u64>,
        out: &mut Vec<Action>,
    ) {
        if self.must_wait(Sent::cost(payload.len()), out) {
            if !V::keeps(Rule::LoggedWhenStable) && number.is_none() {
                number = Some(self.keep(to, channel, &payload));
            }
            self.pending = Pending::Send { to, channel, payload, number };
            return;
        }
        let number = number.unwrap_or_else(|| self.keep(to, channel, &payload));
        if self.lacks(to, channel, number) {
            out.push(Action::Transmit { to, channel, number, payload });
        }
        self.finish(Outcome::Done, out);
    }

    /// Whether what is to leave has to wait: for determinants, or for room for `new` bytes.
    pub(super) fn must_wait(&mut self, new: u64, out: &mut Vec<Action>) -> bool {
        self.is_protected && (self.outstanding.holds_sends() || !self.has_room(new, out))
    }

    /// Counts a message and keeps it (S1, S2). Returns its number.
    fn keep(&mut self, to: Rank, channel: Channel, payload: &Payload) -> u64 {
        let number = self.counters.sent[to as usize].add(channel) - u64::from(!V::keeps(Rule::CountedThenStamped));
        if self.is_protected {
            self.log.add(to, Sent { channel, number, payload: payload.clone() });
        }
        number
    }

    /// Whether a message that is sent now goes to its receiver: the receiver may have it already (S4), or has not told
    /// yet what it has.
    fn lacks(&self, to: Rank, channel: Channel, number: u64) -> bool {
        let link = &self.links[to as usize];
        let is_silent = !V::keeps(Rule::OnlyReceivedIsSuppressed) && self.is_replaying();
        let may_pass = link.is_open || !V::keeps(Rule::ResentBeforeNew);
        may_pass && !is_silent && number > link.has.get(channel)
    }
}
