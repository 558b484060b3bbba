//! A message of the program as the machine keeps it: an envelope and the data, in one piece that is sent as it is.

use std::sync::Arc;

use event_log::protocol::units::{Channel, Payload};
use replication::digest::{Digest, digest};
use replication::message::Data;
use serde::{Deserialize, Serialize};

use crate::envelope::LENGTH;

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sealed {
    /// This replica sends it.
    Sent(Payload),
    /// It has come.
    Got(Arc<Vec<u8>>),
}

impl Sealed {
    /// Envelope and data.
    pub fn whole(&self) -> &[u8] {
        match self {
            Self::Sent(bytes) => bytes,
            Self::Got(bytes) => bytes,
        }
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.whole()[LENGTH..]
    }
}

impl Data for Sealed {
    fn length(&self) -> u64 {
        self.data().len() as u64
    }

    fn digest(&self, channel: Channel) -> Digest {
        digest(channel, self.data())
    }
}
