//! After a repair: everybody tells everybody what it has received, and sends again what the other lacks (F1 to F5).
//!
//! Survivors and replacements do the same. Repairs may overlap: a new one begins before all have told for the last one,
//! and what a peer told before it holds no longer, because the peer may be a replacement now.

use super::super::action::Action;
use super::super::collective_log::Completed;
use super::super::counters::Counts;
use super::super::error::Error;
use super::super::message::Message;
use super::super::sender_log::Room;
use super::super::variant::{Rule, Variant};
use super::state::{Link, Pending, Process, Stage};
use crate::determinant::Rank;

impl<V: Variant> Process<V> {
    /// The communicators are repaired. All in flight is lost, between survivors too: so all pairs exchange counters
    /// (F3, F4), and receives that are open are posted again (F5).
    pub(super) fn repaired(&mut self, out: &mut Vec<Action>) -> Result<(), Error> {
        if !self.is_protected {
            return Err(Error::Unprotected);
        }
        self.asked_at = Room::Enough;
        self.wishes.clear();
        self.links.iter_mut().for_each(|link| link.is_open = false);
        self.completed.fill(None);
        for to in self.peers() {
            let received = self.counters.received[to as usize].clone();
            let completed = self.collectives.completed().clone();
            out.push(Action::Tell { to, message: Message::Counters { received, completed } });
        }
        if !self.is_fetching {
            self.post_again(out);
        }
        self.call_again(out);
        let own = self.counters.received[self.config.rank as usize].clone();
        self.counters_from(self.config.rank, own, self.collectives.completed().clone(), out)
    }

    pub(super) fn post_again(&mut self, out: &mut Vec<Action>) {
        let lost = self.requests.lose();
        if V::keeps(Rule::OpenReceivesArePostedAgain) {
            let posted = lost.iter().filter(|open| open.is_posted);
            out.extend(posted.map(|open| Action::Post { request: open.request, pattern: open.pattern }));
        }
    }

    /// What MPI was asked for by the program's call has ended without an answer.
    fn call_again(&mut self, out: &mut Vec<Action>) {
        match &mut self.pending {
            Pending::Probe { pattern, seen, .. } => {
                *seen = None;
                out.push(Action::Look { pattern: *pattern, wait: true });
            }
            Pending::Iprobe { pattern } => out.push(Action::Look { pattern: *pattern, wait: false }),
            Pending::Cancel { request } => out.push(Action::Withdraw { request: *request }),
            Pending::Collective(operation) => match operation.stage {
                Stage::Held => {}
                Stage::Undecided { sequence } | Stage::Running { sequence } | Stage::Asking { sequence, .. } => {
                    operation.stage = Stage::Undecided { sequence };
                }
            },
            _ => {}
        }
    }

    /// A peer has told what it has received (X4, X5, X5c): what it lacks is sent again, at a replacement from the
    /// restored log too (X5b), and only then anything new.
    ///
    /// # Errors
    /// [`Error::Collected`] if it lacks what its checkpoint has made garbage.
    pub(super) fn counters_from(
        &mut self,
        peer: Rank,
        received: Counts,
        completed: Completed,
        out: &mut Vec<Action>,
    ) -> Result<(), Error> {
        if self.log.has_dropped_of(peer, &received) {
            return Err(Error::Collected { rank: peer });
        }
        self.completed[peer as usize] = Some(completed);
        let link = &mut self.links[peer as usize];
        if V::keeps(Rule::NewestCountersHold) || self.replay.is_over() {
            link.has = received;
        } else {
            link.has.raise(&received);
        }
        link.is_open = true;
        let Link { has, .. } = &self.links[peer as usize];
        if V::keeps(Rule::RestoredLogIsResent) || !self.is_restored {
            out.extend(self.log.after(peer, has).map(|sent| Action::Transmit {
                to: peer,
                channel: sent.channel,
                number: sent.number,
                payload: sent.payload.clone(),
            }));
        }
        Ok(())
    }
}
