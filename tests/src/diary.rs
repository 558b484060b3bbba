//! What the ranks write down: one file each, lines `rank nanoseconds event details`.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// `MPIX_ERR_PROC_FAILED` of Open MPI 5.
pub const PROC_FAILED: &str = "75";
/// `MPIX_ERR_PROC_FAILED_PENDING`.
pub const PENDING: &str = "76";
/// `MPIX_ERR_REVOKED`.
pub const REVOKED: &str = "77";

/// One line of a diary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// See [`crate::clock::now`].
    pub at: Duration,
    /// First word.
    pub event: String,
    /// The other words.
    pub details: Vec<String>,
}

impl Entry {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let rank = words.next()?.parse().ok()?;
        let at = Duration::from_nanos(words.next()?.parse().ok()?);
        let event = words.next()?.to_owned();
        Some(Self { rank, at, event, details: words.map(str::to_owned).collect() })
    }

    /// The details as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.details.join(" ")
    }

    /// A detail that is a number.
    #[must_use]
    pub fn number(&self, index: usize) -> Option<u32> {
        self.details.get(index)?.parse().ok()
    }
}

/// The diaries of a job.
#[derive(Clone, Debug, Default)]
pub struct Diaries(pub Vec<Entry>);

impl Diaries {
    /// Reads what has been written so far; entries in order of time.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let mut entries: Vec<Entry> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|file| file.file_name().to_string_lossy().starts_with("rank."))
            .flat_map(|file| Self::of_file(&file.path()).0)
            .collect();
        entries.sort_by_key(|entry| entry.at);
        Self(entries)
    }

    /// One diary.
    #[must_use]
    pub fn of_file(path: &Path) -> Self {
        Self(fs::read_to_string(path).unwrap_or_default().lines().filter_map(Entry::read).collect())
    }

    /// The entries of one rank.
    pub fn of(&self, rank: u32) -> impl DoubleEndedIterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.rank == rank)
    }

    /// The entries about one event.
    pub fn all(&self, event: &str) -> impl DoubleEndedIterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.event == event)
    }

    /// The first entry of a rank about an event.
    #[must_use]
    pub fn first(&self, rank: u32, event: &str) -> Option<&Entry> {
        self.of(rank).find(|entry| entry.event == event)
    }

    /// The last entry of a rank about an event.
    #[must_use]
    pub fn last(&self, rank: u32, event: &str) -> Option<&Entry> {
        self.of(rank).rfind(|entry| entry.event == event)
    }

    /// Whether a rank wrote about an event.
    #[must_use]
    pub fn has(&self, rank: u32, event: &str) -> bool {
        self.first(rank, event).is_some()
    }

    /// Process number of a rank.
    #[must_use]
    pub fn pid(&self, rank: u32) -> Option<i32> {
        self.first(rank, "started")?.details.first()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_a_torn_one_is_not() {
        let entry = Entry::read("3 1500 shrunk 7 2").unwrap();
        assert_eq!((entry.rank, entry.at, entry.number(0)), (3, Duration::from_nanos(1500), Some(7)));
        assert_eq!(entry.text(), "7 2");
        assert_eq!(Entry::read("3 15"), None);
        assert_eq!(Entry::read(""), None);
    }
}
