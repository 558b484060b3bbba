//! The hash of a message: xxh3 with 128 bits.
//!
//! It has to find flipped bits, not forgeries: what passes between ranks is not authenticated by it. Two different
//! messages have the same digest with a probability of about 2^-128. Measured with `cargo bench -p replication`.

use event_log::protocol::units::Channel;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// The hash of a message: of communicator, tag, length and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub u128);

/// Makes a digest of the pieces of a message, in any division: what is packed of a derived datatype piece by piece has
/// the digest of the whole.
pub struct Digester(Box<Xxh3>);

impl Digester {
    /// For a message on a channel.
    pub fn new(channel: Channel) -> Self {
        Self(Box::new(Xxh3::with_seed(seed(channel))))
    }

    /// The next bytes.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces.
    pub fn finish(&self) -> Digest {
        Digest(self.0.digest128())
    }
}

fn seed(channel: Channel) -> u64 {
    u64::from(channel.communicator) << 32 | u64::from(channel.tag as u32)
}

/// The digest of a message that is in one piece.
pub fn digest(channel: Channel, bytes: &[u8]) -> Digest {
    Digest(xxhash_rust::xxh3::xxh3_128_with_seed(bytes, seed(channel)))
}
