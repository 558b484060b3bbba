//! The determinants of a rank that are not stable yet.
//!
//! A logger's cost is per message, and a rank waits only before it sends. So determinants are gathered, and go in one
//! message just before the next send. The message has all that is not stable, from the first such one on: whoever
//! accepts an entry has accepted all before it that were not stable, so that a quorum never shows a gap below an entry
//! that was accepted as a whole.

use std::collections::VecDeque;

use crate::determinant::{Determinant, DeterminantId};
use crate::logger::OutOfOrder;
use crate::logger::entry::Entry;
use crate::logger::round::{Position, Round};

/// Entries in one message at most: 64 bytes each fit into one datagram.
pub const MOST_IN_A_MESSAGE: usize = 512;

/// A queue of entries from the first that is not stable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outstanding {
    /// The last stable entry.
    stable: Position,
    /// All after it.
    waiting: VecDeque<Entry>,
    /// The last one that is to be sent.
    flushed: DeterminantId,
    /// The last one that has been sent.
    sent: DeterminantId,
    /// Who saves.
    author: Round,
    has_saved: bool,
}

impl Outstanding {
    /// Nothing is outstanding after this position.
    #[must_use]
    pub fn new(stable: Position, author: Round) -> Self {
        Self { stable, waiting: VecDeque::new(), flushed: stable.id, sent: stable.id, author, has_saved: false }
    }

    /// Entries that a replacement has found, to be made stable by it.
    #[must_use]
    pub fn of_found(after: Position, found: impl IntoIterator<Item = Entry>, author: Round) -> Self {
        let mut new = Self { waiting: found.into_iter().collect(), ..Self::new(after, author) };
        new.flushed = new.last();
        new
    }

    /// Adds a determinant.
    ///
    /// # Errors
    /// If its id is not the next one.
    pub fn push(&mut self, determinant: Determinant) -> Result<(), OutOfOrder> {
        let expected = self.last() + 1;
        if determinant.id != expected {
            return Err(OutOfOrder { expected, found: determinant.id });
        }
        self.waiting.push_back(Entry { origin: self.author, is_first: !self.has_saved, determinant });
        self.has_saved = true;
        Ok(())
    }

    /// All up to the last one may be sent.
    pub fn flush(&mut self) {
        self.flushed = self.last();
    }

    /// What to send now, if there is something that has not been sent, with ids up to `limit`.
    pub fn unsent(&mut self, limit: DeterminantId) -> Option<Vec<Entry>> {
        let run = self.run(limit);
        let last = run.last()?.determinant.id;
        (last > self.sent).then(|| {
            self.sent = last;
            run
        })
    }

    /// From the first that is not stable, as much as one message has.
    #[must_use]
    pub fn run(&self, limit: DeterminantId) -> Vec<Entry> {
        let end = self.flushed.min(limit).saturating_sub(self.stable.id);
        self.waiting.iter().take((end as usize).min(MOST_IN_A_MESSAGE)).copied().collect()
    }

    /// All up to this one are stable. Returns whether that is news.
    pub fn settle(&mut self, up_to: DeterminantId) -> bool {
        let before = self.stable;
        while let Some(entry) = self.waiting.front().filter(|entry| entry.determinant.id <= up_to) {
            self.stable = entry.position();
            self.waiting.pop_front();
        }
        self.sent = self.sent.max(self.stable.id);
        self.stable != before
    }

    /// The last stable entry.
    #[must_use]
    pub fn stable(&self) -> Position {
        self.stable
    }

    /// The id of the last entry.
    #[must_use]
    pub fn last(&self) -> DeterminantId {
        self.stable.id + self.waiting.len() as u64
    }

    /// How many are not stable.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether all are stable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
