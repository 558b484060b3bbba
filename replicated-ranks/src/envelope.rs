//! What stands before the data of a message between processes, byte by byte.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | the kind |
//! | 4..8 | the tag |
//! | 8..12 | the number of the communicator |
//! | 12..16 | zero |
//! | 16..24 | the number of the message among those of the two ranks |
//!
//! All numbers are little-endian. The data follows. The sender is known by its process.

use event_log::protocol::units::Channel;

/// Bytes of an envelope.
pub const LENGTH: usize = 24;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the program, with its data.
    Data,
    /// Another message of the machine.
    Protocol,
    /// About what is printed.
    Output,
    /// The receiver has sent what the majority contradicts: it has to end.
    Retire,
    /// The sender needs nobody any more.
    Done,
}

const KINDS: [Kind; 5] = [Kind::Data, Kind::Protocol, Kind::Output, Kind::Retire, Kind::Done];

/// What stands before the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What it is.
    pub kind: Kind,
    /// Communicator and tag.
    pub channel: Channel,
    /// The number of the message, from 1.
    pub number: u64,
}

impl Envelope {
    /// That of a message of the program.
    pub fn data(channel: Channel, number: u64) -> Self {
        Self { kind: Kind::Data, channel, number }
    }

    /// That of another message.
    pub fn of(kind: Kind) -> Self {
        Self { kind, channel: Channel { communicator: 0, tag: 0 }, number: 0 }
    }

    /// The envelope alone.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let words = [self.kind as u32, self.channel.tag as u32, self.channel.communicator];
        bytes.chunks_exact_mut(4).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
        bytes[16..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// The envelope of a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| Some(u32::from_le_bytes(bytes.get(4 * place..4 * place + 4)?.try_into().ok()?));
        Some(Self {
            kind: *KINDS.get(word(0)? as usize)?,
            channel: Channel { communicator: word(2)?, tag: word(1)? as i32 },
            number: u64::from_le_bytes(bytes.get(16..LENGTH)?.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_comes_back_as_it_was() {
        for kind in KINDS {
            let envelope = Envelope { kind, channel: Channel { communicator: 1 << 30, tag: -5 }, number: 1 << 40 };
            let bytes = envelope.bytes();
            assert_eq!(Envelope::decode(&bytes), Some(envelope));
            assert!((0..LENGTH).all(|length| Envelope::decode(&bytes[..length]).is_none()));
        }
        assert_eq!(Envelope::decode(&[KINDS.len() as u8; LENGTH]), None);
    }
}
