//! What a process that takes a rank over makes of the entries that it has found.

use crate::logger::entry::Entry;
use crate::logger::promises::Found;
use crate::logger::round::Position;

/// The longest history after the checkpoint. What is behind a gap, or of an abandoned life, was not stable.
#[must_use]
pub fn history(after: Position, found: &Found<Entry>) -> Vec<Entry> {
    let mut at = after;
    let mut history = Vec::new();
    for (_, entry) in found.range(after.id + 1..).map(|(_, best)| best) {
        if !entry.follows(at) {
            break;
        }
        at = entry.position();
        history.push(*entry);
    }
    history
}
