//! Tells the progress loop whether ringwatch has pending work.
//!
//! A turn reads one word ([`WORD`]). Modules with pending work [request turns](request_turns). The turn that leaves no
//! work clears the word.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Number of turns that are skipped while this rank rests.
const TURNS: u32 = 1000;

/// The word that turns read: in this rank's slot of the segment once that is known.
pub static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
static NEVER: AtomicU32 = AtomicU32::new(0);
static ALWAYS: AtomicU32 = AtomicU32::new(1);
/// Number of turns still to be skipped.
static RESTING: AtomicU32 = AtomicU32::new(0);

/// The word that turns read.
pub fn word() -> &'static AtomicU32 {
    // SAFETY: a static, or a word of this rank's segment, which stays mapped.
    unsafe { &*WORD.load(Ordering::Relaxed) }
}

/// Makes turns read `word`; they do nothing with `None`.
pub fn read(word: Option<&'static AtomicU32>) {
    WORD.store((&raw const *word.unwrap_or(&NEVER)).cast_mut(), Ordering::Release);
}

/// Makes turns read a word that always requests work.
pub fn read_always() {
    read(Some(&ALWAYS));
}

/// Whether turns read that word.
pub fn is_always() -> bool {
    std::ptr::eq(word(), &ALWAYS)
}

/// Whether turns read a word that can be set.
pub fn is_possible() -> bool {
    !std::ptr::eq(word(), &NEVER)
}

/// Requests turns until no work is left.
pub fn request_turns() {
    if is_possible() {
        word().store(1, Ordering::Release);
    }
    RESTING.store(0, Ordering::Relaxed);
}

/// Skips turns for some time, unless [`request_turns`] is called or a process dies.
pub fn rest() {
    RESTING.store(TURNS, Ordering::Relaxed);
}

/// Ends the rest: every turn does its work.
pub fn end_rest() {
    RESTING.store(0, Ordering::Relaxed);
}

/// Counts a turn, and returns whether to skip it.
pub fn is_resting() -> bool {
    let left = RESTING.load(Ordering::Relaxed);
    if left > 0 {
        // Threads may count the same turn, or put a woken rank to rest again: a rest lasts at most a thousand turns.
        RESTING.store(left - 1, Ordering::Relaxed);
    }
    left > 0
}
