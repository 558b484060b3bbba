//! Requests, votes, decisions on a return (A7).

use std::sync::Arc;

use super::state::Member;
use crate::action::Action;
use crate::ballot::{Ballot, Outcome};
use crate::counters::is_recommended;
use crate::message::Message;
use crate::test::Test;
use crate::units::{Counter, Rank};

impl<T: Test> Member<T> {
    fn leads(&self) -> bool {
        self.counters.leader() == Some(self.config.me)
    }

    /// Asks the leader to bring a process back.
    pub(super) fn request(&mut self, target: Rank, out: &mut Vec<Action>) {
        let counter = self.counters.get(target);
        out.push(Action::Requested { rank: target });
        if self.leads() {
            self.open(target, counter, out);
        } else if let Some(to) = self.counters.leader() {
            out.push(Action::Send { to, message: Message::Request { target, counter } });
        }
    }

    pub(super) fn requested(&mut self, from: Rank, target: Rank, counter: Counter, out: &mut Vec<Action>) {
        if self.leads() && self.counters.group().contains(from) {
            self.open(target, counter, out);
        }
    }

    /// Opens a ballot, unless there is one.
    fn open(&mut self, target: Rank, counter: Counter, out: &mut Vec<Action>) {
        let is_late = counter != self.counters.get(target) || is_recommended(counter);
        if is_late || self.dead.contains(target) || self.ballots.contains_key(&target) || !self.config.returns {
            return;
        }
        let voters = self.config.assignment.testers(target, self.config.count, self.counters.group());
        let digest = self.counters.digest();
        let votes_itself = voters.contains(self.config.me);
        let asks = voters.iter().filter(|voter| *voter != self.config.me);
        let propose = |to| Action::Send { to, message: Message::Propose { target, counter, digest } };
        out.push(Action::Opened { rank: target });
        out.extend(asks.map(propose));
        self.ballots.insert(target, Ballot::new(counter, digest, voters));
        if votes_itself {
            let agrees = self.agrees(target, counter, digest);
            out.push(Action::Voted { rank: target, agrees });
            self.voted(self.config.me, target, digest, agrees, out);
        }
    }

    /// Asks those who have not voted again.
    pub(super) fn propose_again(&self, out: &mut Vec<Action>) {
        for (&target, ballot) in &self.ballots {
            let (counter, digest) = (ballot.counter, ballot.digest);
            let propose = |to| Action::Send { to, message: Message::Propose { target, counter, digest } };
            out.extend(ballot.silent().map(propose));
        }
    }

    fn agrees(&self, target: Rank, counter: Counter, digest: u64) -> bool {
        digest == self.counters.digest()
            && counter == self.counters.get(target)
            && 2 * self.streak(target) > self.config.passes
    }

    pub(super) fn proposed(&mut self, from: Rank, target: Rank, counter: Counter, digest: u64, out: &mut Vec<Action>) {
        if self.counters.leader() != Some(from) || !self.is_member() {
            return;
        }
        let agrees = self.agrees(target, counter, digest);
        out.push(Action::Voted { rank: target, agrees });
        out.push(Action::Send { to: from, message: Message::Vote { target, digest, agrees } });
    }

    pub(super) fn voted(&mut self, from: Rank, target: Rank, digest: u64, agrees: bool, out: &mut Vec<Action>) {
        let Some(ballot) = self.ballots.get_mut(&target).filter(|ballot| ballot.digest == digest) else { return };
        match ballot.vote(from, agrees) {
            // It is decided when all messages are taken: one of them may say that this process leads no more.
            Outcome::Open | Outcome::Accepted => {}
            Outcome::Rejected => {
                self.ballots.remove(&target);
                self.targets[target as usize].is_requested = false;
                let others = self.counters.group().iter().filter(|rank| *rank != self.config.me);
                out.extend(others.map(|to| Action::Send { to, message: Message::Abort { target } }));
            }
        }
    }

    /// The ballot that has come to a return.
    pub(super) fn accepted(&self) -> Option<(Rank, Counter)> {
        let mut accepted = self.ballots.iter().filter(|(_, ballot)| ballot.outcome() == Outcome::Accepted);
        accepted.next().map(|(target, ballot)| (*target, ballot.counter + 1))
    }

    /// Brings back who has the votes. Other ballots begin anew with the new counters.
    pub(super) fn decide(&mut self, out: &mut Vec<Action>) {
        let Some((target, counter)) = self.accepted() else { return };
        let mut group = self.counters.group().clone();
        group.insert(target);
        self.broadcast(Arc::new(group), vec![(target, counter)], out);
        let (counters, view) = (self.counters.shared(), self.barrier.view().clone());
        out.push(Action::Send { to: target, message: Message::Welcome { counters, view } });
    }

    pub(super) fn aborted(&mut self, from: Rank, target: Rank) {
        if self.counters.leader() == Some(from) {
            self.targets[target as usize].is_requested = false;
        }
    }
}
