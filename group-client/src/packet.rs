//! What processes say to each other: the group's messages, and the end.
//!
//! It is the word of a [`propagation::Message::Group`], in the postcard format: sealed, numbered and bound to its receiver as all
//! datagrams of [`propagation::wire`].

use recommended_group::message::Message;
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
    },
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
