//! What stands before the data of a message between processes, byte by byte.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | the kind |
//! | 4..8 | the sender's rank in the program |
//! | 8..12 | the epoch of the sender: how far the replacing of ranks has come there |
//! | 12..16 | the tag |
//! | 16..20 | the number of the communicator |
//!
//! All numbers are little-endian. The data follows.

/// Bytes of an envelope.
pub const LENGTH: usize = 20;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the program.
    Data,
    /// A message of the protocol.
    Protocol,
    /// A spare has taken the place of a rank.
    Take,
    /// The sender has passed the barrier of `MPI_Finalize`.
    Done,
    /// All ranks have: nobody needs anything any more.
    Leave,
    /// The sender cannot be replaced any more, or cannot feed a replacement.
    Unprotected,
    /// How many messages the sender sends again to a replacement.
    Resent,
    /// Another process is the receiver's rank.
    Deposed,
    /// A piece of a checkpoint of the sender's, for its partner.
    Copy,
    /// The sender has a checkpoint of the receiver's as a whole, or has no room for it.
    Copied,
    /// The sender takes the place of a rank, and asks the partner of that for its checkpoints.
    Recall,
    /// A piece of a checkpoint of the receiver's, which has asked for it.
    Returned,
}

const KINDS: [Kind; 12] = [
    Kind::Data,
    Kind::Protocol,
    Kind::Take,
    Kind::Done,
    Kind::Leave,
    Kind::Unprotected,
    Kind::Resent,
    Kind::Deposed,
    Kind::Copy,
    Kind::Copied,
    Kind::Recall,
    Kind::Returned,
];

/// What stands before the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What it is.
    pub kind: Kind,
    /// The sender's rank in the program.
    pub source: u32,
    /// The sender's epoch.
    pub epoch: u32,
    /// The tag.
    pub tag: i32,
    /// The number of the communicator.
    pub communicator: u32,
}

impl Envelope {
    /// A message without data of the program's.
    pub fn of(kind: Kind, source: u32, epoch: u32) -> Self {
        Self { kind, source, epoch, tag: 0, communicator: 0 }
    }

    /// The envelope alone.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let words = [self.kind as u32, self.source, self.epoch, self.tag as u32, self.communicator];
        bytes.chunks_exact_mut(4).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// The envelope and the data.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        [&self.bytes(), data].concat()
    }

    /// The envelope of a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| Some(u32::from_le_bytes(bytes.get(4 * place..4 * place + 4)?.try_into().ok()?));
        Some(Self {
            kind: *KINDS.get(word(0)? as usize)?,
            source: word(1)?,
            epoch: word(2)?,
            tag: word(3)? as i32,
            communicator: word(4)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_comes_back_as_it_was() {
        for kind in KINDS {
            let envelope = Envelope { kind, source: 7, epoch: 2, tag: -5, communicator: 1 << 30 };
            let bytes = envelope.encode(b"data");
            assert_eq!((&bytes[LENGTH..], Envelope::decode(&bytes)), (&b"data"[..], Some(envelope)));
            assert!((0..LENGTH).all(|length| Envelope::decode(&bytes[..length]).is_none()));
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let mut bytes = vec![0; LENGTH];
        bytes[0] = KINDS.len() as u8;
        assert_eq!(Envelope::decode(&bytes), None);
    }
}
