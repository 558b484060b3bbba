//! The part of a slot that a rank fills under replication.
//!
//! ```text
//! offset  size  field
//!    152     4  the rank of the program that the process runs, plus one; 0: there is no replication
//!    156     4  the number of the replica
//!    160     4  findings noted, times two, odd while one is being written
//!    164     4  when the last was noted, in microseconds
//!    168    36  its kind, a word
//!    204   224  its sentence
//! ```

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{NAME, Segment, is_of_a_name};

/// Offset of the news in the segment.
const NEWS: usize = 40;
const REPLICA: usize = 152;
const FINDING: usize = 160;
/// Bytes of a sentence: the longest has 215 with the largest numbers.
const SENTENCE: usize = 224;

/// Which replica a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaOf {
    /// The rank of the program.
    pub of: u32,
    /// The number of the replica, from 0.
    pub index: u32,
}

impl fmt::Display for ReplicaOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replica {} of rank {}", self.index, self.of)
    }
}

/// What a replica has found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Number of findings noted so far.
    pub count: u32,
    /// Time of the last; correct within half an hour.
    pub at: Duration,
    /// The kind of the last, a word.
    pub kind: String,
    /// The last, in a sentence.
    pub sentence: String,
}

impl Segment {
    /// Notes which replica the process in a slot is.
    pub fn note_replica(&self, slot: u32, replica: ReplicaOf) {
        let offset = self.slot_offset(slot) + REPLICA;
        self.word(offset + 4).store(replica.index, Ordering::Relaxed);
        self.word(offset).store(replica.of.wrapping_add(1), Ordering::Release);
        self.word(NEWS).fetch_add(1, Ordering::Release);
    }

    /// Which replica the process in a slot is; `None` without replication.
    #[must_use]
    pub fn replica(&self, slot: u32) -> Option<ReplicaOf> {
        let offset = self.slot_offset(slot) + REPLICA;
        let of = self.word(offset).load(Ordering::Acquire).checked_sub(1)?;
        Some(ReplicaOf { of, index: self.word(offset + 4).load(Ordering::Relaxed) })
    }

    /// Notes that the process in a slot has found something wrong, at `now` on [`platform::clock`]. Only one thread may
    /// call it at a time.
    pub fn note_finding(&self, slot: u32, kind: &str, sentence: &str, now: Duration) {
        let offset = self.slot_offset(slot) + FINDING;
        self.note(offset, now, || {
            self.write_text::<NAME>(offset + 8, kind, is_of_a_name);
            self.write_text::<SENTENCE>(offset + 8 + NAME, sentence, is_of_a_sentence);
        });
        self.word(NEWS).fetch_add(1, Ordering::Release);
    }

    /// The last finding of the process in a slot, if it is not one of the first `known` and is not being written.
    #[must_use]
    pub fn finding_after(&self, slot: u32, known: u32, now: Duration) -> Option<Finding> {
        let offset = self.slot_offset(slot) + FINDING;
        let (count, at, (kind, sentence)) = self.noted_after(offset, known, now, || {
            let sentence = self.read_text::<SENTENCE>(offset + 8 + NAME, is_of_a_sentence);
            (self.read_text::<NAME>(offset + 8, is_of_a_name), sentence)
        })?;
        Some(Finding { count, at, kind, sentence })
    }

    /// A number that changes with every note of a rank about replicas.
    #[must_use]
    pub fn news_of_replicas(&self) -> u32 {
        self.word(NEWS).load(Ordering::Acquire)
    }
}

/// A corrupted rank may write anything.
fn is_of_a_sentence(byte: &u8) -> bool {
    (b' '..=b'~').contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_replica_is_and_finds_is_known_to_others() {
        let (segment, _file) = Segment::create(&[4, 5], 3).unwrap();
        let (now, me) = (Duration::from_secs(9), ReplicaOf { of: 0, index: 2 });
        assert_eq!((segment.replica(1), segment.news_of_replicas()), (None, 0));
        segment.note_replica(1, me);
        assert_eq!((segment.replica(0), segment.replica(1)), (None, Some(me)));
        assert_eq!(me.to_string(), "replica 2 of rank 0");
        let sentence = "message 1 from rank 0 to rank 1: they differ";
        segment.note_finding(1, "undecided", "another", now);
        segment.note_finding(1, "undecided", &format!("{sentence}\u{1b}[2J"), now);
        let finding = segment.finding_after(1, 0, now).unwrap();
        assert_eq!((finding.count, &*finding.kind, &*finding.sentence, finding.at), (2, "undecided", sentence, now));
        assert_eq!((segment.finding_after(1, 2, now), segment.finding_after(0, 0, now)), (None, None));
        assert_eq!(segment.news_of_replicas(), 3);
        segment.note_finding(1, "corrupt", &"x".repeat(2 * SENTENCE), now);
        assert_eq!(segment.finding_after(1, 2, now).unwrap().sentence.len(), SENTENCE);
        assert_eq!((segment.rank(1), segment.entry(0)), (5, None), "neighbouring fields are unchanged");
    }
}
