//! Saying again that a rank is dead when more nodes have died since than its broadcast bears.
//!
//! A broadcast reaches all survivors although some of its participants crash, but not although any number does: when a
//! network falls apart the moment a rank dies, those through whom the news would have come may all be cut off. Deaths of
//! nodes come through all the same, because every later notice lists them; a rank's death is in no list. Its source is
//! alive, for otherwise the rank would be lost with its node, and learns of the deaths one after the other; so it
//! begins anew, among the survivors that it knows, as often as the last time was not enough.

use crate::{Action, Subject, Time};

use super::Member;

/// A rank of this node that was announced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Said {
    subject: Subject,
    /// How many nodes were known to be dead at the last time.
    dead: u32,
}

impl Member {
    /// Broadcasts the death of a rank of this node, now and as often as needed.
    pub(super) fn say(&mut self, now: Time, subject: Subject, out: &mut Vec<Action>) {
        self.said.push(Said { subject, dead: self.dead.count() });
        self.broadcast(now, subject, out);
    }

    /// Nodes have died: broadcasts again what may be lost with them.
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

/// How many of its participants may crash during a broadcast (theorem 1 of the paper: floor(log2 n) - 1; among two or
/// three everybody is told by the source itself).
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
