//! Stores what this process knows of deaths. No other module stores these facts.
//!
//! | fact | used for |
//! |---|---|
//! | any process is dead ([`are_known`]) | protections that are needed only after the first death |
//! | a certain process is dead ([`is_new`]) | the error scope `global`, which interrupts once for each death |
//! | number of deaths that the failure log has reported to MPI ([`reported`]) | the history, which has one error for each |
//!
//! The failure log, agreements and runtime events report the same death in any order. The scope `global` interrupts the
//! communicators that exist when a death is counted. A repeated report does not interrupt communicators that survivors
//! have made since; and a death interrupts nothing in a process that is spawned later.
//!
//! Open MPI stores which members of a communicator are dead, and [`proc`](openmpi_internals::proc) which processes are.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use openmpi_internals::loaded::ProcessName;
use openmpi_internals::sync::lock;

static ARE_KNOWN: AtomicBool = AtomicBool::new(false);
static COUNTED: Mutex<BTreeSet<[u8; 8]>> = Mutex::new(BTreeSet::new());
static REPORTED: AtomicU32 = AtomicU32::new(0);

/// Notes that a process is dead.
pub fn note() {
    ARE_KNOWN.store(true, Ordering::Release);
}

/// Whether any death is known.
#[inline]
pub fn are_known() -> bool {
    ARE_KNOWN.load(Ordering::Acquire)
}

/// Counts a death. Returns whether it is the first report of it.
pub fn is_new(dead: ProcessName) -> bool {
    lock(&COUNTED).insert(dead.bytes())
}

/// Counts an entry of the failure log that is reported to MPI.
pub fn note_report() {
    REPORTED.fetch_add(1, Ordering::Relaxed);
}

/// Number of entries of the failure log that are reported to MPI.
pub fn reported() -> u32 {
    REPORTED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_dies_once() {
        let rank = |rank| ProcessName::new(0x1_0001, rank);
        assert_eq!([3, 4, 3, 4, 3].map(|number| is_new(rank(number))), [true, true, false, false, false]);
        assert!(is_new(ProcessName::new(0x1_0002, 3)));
    }
}
