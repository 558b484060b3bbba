//! How long messages take, and what becomes of them on the way.

use std::collections::VecDeque;

use propagation::bundle::Room;
use propagation::{Message, NodeId};

use crate::queue::What;
use crate::random::{Purpose, Stream};
use crate::scenario::{Scenario, nanos};

/// The network of one run.
#[derive(Debug)]
pub struct Network {
    tau: u64,
    loss: f64,
    duplication: f64,
    messages: Stream,
    heartbeats: Stream,
    faults: Stream,
    ports: Option<Ports>,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Who sends it.
    pub from: NodeId,
    /// Who gets it.
    pub to: NodeId,
    /// What happens there.
    pub what: What,
    /// How long it takes from the moment at which both ports are free, in nanoseconds.
    pub delay: u64,
}

impl Network {
    /// The network of this scenario.
    pub fn new(scenario: &Scenario) -> Network {
        let stream = |purpose| Stream::new(scenario.seed, purpose);
        Network {
            tau: nanos(scenario.tau),
            loss: scenario.loss,
            duplication: scenario.duplication,
            messages: stream(Purpose::Messages),
            heartbeats: stream(Purpose::Heartbeats),
            faults: stream(Purpose::Faults),
            ports: scenario.one_port.then(|| Ports::new(scenario.nodes)),
        }
    }

    /// The time that the next message takes, uniform in (0, tau].
    #[inline]
    pub fn delay(&mut self) -> u64 {
        self.messages.up_to(self.tau)
    }

    /// The time that this heartbeat takes, uniform in (0, tau].
    pub fn heartbeat_delay(&self, node: NodeId, count: u32) -> u64 {
        self.heartbeats.heartbeat(node, u64::from(count), self.tau)
    }

    /// How often a message arrives: once, but for loss and duplication.
    pub fn arrivals(&mut self) -> usize {
        if self.loss == 0.0 && self.duplication == 0.0 {
            return 1;
        }
        let lost = self.faults.chance(self.loss);
        let twice = self.faults.chance(self.duplication);
        if lost { 0 } else { 1 + usize::from(twice) }
    }

    /// The ports, if a node has only one.
    pub fn ports(&mut self) -> Option<&mut Ports> {
        self.ports.as_mut()
    }
}

/// One port per node, which sends at most one message at a time and receives at most one (Bhat et al. 2003).
///
/// A message keeps the sender's and the receiver's port for the time it takes. If the receiver's is taken the sender
/// waits for it, and so does everything behind in its queue. What waits for the same node and may share a datagram goes
/// with the first, as one message.
#[derive(Debug)]
pub struct Ports {
    waiting: Vec<VecDeque<(Transfer, Message)>>,
    sending_until: Vec<u64>,
    receiving_until: Vec<u64>,
}

impl Ports {
    fn new(nodes: u32) -> Ports {
        let nodes = nodes as usize;
        Ports { waiting: vec![VecDeque::new(); nodes], sending_until: vec![0; nodes], receiving_until: vec![0; nodes] }
    }

    /// Queues a message; true if its sender's port was idle, so that [`next`](Self::next) is due now.
    pub fn enqueue(&mut self, now: u64, transfer: Transfer, message: Message) -> bool {
        let waiting = &mut self.waiting[transfer.from as usize];
        // Broadcasts are inserted between heartbeats, not the other way round (section 3.1.2 of the paper).
        if matches!(transfer.what, What::Heartbeat { .. }) {
            waiting.push_front((transfer, message))
        } else {
            waiting.push_back((transfer, message))
        }
        waiting.len() == 1 && self.sending_until[transfer.from as usize] <= now
    }

    /// Begins the next message of `node`, whose port is free: what goes with it, itself first, and when it has arrived,
    /// which is also when the port is free again.
    pub fn next(&mut self, now: u64, node: NodeId) -> Option<(Vec<Transfer>, u64)> {
        let waiting = &mut self.waiting[node as usize];
        let (transfer, message) = waiting.pop_front()?;
        let (mut room, mut together) = (Room::beside(&message), vec![transfer]);
        waiting.retain(|(other, message)| {
            let goes_along = other.to == transfer.to && room.takes(message);
            together.extend(goes_along.then_some(*other));
            !goes_along
        });
        let receiver = &mut self.receiving_until[transfer.to as usize];
        let arrival = now.max(*receiver) + transfer.delay;
        *receiver = arrival;
        self.sending_until[node as usize] = arrival;
        Some((together, arrival))
    }

    /// Empties the queue of a node that has died.
    pub fn clear(&mut self, node: NodeId) {
        self.waiting[node as usize].clear();
    }
}
