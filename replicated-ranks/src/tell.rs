//! Where the tools of a job learn of its replicas.

use replication::replicas::Replica;

/// Functions that are told what this process is and finds.
#[derive(Clone, Copy, Debug)]
pub struct Tell {
    /// It is this replica.
    pub replica: fn(Replica),
    /// It has found something wrong: the kind, which is a word, and a sentence.
    pub finding: fn(&str, &str),
}
