//! A broadcast under way.
//!
//! When each node gets its first copy, as far as that is known: most copies come later than one that is already known,
//! and of those nothing is kept but their number.

use std::sync::Arc;

use propagation::{NodeId, Notice};

/// Nobody has sent a copy yet.
const NEVER: u32 = u32::MAX;

/// The longest time that the spread of a broadcast can take here, in nanoseconds.
pub const LONGEST: u64 = NEVER as u64 - 1;

/// A broadcast under way.
#[derive(Debug)]
pub struct Spread {
    /// What its copies say.
    pub notice: Arc<Notice>,
    /// Which of the subjects of this run its list names, one bit each.
    pub names: Vec<u8>,
    /// When it began, in nanoseconds.
    began: u64,
    /// Per node the earliest arrival known, in nanoseconds since `began`; one less once the node has taken it in. Empty
    /// if that is of no interest: then every copy counts as the first.
    earliest: Vec<u32>,
}

impl Spread {
    /// A broadcast that begins now; the first copies of so many nodes are told from later ones.
    pub fn new(notice: Arc<Notice>, names: Vec<u8>, began: u64, nodes: usize) -> Spread {
        let mut earliest = vec![NEVER; nodes];
        if let Some(source) = earliest.get_mut(notice.source as usize) {
            *source = 0;
        }
        Spread { notice, names, began, earliest }
    }

    /// A copy will arrive at `at`; false if another comes before it.
    #[inline]
    pub fn offer(&mut self, node: NodeId, at: u64) -> bool {
        let offset = (at - self.began) as u32;
        let Some(earliest) = self.earliest.get_mut(node as usize) else { return true };
        let first = offset <= *earliest;
        *earliest = offset.min(*earliest);
        first
    }

    /// A copy arrives; true for the first one.
    #[inline]
    pub fn take(&mut self, node: NodeId, at: u64) -> bool {
        let offset = (at - self.began) as u32;
        let Some(earliest) = self.earliest.get_mut(node as usize) else { return true };
        let first = offset == *earliest;
        if first {
            // From now on no copy is earlier, not even one of the same instant.
            *earliest -= 1;
        }
        first
    }
}
