//! Repeats the announcement of a dead rank when more nodes have died since than its broadcast tolerates.
//!
//! A broadcast reaches all survivors although some of its participants crash, but not any number: if a network is
//! partitioned when a rank dies, all forwarding nodes may be cut off. Deaths of nodes arrive nevertheless, because
//! every later notice lists them; a rank's death is in no list. Its source is alive, because otherwise the rank would
//! be lost with its node, and learns of the deaths one after another. So it begins anew, among the survivors that it
//! knows, as often as the last broadcast did not suffice.

use crate::action::Action;
use crate::message::Subject;
use crate::units::Time;

use super::Member;

/// A rank of this node that was announced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Said {
    subject: Subject,
    /// Number of nodes known to be dead at the last announcement.
    dead: u32,
}

impl Member {
    /// Broadcasts the death of a rank of this node, now and as often as needed.
    pub(super) fn say(&mut self, now: Time, subject: Subject, out: &mut Vec<Action>) {
        self.said.push(Said { subject, dead: self.dead.count() });
        self.broadcast(now, subject, out);
    }

    /// Repeats announcements that may be lost, after deaths of nodes.
    pub(super) fn say_again(&mut self, now: Time, out: &mut Vec<Action>) {
        let (dead, universe) = (self.dead.count(), self.config.universe);
        for index in 0..self.said.len() {
            let Said { subject, dead: before } = self.said[index];
            if dead - before > borne(universe - before) {
                self.said[index].dead = dead;
                self.broadcast(now, subject, out);
            }
        }
    }
}

/// Number of participants that may crash during a broadcast (theorem 1 of the paper: floor(log2 n) - 1; among two or
/// three the source itself sends to all).
fn borne(participants: u32) -> u32 {
    participants.max(2).ilog2().max(2) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_bears_one_death_less_than_the_logarithm() {
        assert_eq!([2, 3, 4, 7, 8, 15, 16, 1024].map(borne), [1, 1, 1, 1, 2, 2, 3, 9]);
    }
}
