//! What processes say to each other: the group's messages, and the end.
//!
//! It is the word of a [`propagation::Message::Group`], in the postcard format: sealed, numbered and bound to its
//! receiver as all datagrams of [`propagation::wire`].

use recommended_group::message::Message;
use recommended_group::units::Counter;
use serde::{Deserialize, Serialize};

/// A word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packet {
    /// A message of the group.
    Group(Message),
    /// The sender's program is complete after so many rounds.
    Left {
        /// How many rounds are complete.
        rounds: u64,
        /// The sender's own counter, which its leaving does not raise.
        counter: Counter,
    },
    /// From a process outside: is the program complete? Only whoever knows that it is answers.
    Ask,
}

/// A packet as bytes.
///
/// # Panics
/// Never: memory takes everything.
#[must_use]
pub fn write(packet: &Packet) -> Vec<u8> {
    postcard::to_stdvec(packet).expect("writing to memory cannot fail")
}

/// The packet in these bytes, in a group of so many processes. None if it is not one, or has more behind it.
#[must_use]
pub fn read(bytes: &[u8], count: u32) -> Option<Packet> {
    let Ok((packet, [])) = postcard::take_from_bytes(bytes) else { return None };
    match &packet {
        Packet::Group(message) if !message.is_for(count) => None,
        _ => Some(packet),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;
    use recommended_group::event::Event;
    use recommended_group::group::Group;
    use recommended_group::message::Asked;
    use recommended_group::view::{Report, View};

    use super::*;

    const COUNT: u32 = 5;

    fn samples() -> Vec<Packet> {
        let view = Arc::new(View { number: 9, attempt: (2, 1), round: 3, base: 8, ..View::first(COUNT) });
        let counters: Arc<[u32]> = vec![0, 1, 2, 3, 4].into();
        let asked = Asked { interval: 7, sent: Duration::from_millis(1500), question: 1000, digest: u64::MAX };
        let group = Arc::new(Group::of(COUNT, [0, 4]));
        let event = Event { origin: 4, number: 300, group, news: vec![(1, 1), (2, 3)] };
        let accepted = Some(((2, 1), view.clone()));
        let report = Report { promised: (2, 1), view: view.clone(), accepted, arrived: Some(true) };
        let messages = [
            Message::Test(asked),
            Message::Reply { asked, answer: 168, digest: 5, counters: Some(counters.clone()) },
            Message::Syndrome(counters.clone()),
            Message::Event(event.into()),
            Message::Request { target: 3, counter: 1 },
            Message::Propose { target: 3, counter: 1, digest: 8 },
            Message::Vote { target: 3, digest: 8, agrees: true },
            Message::Abort { target: 3 },
            Message::Welcome { counters, view: view.clone() },
            Message::Query((2, 1)),
            Message::Report(report.into()),
            Message::Install { attempt: (2, 1), view: view.clone() },
            Message::Accepted { attempt: (2, 1), number: 9 },
            Message::Commit(view),
        ];
        messages.into_iter().map(Packet::Group).chain([Packet::Left { rounds: 4, counter: 2 }, Packet::Ask]).collect()
    }

    #[test]
    fn each_packet_is_read_as_it_was_written_and_neither_a_part_of_it_nor_more() {
        for packet in samples() {
            let bytes = write(&packet);
            assert_eq!(read(&bytes, COUNT).as_ref(), Some(&packet));
            assert!((0..bytes.len()).all(|length| read(&bytes[..length], COUNT).is_none()), "{packet:?}");
            assert_eq!(read(&[&bytes[..], &[0]].concat(), COUNT), None);
        }
    }

    #[test]
    fn what_is_of_a_larger_group_or_about_to_overflow_is_none() {
        let is_none = |message| read(&write(&Packet::Group(message)), COUNT).is_none();
        assert!(is_none(Message::Commit(View::first(COUNT + 1).into())));
        assert!(is_none(Message::Commit(View { number: u64::MAX, ..View::first(COUNT) }.into())));
        assert!(is_none(Message::Commit(View { members: Group::all(70), ..View::first(COUNT) }.into())));
        assert!(is_none(Message::Syndrome(vec![u32::MAX; COUNT as usize].into())));
        assert!(is_none(Message::Abort { target: COUNT }));
        assert!(is_none(Message::Query((u64::MAX, 0))));
    }

    proptest! {
        /// Bytes that were a packet reach far into the reader.
        #[test]
        fn a_damaged_packet_is_none_or_one_that_can_be_written(which in 0_usize..16, at in any::<u16>(), byte: u8) {
            let mut bytes = write(&samples()[which]);
            let place = usize::from(at) % bytes.len();
            bytes[place] = byte;
            if let Some(packet) = read(&bytes, COUNT) {
                prop_assert_eq!(read(&write(&packet), COUNT), Some(packet));
            }
        }
    }
}
