//! One checkpoint as a file.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`], with the version of the format |
//! | 8 | length of the head, little-endian |
//! | that many | the [`Head`] in postcard's format |
//! | [`Head::layer`] | what message logging keeps; empty in a job without |
//! | of [`Head::regions`] | the memory of the program, one region behind the other |
//! | 32 | BLAKE3 of all before |
//!
//! A file that is cut off at any byte, longer than it says or changed in any bit is refused. The memory of the program
//! is written as it lies, without a copy, and is overwritten only from a file that was whole a moment ago.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// The first bytes of a checkpoint.
pub const MAGIC: [u8; 8] = *b"rwstate\x01";
/// More than any head has: a length beyond it is damage.
const LONGEST_HEAD: u64 = 1 << 24;
/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The job under message logging that wrote it; 0 without message logging.
    pub job: u64,
    /// The rank.
    pub rank: u32,
    /// The ranks of the job.
    pub ranks: u32,
    /// The program's number of the checkpoint.
    pub version: u32,
    /// Bytes of message logging's part.
    pub layer: u64,
    /// The program's memory: number and bytes of each region, in the order of the file.
    pub regions: Vec<(i32, u64)>,
}

/// Why a file is not a checkpoint to start from.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It does not begin like one.
    #[error("is not a checkpoint of this release of ringwatch")]
    Foreign,
    /// It ends too early or too late.
    #[error("has {found} bytes where {expected} belong: it was cut off, or written to afterwards")]
    Length {
        /// What the file has.
        found: u64,
        /// What its head says.
        expected: u64,
    },
    /// Its contents do not fit its check sum.
    #[error("is damaged: its contents do not match its check sum")]
    Damaged,
    /// It cannot be read.
    #[error("cannot be read ({0})")]
    Io(#[from] io::Error),
}

/// Writes and hashes.
struct Hashed<W> {
    to: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Hashed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.to.write_all(bytes)
    }
}

/// Writes a checkpoint: message logging's part, and the regions of the head.
///
/// # Errors
/// Of the file.
pub fn write<'a>(to: impl Write, head: &Head, layer: &[u8], regions: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    let encoded = postcard::to_stdvec(head).map_err(io::Error::other)?;
    let mut file = Hashed { to, hasher: blake3::Hasher::new() };
    file.put(&MAGIC)?;
    file.put(&(encoded.len() as u64).to_le_bytes())?;
    file.put(&encoded)?;
    file.put(layer)?;
    for region in regions {
        file.put(region)?;
    }
    let sum = file.hasher.finalize();
    file.to.write_all(sum.as_bytes())
}

/// Reads the head of a file of `found` bytes. Returns it with what has been read.
fn head(from: &mut impl Read, found: u64) -> Result<(Head, Vec<u8>), Unreadable> {
    let mut start = [0; 16];
    let smallest = (start.len() + blake3::OUT_LEN) as u64;
    let known = (MAGIC.len() as u64).min(found) as usize;
    from.read_exact(&mut start[..known])?;
    if start[..known] != MAGIC[..known] {
        return Err(Unreadable::Foreign);
    }
    if found < smallest {
        return Err(Unreadable::Length { found, expected: smallest });
    }
    from.read_exact(&mut start[known..])?;
    let mut length = [0; 8];
    length.copy_from_slice(&start[8..]);
    let length = u64::from_le_bytes(length);
    let expected = smallest.saturating_add(length);
    if expected > found || length > LONGEST_HEAD {
        return Err(Unreadable::Length { found, expected });
    }
    let mut read = start.to_vec();
    read.resize(start.len() + length as usize, 0);
    from.read_exact(&mut read[start.len()..])?;
    let head = postcard::from_bytes(&read[start.len()..]).map_err(|_| Unreadable::Damaged)?;
    Ok((head, read))
}

/// Looks whether a file of `found` bytes is whole. Returns its head and message logging's part.
///
/// # Errors
/// [`Unreadable`] if it is not.
pub fn check(mut from: impl Read, found: u64) -> Result<(Head, Vec<u8>), Unreadable> {
    let (head, read) = head(&mut from, found)?;
    let regions = head.regions.iter().try_fold(0_u64, |sum, (_, bytes)| sum.checked_add(*bytes));
    let length = regions.and_then(|regions| regions.checked_add(head.layer)).ok_or(Unreadable::Damaged)?;
    let expected = length.saturating_add((read.len() + blake3::OUT_LEN) as u64);
    if found != expected {
        return Err(Unreadable::Length { found, expected });
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&read);
    let mut layer = vec![0; usize::try_from(head.layer).map_err(|_| Unreadable::Damaged)?];
    from.read_exact(&mut layer)?;
    hasher.update(&layer);
    let (mut piece, mut left) = (vec![0; PIECE], length - head.layer);
    while left > 0 {
        let now = left.min(PIECE as u64) as usize;
        from.read_exact(&mut piece[..now])?;
        hasher.update(&piece[..now]);
        left -= now as u64;
    }
    let mut sum = [0; blake3::OUT_LEN];
    from.read_exact(&mut sum)?;
    if *hasher.finalize().as_bytes() == sum { Ok((head, layer)) } else { Err(Unreadable::Damaged) }
}

/// Reads the regions of a file that was found whole into memory of the same sizes, in the order of the file.
///
/// # Errors
/// [`Unreadable`] where the file has changed since.
pub fn load<'a>(
    mut from: impl Read,
    found: u64,
    head: &Head,
    regions: impl Iterator<Item = &'a mut [u8]>,
) -> Result<(), Unreadable> {
    let (now, _) = self::head(&mut from, found)?;
    if now != *head {
        return Err(Unreadable::Damaged);
    }
    io::copy(&mut from.by_ref().take(head.layer), &mut io::sink())?;
    for region in regions {
        from.read_exact(region)?;
    }
    Ok(())
}
