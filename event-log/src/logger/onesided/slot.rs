//! One entry in an acceptor's memory: 64 bytes, with a checksum.
//!
//! Nobody there looks at what arrives, and the writer may die in the middle. Memory that was written in part has a
//! wrong checksum, and counts as empty.
//!
//! | bytes | |
//! |---|---|
//! | 0 to 8 | checksum of the rest |
//! | 8 to 16 | id |
//! | 16 to 24 | round in which it was written: number, proposer |
//! | 24 to 32 | round of its author: number, proposer |
//! | 32 to 40 | request |
//! | 40 to 52 | communicator, source, tag |
//! | 52 to 60 | repetitions |
//! | 60 | event |
//! | 61 | 1 if it is the first entry of its author |
//!
//! Numbers are little-endian, the last 2 bytes are zero.

use xxhash_rust::xxh3::xxh3_64;

use crate::determinant::{Determinant, Event};
use crate::logger::entry::Entry;
use crate::logger::round::Round;

/// The bytes of a slot: a line of a processor's cache.
pub type Slot = [u8; 64];

/// A slot that nobody has written to.
pub const EMPTY: Slot = [0; 64];

const EVENTS: [Event; 8] = [
    Event::Receive,
    Event::Probe,
    Event::Iprobe,
    Event::Test,
    Event::WaitAny,
    Event::Send,
    Event::Clock,
    Event::Cancel,
];

/// The bytes of an entry that is written in a round.
#[must_use]
pub fn encode(round: Round, entry: &Entry) -> Slot {
    let Entry { origin, is_first, determinant: one } = entry;
    let mut slot = EMPTY;
    let words = [one.id, join(round), join(*origin), one.request];
    for (word, at) in words.into_iter().zip((8..).step_by(8)) {
        slot[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let halves = [one.communicator, one.source, one.tag as u32];
    for (half, at) in halves.into_iter().zip((40..).step_by(4)) {
        slot[at..at + 4].copy_from_slice(&half.to_le_bytes());
    }
    slot[52..60].copy_from_slice(&one.repetitions.to_le_bytes());
    slot[60] = EVENTS.iter().position(|event| *event == one.event).expect("the list has all events") as u8;
    slot[61] = u8::from(*is_first);
    let checksum = xxh3_64(&slot[8..]);
    slot[..8].copy_from_slice(&checksum.to_le_bytes());
    slot
}

/// The entry in a slot, and the round in which it was written; none if it is empty, or was written in part.
#[must_use]
pub fn decode(slot: &Slot) -> Option<(Round, Entry)> {
    let word = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("4 bytes"));
    if word(0) != xxh3_64(&slot[8..]) {
        return None;
    }
    let determinant = Determinant {
        id: word(8),
        event: *EVENTS.get(usize::from(slot[60]))?,
        communicator: half(40),
        source: half(44),
        tag: half(48) as i32,
        request: word(32),
        repetitions: word(52),
    };
    Some((split(word(16)), Entry { origin: split(word(24)), is_first: slot[61] == 1, determinant }))
}

fn join(round: Round) -> u64 {
    u64::from(round.number) << 32 | u64::from(round.proposer)
}

fn split(word: u64) -> Round {
    Round { number: (word >> 32) as u32, proposer: word as u32 }
}
