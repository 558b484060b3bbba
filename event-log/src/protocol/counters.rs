//! How many messages went each way, per peer and channel (`v_sent` and `v_recv` in section 5.1 of the thesis).
//!
//! The number of a message is the count after it was added: the first is 1. Algorithm 4 as printed numbers first and
//! adds then, and so collects one message too many as garbage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::Channel;
use crate::determinant::Rank;

/// Messages per channel with one peer. A channel that is not in it has carried none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counts(BTreeMap<Channel, u64>);

impl Counts {
    /// Messages of a channel.
    pub fn get(&self, channel: Channel) -> u64 {
        self.0.get(&channel).copied().unwrap_or(0)
    }

    /// Adds one to a channel; returns the number of that message, from 1.
    pub fn add(&mut self, channel: Channel) -> u64 {
        let count = self.0.entry(channel).or_default();
        *count += 1;
        *count
    }

    /// The channels that have carried messages, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (Channel, u64)> + '_ {
        self.0.iter().map(|(&channel, &count)| (channel, count))
    }

    /// Whether no channel has more in `other`.
    pub fn covers(&self, other: &Counts) -> bool {
        other.0.iter().all(|(&channel, &count)| self.get(channel) >= count)
    }

    /// Raises each channel to the count in `other`, if that is higher.
    pub fn raise(&mut self, other: &Counts) {
        for (&channel, &count) in &other.0 {
            let own = self.0.entry(channel).or_default();
            *own = count.max(*own);
        }
    }
}

/// The counts of one rank with all its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Sent, by receiver.
    pub sent: Vec<Counts>,
    /// Received, by sender. A message counts when the program can have seen it (see [`requests`](super::requests)).
    pub received: Vec<Counts>,
}

impl Counters {
    /// No message yet, among `ranks`.
    pub fn new(ranks: u32) -> Self {
        let none = vec![Counts::default(); ranks as usize];
        Self { sent: none.clone(), received: none }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> Rank {
        Rank::try_from(self.sent.len()).expect("ranks are numbered with 32 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Channel = Channel { communicator: 0, tag: 5 };
    const SEVEN: Channel = Channel { communicator: 0, tag: 7 };

    #[test]
    fn the_first_message_of_each_channel_is_number_one() {
        let mut counts = Counts::default();
        assert_eq!(counts.add(FIVE), 1);
        assert_eq!(counts.add(FIVE), 2);
        assert_eq!(counts.add(SEVEN), 1);
        assert_eq!(counts.get(Channel { communicator: 1, tag: 5 }), 0);
    }

    #[test]
    fn raising_never_lowers_a_count() {
        let (mut low, mut high) = (Counts::default(), Counts::default());
        low.add(FIVE);
        low.add(FIVE);
        high.add(FIVE);
        high.add(SEVEN);
        low.raise(&high);
        assert_eq!((low.get(FIVE), low.get(SEVEN)), (2, 1));
    }
}
