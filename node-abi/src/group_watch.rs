//! Defines what a rank tells the `ringwatchd` of its node of its group of recommended processes.
//!
//! A rank sends datagrams to a socket of the abstract namespace and gets no answer. Each holds one [`Word`] in postcard
//! encoding. Ranks have their numbers among the ranks of all jobs of one `mpirun`.

use recommended_group::report::{Change, Row};
use recommended_group::units::Rank;
use serde::{Deserialize, Serialize};

/// Environment variable of ranks with the name of the socket, without the leading zero byte.
pub const GROUP_VARIABLE: &str = "RINGWATCH_GROUP_WATCH";

/// Maximum length of a datagram in bytes.
pub const LONGEST_WORD: usize = 16 << 10;

/// Maximum number of rows in a datagram.
pub const ROWS: usize = 240;

/// A group and its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number of its first process: the name of the group.
    pub first: Rank,
    /// Number of its processes, in the group or not.
    pub processes: u32,
    /// Time between two tests of a process, in microseconds.
    pub interval_us: u64,
    /// Tests in a row before a return.
    pub passes: u32,
    /// The estimate of a threshold is multiplied by so many thousandths.
    pub multiplier: u32,
    /// Then so many microseconds are added.
    pub addend_us: u64,
    /// Whether who passes the tests comes back.
    pub returns: bool,
    /// Whether processes are tested as in VCube.
    pub vcube: bool,
}

/// One datagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// This process has decided that a process leaves, or comes back.
    Changed {
        /// The number of the group's first process.
        group: Rank,
        /// What it has decided.
        change: Change,
    },
    /// How this process sees the group, or a part of it.
    Sight {
        /// The group.
        group: Group,
        /// How many rounds are complete.
        round: u64,
        /// The number of the round's view.
        epoch: u64,
        /// Whether the program waits at the barrier.
        waits: bool,
        /// The place of the first row among all.
        from: u32,
        /// Rows, at most [`ROWS`].
        rows: Vec<Row>,
    },
}

/// The name of the socket of a node.
#[must_use]
pub fn socket_name(uid: u32, job: u64, node: u32) -> String {
    format!("ringwatch-group/{uid}/{job:016x}/{node}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use recommended_group::report::{Standing, Tested};

    use super::*;

    #[test]
    fn the_longest_word_fits_into_a_datagram() {
        let long = Duration::new(u64::MAX, 999_999_999);
        let tested = Some(Tested::of(Some(long), long, false));
        let row = Row {
            rank: u32::MAX,
            standing: Standing::Left,
            is_in_round: true,
            counter: u32::MAX,
            streak: u32::MAX,
            threshold: long,
            tested,
        };
        let group = Group {
            first: u32::MAX,
            processes: u32::MAX,
            interval_us: u64::MAX,
            passes: u32::MAX,
            multiplier: u32::MAX,
            addend_us: u64::MAX,
            returns: true,
            vcube: true,
        };
        let rows = vec![row; ROWS];
        let word = Word::Sight { group, round: u64::MAX, epoch: u64::MAX, waits: true, from: u32::MAX, rows };
        assert!(postcard::to_stdvec(&word).unwrap().len() <= LONGEST_WORD);
    }
}
