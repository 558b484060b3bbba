//! Defines the data that the ends of a connection exchange. No I/O.

use serde::{Deserialize, Serialize};

/// A slot's data for the emitter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Address of the observer's port.
    pub gid: [u8; 16],
    /// Number of its end of the connection.
    pub pair: u32,
    /// Address of the slot in the observer's memory.
    pub address: u64,
    /// Key of the slot.
    pub key: u32,
}

/// The emitter's data for the observer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Address of the emitter's port.
    pub gid: [u8; 16],
    /// Number of its end of the connection.
    pub pair: u32,
}

/// Parses an [`Offer`] or an [`Answer`] without trailing bytes.
///
/// # Errors
/// If the bytes are malformed, as a clause.
pub fn understand<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((word, [])) => Ok(word),
        _ => Err("it does not describe an RDMA connection".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_offer_is_refused() {
        assert!(understand::<Offer>(b"").is_err());
        assert!(understand::<Answer>(&[1; 8]).is_err());
        assert_eq!(understand(&[1; 17]), Ok(Answer { gid: [1; 16], pair: 1 }));
        assert!(understand::<Answer>(&[1; 18]).is_err(), "something stands behind it");
    }
}
