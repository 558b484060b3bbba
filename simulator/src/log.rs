//! What an onlooker reports of a run, line by line.

use std::fmt;

use propagation::{Message, NodeId, StopReason};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A node dies.
    Died(NodeId),
    /// A node asks the arbiter about another.
    Suspected {
        /// The suspect.
        node: NodeId,
        /// Who suspects it.
        by: NodeId,
    },
    /// A node is declared dead for the first time.
    Declared {
        /// The node.
        node: NodeId,
        /// Who declares it.
        by: NodeId,
        /// Whether it is alive.
        alive: bool,
    },
    /// A broadcast begins.
    Broadcast {
        /// Its number in this run.
        number: u32,
        /// Its source.
        source: NodeId,
        /// Whom the notice lists as dead.
        dead: Vec<NodeId>,
        /// Whether an earlier one is rescued with it, because it was not known to be complete in time.
        rescue: bool,
    },
    /// Everybody alive knows of a death.
    KnownByAll(NodeId),
    /// A member stops.
    Stopped(NodeId, StopReason),
    /// Every node alive is observed by the nearest one again.
    RingClosed,
    /// All know all, and the ring is closed.
    Stable,
    /// A message is sent. Only if [`Log::messages`] says so.
    Sent {
        /// Who sends it.
        from: NodeId,
        /// Who gets it.
        to: NodeId,
        /// Its kind.
        kind: &'static str,
    },
}

/// Takes down what happens.
pub trait Log {
    /// Something happened, so many nanoseconds after the steady state; before it if negative.
    fn enter(&mut self, at: i64, entry: Entry);

    /// Whether single messages are of interest.
    fn messages(&self) -> bool {
        false
    }
}

/// Takes down nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoLog;

impl Log for NoLog {
    fn enter(&mut self, _: i64, _: Entry) {}
}

/// Takes down all, for tests.
impl Log for Vec<(i64, Entry)> {
    fn enter(&mut self, at: i64, entry: Entry) {
        self.push((at, entry));
    }
}

/// The kind of a message as the counters name it.
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Heartbeat { .. } => "heartbeat",
        Message::NewObserver => "new observer",
        Message::Suspect { .. } => "suspicion",
        Message::Notice(_) => "notice",
        Message::Ack { .. } => "acknowledgement",
        Message::Probe => "probe",
        Message::ProbeReply => "probe reply",
        Message::Verdict => "verdict",
        Message::Complete { .. } => "complete",
        Message::Done { .. } => "done",
        _ => "other",
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Died(node) => write!(f, "node {node} dies"),
            Entry::Suspected { node, by } => write!(f, "node {by} asks the arbiter about node {node}"),
            Entry::Declared { node, by, alive: false } => write!(f, "node {by} declares node {node} dead"),
            Entry::Declared { node, by, alive: true } => {
                write!(f, "node {by} declares node {node} dead, which is alive")
            }
            Entry::Broadcast { number, source, dead, rescue } => {
                let what = if *rescue { " is rescued" } else { " begins" };
                write!(f, "broadcast {number} of node {source}{what}, dead: ")?;
                for (place, node) in dead.iter().take(8).enumerate() {
                    write!(f, "{}{node}", if place > 0 { ", " } else { "" })?;
                }
                if dead.len() > 8 { write!(f, " and {} more", dead.len() - 8) } else { Ok(()) }
            }
            Entry::KnownByAll(node) => write!(f, "the death of node {node} is known by all"),
            Entry::Stopped(node, reason) => write!(f, "node {node} stops: {reason}"),
            Entry::RingClosed => f.write_str("the ring is closed"),
            Entry::Stable => f.write_str("all know all deaths, and the ring is closed: stable"),
            Entry::Sent { from, to, kind } => write!(f, "node {from} sends node {to}: {kind}"),
        }
    }
}
