//! The bytes of a message between processes: a header of the protocol's, and the data. What a protocol keeps is sent
//! from there.

use std::ops::Deref;
use std::sync::Arc;

use event_log::protocol::units::Payload;

/// The bytes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Nobody else has them.
    Own(Vec<u8>),
    /// The protocol keeps them, too.
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

/// A message of the program as a protocol keeps it: a header, and the data. This is the only copy.
pub fn seal(header: &[u8], data: &[u8]) -> Payload {
    let mut payload = Arc::<[u8]>::new_uninit_slice(header.len() + data.len());
    let room = Arc::get_mut(&mut payload).expect("it is new").as_mut_ptr().cast::<u8>();
    // SAFETY: as many bytes as there is room for, and all of it.
    unsafe {
        room.copy_from_nonoverlapping(header.as_ptr(), header.len());
        room.add(header.len()).copy_from_nonoverlapping(data.as_ptr(), data.len());
        payload.assume_init()
    }
}

/// A sealed message with this header, which may be another one than it was sealed with.
pub fn with_header(payload: Payload, header: &[u8]) -> Packet {
    if payload[..header.len()] == *header {
        Packet::Shared(payload)
    } else {
        Packet::Own([header, &payload[header.len()..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_copied_only_for_another_header() {
        let payload = seal(b"one", b"data");
        assert_eq!(with_header(payload.clone(), b"one"), Packet::Shared(payload.clone()));
        assert_eq!(with_header(payload, b"two"), Packet::Own(b"twodata".to_vec()));
    }
}
