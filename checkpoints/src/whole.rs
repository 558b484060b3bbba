//! A whole checkpoint, in a file or in memory, and the way of the program's memory out of it and into it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use crate::file::{self, Head, Unreadable};
use crate::region::Region;

/// Bytes of a head and a check sum beside a name of 12 bytes for each region: more than both take.
const AROUND: usize = 256;

/// Where a checkpoint is.
#[derive(Clone, Debug)]
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// In memory, in the format of a file.
    Memory(Arc<Vec<u8>>),
}

/// A whole checkpoint.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Where it is.
    pub source: Source,
    /// What it says of itself.
    pub head: Head,
    /// Message logging's part.
    pub layer: Vec<u8>,
}

/// Why memory was not restored.
#[derive(Debug, thiserror::Error)]
pub enum NotLoaded {
    /// The program has registered other memory than when it was saved.
    #[error("has other memory than is registered: each id with as many bytes as when it was saved")]
    OtherRegions,
    /// It is not whole any more.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl fmt::Display for Source {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(to),
            Self::Memory(_) => to.write_str("in a partner's memory"),
        }
    }
}

/// A checkpoint as it would be in a file.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`] where there is no memory for it.
pub fn encode<'a>(head: &Head, layer: &[u8], regions: impl Iterator<Item = &'a [u8]>) -> io::Result<Vec<u8>> {
    let room: u64 = head.regions.iter().map(|(_, bytes)| bytes + 12).sum();
    let room = usize::try_from(room).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room + layer.len() + AROUND).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file::write(&mut bytes, head, layer, regions)?;
    Ok(bytes)
}

impl Whole {
    /// One in memory, if it is whole.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn decode(bytes: Arc<Vec<u8>>) -> Result<Self, Unreadable> {
        let (head, layer) = file::check(bytes.as_slice(), bytes.len() as u64)?;
        Ok(Self { source: Source::Memory(bytes), head, layer })
    }

    /// Puts the saved memory back.
    ///
    /// # Errors
    /// Why not. Memory is written to only from a whole checkpoint that fits it.
    ///
    /// # Safety
    /// The regions are there, and nobody else uses them.
    pub unsafe fn load(&self, regions: &[Region]) -> Result<(), NotLoaded> {
        let fits = self.head.regions.len() == regions.len();
        let mut ordered = Vec::with_capacity(regions.len());
        for (id, bytes) in &self.head.regions {
            let region = regions.iter().find(|region| region.id == *id && region.bytes as u64 == *bytes);
            ordered.push(*region.filter(|_| fits).ok_or(NotLoaded::OtherRegions)?);
        }
        if !fits {
            return Err(NotLoaded::OtherRegions);
        }
        let (from, length) = self.open().map_err(Unreadable::from)?;
        // SAFETY: as required of the caller; ids are unique, so no region comes twice.
        let memory = ordered.iter_mut().map(|region| unsafe { region.as_slice_mut() });
        Ok(file::load(from, length, &self.head, memory)?)
    }

    fn open(&self) -> io::Result<(Box<dyn Read + '_>, u64)> {
        match &self.source {
            Source::File(path) => {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                Ok((Box::new(BufReader::with_capacity(1 << 16, file)), length))
            }
            Source::Memory(bytes) => Ok((Box::new(bytes.as_slice()), bytes.len() as u64)),
        }
    }
}
