//! Bundles messages into shared datagrams.
//!
//! Copies of broadcasts, and answers to them, that are sent to the same node at the same time become one message, so
//! that several concurrent broadcasts cost hardly more than one. No message is delayed for a bundle.

use postcard::ser_flavors::Size;

pub use crate::message::Part;

use crate::message::{BroadcastId, Message};
use crate::units::NodeId;
use crate::wire::{BODY_AT, MAC_LEN};

/// Maximum number of bytes of a bundle in its envelope: one Ethernet frame, with room for encapsulations. A datagram in
/// several frames would get lost with each of them.
const MOST: usize = 1_400;

/// Remaining space for other messages in a datagram, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room(usize);

impl Room {
    /// The space beside this message: none if it must be sent alone.
    pub fn beside(message: &Message) -> Room {
        // The bundle's own variant and length take three bytes at most.
        const BODY: usize = MOST - BODY_AT - MAC_LEN - 3;
        Room(space(message).map_or(0, |space| BODY.saturating_sub(space)))
    }

    /// Whether this message fits, too; then its space is taken.
    pub fn takes(&mut self, message: &Message) -> bool {
        let left = space(message).and_then(|space| self.0.checked_sub(space));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Whether a message may be in a bundle: such messages are frequent during several concurrent broadcasts. All others
/// are rare, or, like heartbeats, have a separate path.
pub fn is_part(message: &Message) -> bool {
    matches!(message, Message::Notice(_) | Message::Ack { .. } | Message::Complete { .. } | Message::Done { .. })
}

/// Number of bytes of a message in a bundle, the same as alone; `None` if it cannot be in one.
fn space(message: &Message) -> Option<usize> {
    is_part(message).then(|| {
        postcard::serialize_with_flavor(message, Size::default()).expect("every message has a number of bytes")
    })
}

/// Packs messages: those to the same node are combined as far as they fit into a datagram.
pub fn pack(mut messages: Vec<(NodeId, Message)>) -> Vec<(NodeId, Message)> {
    messages.sort_by_key(|(to, _)| *to);
    let mut packed: Vec<(NodeId, Message)> = Vec::with_capacity(messages.len());
    let mut room = Room(0);
    for (to, message) in messages {
        match packed.last_mut() {
            Some((last, bundle)) if *last == to && room.takes(&message) => {
                let mut parts = parts(std::mem::replace(bundle, Message::Bundle(vec![])));
                parts.extend(self::parts(message));
                *bundle = Message::Bundle(parts);
            }
            _ => {
                room = Room::beside(&message);
                packed.push((to, message));
            }
        }
    }
    packed
}

fn parts(message: Message) -> Vec<Part> {
    let id = |source, incarnation, seq| BroadcastId { source, incarnation, seq };
    match message {
        Message::Bundle(parts) => parts,
        Message::Notice(notice) => vec![Part::Notice(notice)],
        Message::Ack { source, incarnation, seq } => vec![Part::Ack(id(source, incarnation, seq))],
        Message::Complete { source, incarnation, seq } => vec![Part::Complete(id(source, incarnation, seq))],
        Message::Done { source, incarnation, seq } => vec![Part::Done(id(source, incarnation, seq))],
        other => unreachable!("{other:?} takes no other along"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Opener, Sealer};

    fn ack(seq: u64) -> Message {
        Message::Ack { source: 1, incarnation: 0, seq }
    }

    #[test]
    fn what_goes_to_the_same_node_goes_together_in_its_order() {
        let heartbeat = Message::Heartbeat { count: 1 };
        let packed = pack(vec![(7, ack(0)), (2, ack(1)), (7, heartbeat.clone()), (2, ack(2)), (2, ack(3))]);
        let [(2, Message::Bundle(parts)), (7, first), (7, second)] = packed.as_slice() else { panic!("{packed:?}") };
        assert_eq!(parts.iter().cloned().map(Message::from).collect::<Vec<_>>(), [ack(1), ack(2), ack(3)]);
        assert_eq!((first, second), (&ack(0), &heartbeat));
    }

    #[test]
    fn a_bundle_fits_into_one_frame_and_no_message_is_left_out() {
        let packed = pack((0..2_000).map(|number| (3, ack(u64::MAX - number))).collect());
        let mut count = 0;
        for (_, message) in &packed {
            let mut envelope = vec![];
            Sealer::new(1, [7; 32], 5, 0).seal(3, 0, message, &mut envelope);
            assert!(envelope.len() <= MOST && Opener::new(1, [7; 32], 3, 0).open(&envelope).is_ok());
            count += parts(message.clone()).len();
        }
        // 13 bytes each.
        assert_eq!((count, packed.len()), (2_000, 2_000_usize.div_ceil((MOST - 32 - 16 - 3) / 13)));
    }
}
