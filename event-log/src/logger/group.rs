//! The 2f + 1 acceptors of a proposer, and whom it asks first.
//!
//! In good runs a quorum is asked: the own node's acceptor, which costs no message, and f others. Whoever was silent is
//! asked last from then on.

use crate::logger::Action;
use crate::logger::message::Message;
use crate::logger::round::Address;

/// Acceptors in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    members: Vec<Address>,
    has_own: bool,
    /// Places in `members`, who is asked first first.
    order: Vec<usize>,
}

impl Group {
    /// Acceptors on other nodes.
    #[must_use]
    pub fn remote(members: Vec<Address>) -> Self {
        let order = (0..members.len()).collect();
        Self { members, has_own: false, order }
    }

    /// The own node's acceptor, and others.
    #[must_use]
    pub fn with_own(own: Address, others: &[Address]) -> Self {
        let members = [&[own], others].concat();
        Self { has_own: true, ..Self::remote(members) }
    }

    /// How many acceptors make a value stable: more than half of them.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// How many acceptors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The place of an acceptor.
    #[must_use]
    pub fn place(&self, address: Address) -> Option<usize> {
        self.members.iter().position(|member| *member == address)
    }

    /// The places of those who are asked in a good run.
    pub fn preferred(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().copied().take(self.quorum())
    }

    /// Those of whom this is true are asked last from now on.
    pub fn ask_last(&mut self, is_silent: impl Fn(usize) -> bool) {
        self.order.sort_by_key(|place| is_silent(*place));
    }

    /// Those who were to be asked and did not answer are asked last from now on.
    pub fn were_silent(&mut self, is_silent: impl Fn(usize) -> bool) {
        let asked: Vec<usize> = self.preferred().collect();
        self.ask_last(|place| asked.contains(&place) && is_silent(place));
    }

    /// Sends a message to the acceptor at this place.
    pub fn send(&self, place: usize, message: Message, out: &mut Vec<Action>) {
        let to = self.members[place];
        let is_own = self.has_own && place == 0;
        out.push(if is_own { Action::Store { to, message } } else { Action::Send { to, message } });
    }

    /// The highest number that a quorum has reached, of one number for each place.
    #[must_use]
    pub fn reached(&self, numbers: &[u64]) -> u64 {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted[self.quorum() - 1]
    }
}
