//! What came of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use propagation::NodeId;

/// What came of a run. Times count from the steady state it began with.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The dead and those held dead, in the order of their deaths.
    pub deaths: Vec<Death>,
    /// When the state became stable: all nodes alive knew all deaths and the ring was closed; `None` if it had not by
    /// the end of the run.
    pub stable: Option<Duration>,
    /// When the ring was closed for the last time.
    pub closed: Option<Duration>,
    /// How many broadcasts were begun.
    pub broadcasts: u64,
    /// The messages sent until the end of the run, by kind. Heartbeats are counted apart.
    pub messages: BTreeMap<&'static str, u64>,
    /// The heartbeats that were simulated.
    pub heartbeats: u64,
    /// Nodes that were alive when they were declared dead.
    pub false_deaths: u32,
    /// The nodes alive at the end.
    pub alive: u32,
    /// When the run ended.
    pub end: Duration,
    /// How much work the run was: what differs from one [`Elision`](crate::Elision) to another.
    pub work: Work,
}

/// How much work a run was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Events that were taken from the queue.
    pub events: u64,
    /// Copies that were counted but not simulated.
    pub elided: u64,
    /// Members that were created.
    pub members: u32,
}

/// A node that died or was held dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The node.
    pub node: NodeId,
    /// When it died; `None` if it is alive.
    pub at: Option<Duration>,
    /// When it was first declared dead, and by whom.
    pub declared: Option<(Duration, NodeId)>,
    /// When every node alive knew of it.
    pub known_by_all: Option<Duration>,
}

impl Outcome {
    /// How long it took until all knew the first death, and until the state was stable; `None` unless both came.
    pub fn stabilization(&self) -> Option<(Duration, Duration)> {
        let first = self.deaths.first()?;
        let at = first.at?;
        Some((first.known_by_all?.saturating_sub(at), self.stable?.saturating_sub(at)))
    }

    /// All messages but heartbeats.
    pub fn message_count(&self) -> u64 {
        self.messages.values().sum()
    }
}
