//! The bytes of a message between processes: its envelope, and the data. What the sender log has is sent from there.

use std::ops::Deref;
use std::sync::Arc;

use event_log::protocol::units::Payload;

use crate::envelope::{Envelope, LENGTH};

/// The bytes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Nobody else has them.
    Own(Vec<u8>),
    /// The sender log has them, too.
    Shared(Payload),
}

impl Deref for Packet {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A message of the program as the sender log keeps it: an envelope, and the data. This is the only copy.
pub fn seal(envelope: &Envelope, data: &[u8]) -> Payload {
    let mut payload = Arc::<[u8]>::new_uninit_slice(LENGTH + data.len());
    let room = Arc::get_mut(&mut payload).expect("it is new").as_mut_ptr().cast::<u8>();
    // SAFETY: as many bytes as there is room for, and all of it.
    unsafe {
        room.copy_from_nonoverlapping(envelope.bytes().as_ptr(), LENGTH);
        room.add(LENGTH).copy_from_nonoverlapping(data.as_ptr(), data.len());
        payload.assume_init()
    }
}

/// A sealed message with this envelope: another one than it was sealed with after a repair.
pub fn with_envelope(payload: Payload, envelope: &Envelope) -> Packet {
    if payload[..LENGTH] == envelope.bytes() {
        Packet::Shared(payload)
    } else {
        Packet::Own(envelope.encode(&payload[LENGTH..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Kind;

    #[test]
    fn a_message_is_copied_only_for_another_envelope() {
        let first = Envelope::of(Kind::Data, 7, 2);
        let payload = seal(&first, b"data");
        assert_eq!(with_envelope(payload.clone(), &first), Packet::Shared(payload.clone()));
        let later = Envelope { epoch: 3, ..first };
        assert_eq!(with_envelope(payload, &later), Packet::Own(later.encode(b"data")));
    }
}
