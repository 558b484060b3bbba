//! Which message a receive gets (MPI 4.1, 3.5): the first of those that fit, in the order in which each sender has sent
//! them; and which receive gets a message: the first of those that it fits.

use std::collections::{HashMap, VecDeque};

use event_log::protocol::units::{Envelope, Pattern, Request};

use crate::envelope::LENGTH;
use virtual_ranks::packet::Packet;

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it comes from.
    pub envelope: Envelope,
    /// Its envelope between processes, and the data.
    pub packet: Packet,
}

impl Message {
    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.packet[LENGTH..]
    }
}

/// What waits in one communicator.
#[derive(Default)]
struct Waiting {
    /// Receives without a message, in the order in which they were posted.
    posted: VecDeque<(Request, Pattern)>,
    /// Messages without a receive, in the order of arrival.
    unexpected: VecDeque<Message>,
}

/// Receives and messages that have not found each other.
#[derive(Default)]
pub struct Matching {
    communicators: HashMap<u32, Waiting>,
}

impl Matching {
    /// A receive is posted. Returns its message if that is there.
    pub fn post(&mut self, request: Request, pattern: Pattern) -> Option<Message> {
        let waiting = self.communicators.entry(pattern.communicator).or_default();
        let place = waiting.unexpected.iter().position(|message| pattern.covers(message.envelope));
        if place.is_none() {
            waiting.posted.push_back((request, pattern));
        }
        waiting.unexpected.remove(place?)
    }

    /// A message arrives. Returns it with its receive if that is there.
    pub fn arrive(&mut self, message: Message) -> Option<(Request, Message)> {
        let waiting = self.communicators.entry(message.envelope.channel.communicator).or_default();
        match waiting.posted.iter().position(|(_, pattern)| pattern.covers(message.envelope)) {
            Some(place) => waiting.posted.remove(place).map(|(request, _)| (request, message)),
            None => {
                waiting.unexpected.push_back(message);
                None
            }
        }
    }

    /// Takes a receive back. Returns whether it had no message.
    pub fn withdraw(&mut self, request: Request) -> bool {
        self.communicators.values_mut().any(|waiting| {
            let place = waiting.posted.iter().position(|(posted, _)| *posted == request);
            place.and_then(|place| waiting.posted.remove(place)).is_some()
        })
    }

    /// The message that a receive of this kind would get.
    pub fn find(&self, pattern: &Pattern) -> Option<&Message> {
        let waiting = self.communicators.get(&pattern.communicator)?;
        waiting.unexpected.iter().find(|message| pattern.covers(message.envelope))
    }

    /// Everything in flight is lost, and every receive ends without effect.
    pub fn lose(&mut self) {
        self.communicators.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event_log::protocol::units::Channel;

    fn message(source: u32, tag: i32, data: u8) -> Message {
        let envelope = Envelope { source, channel: Channel { communicator: 1, tag } };
        Message { envelope, packet: Packet::Own([&[0; LENGTH][..], &[data]].concat()) }
    }

    fn pattern(source: Option<u32>, tag: Option<i32>) -> Pattern {
        Pattern { communicator: 1, source, tag }
    }

    #[test]
    fn messages_of_a_sender_do_not_overtake_each_other() {
        let mut matching = Matching::default();
        assert!(matching.arrive(message(3, 5, 1)).is_none());
        assert!(matching.arrive(message(3, 5, 2)).is_none());
        assert_eq!(matching.post(1, pattern(Some(3), None)).unwrap().data(), [1]);
        assert_eq!(matching.post(2, pattern(None, Some(5))).unwrap().data(), [2]);
    }

    #[test]
    fn the_first_receive_that_fits_gets_the_message() {
        let mut matching = Matching::default();
        assert!(matching.post(1, pattern(Some(4), None)).is_none());
        assert!(matching.post(2, pattern(None, Some(5))).is_none());
        assert!(matching.post(3, pattern(None, None)).is_none());
        assert_eq!(matching.arrive(message(3, 5, 0)).unwrap().0, 2);
        assert_eq!(matching.arrive(message(3, 6, 0)).unwrap().0, 3);
        assert!(matching.arrive(message(3, 6, 0)).is_none());
        assert_eq!(matching.arrive(message(4, 6, 0)).unwrap().0, 1);
    }

    #[test]
    fn communicators_are_apart_and_what_is_lost_is_not_found() {
        let mut matching = Matching::default();
        assert!(matching.arrive(message(3, 5, 0)).is_none());
        assert!(matching.find(&Pattern { communicator: 2, source: None, tag: None }).is_none());
        assert!(matching.find(&pattern(Some(3), Some(5))).is_some());
        matching.lose();
        assert!(matching.find(&pattern(None, None)).is_none());
    }
}
