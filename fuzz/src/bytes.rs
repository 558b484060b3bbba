//! Numbers and pieces taken from the bytes of an input.

/// Takes values out of bytes, as long as there are any.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn word(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    pub fn value<T: serde::Deserialize<'a>>(&mut self) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }
}
