//! What an onlooker who sees everything knows: who is alive, who knows of which death, whether the ring is closed.

use std::collections::{HashMap, HashSet};

use propagation::{Member, NodeId, RingOrder};

/// The true state of the platform.
#[derive(Debug)]
pub struct Truth {
    nodes: u32,
    order: RingOrder,
    alive: u32,
    /// Where in `subjects` a node is.
    index: HashMap<NodeId, usize>,
    subjects: Vec<Subject>,
    /// How many of the dead are not known to all.
    unknown: usize,
    /// The nodes alive whose neighbours on the ring are not the nearest nodes alive.
    astray: HashSet<NodeId>,
}

/// A node that is dead, or held dead by somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The node.
    pub node: NodeId,
    /// When it died.
    pub died: Option<u64>,
    /// When it was first declared dead, and by whom.
    pub declared: Option<(u64, NodeId)>,
    /// When every node alive knew.
    pub known_by_all: Option<u64>,
    /// How many of the nodes alive know.
    known: u32,
}

impl Truth {
    /// All are alive.
    pub fn new(nodes: u32, order: RingOrder) -> Truth {
        Truth {
            nodes,
            order,
            alive: nodes,
            index: HashMap::new(),
            subjects: Vec::new(),
            unknown: 0,
            astray: HashSet::new(),
        }
    }

    /// The number of a node among those that are dead or held dead.
    pub fn subject(&mut self, node: NodeId) -> usize {
        *self.index.entry(node).or_insert_with(|| {
            let subject = Subject { node, died: None, declared: None, known_by_all: None, known: 0 };
            self.subjects.push(subject);
            self.subjects.len() - 1
        })
    }

    /// The number of a node if it has one.
    pub fn number(&self, node: NodeId) -> Option<usize> {
        self.index.get(&node).copied()
    }

    /// Those that are dead or held dead.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Whether a node is alive.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.index.get(&node).is_none_or(|&index| self.subjects[index].died.is_none())
    }

    /// A node dies that knew of `known`. Returns the neighbours that are left to it on the ring.
    pub fn die(&mut self, at: u64, node: NodeId, known: impl Iterator<Item = NodeId>) -> [NodeId; 2] {
        for known in known {
            let subject = self.subject(known);
            self.subjects[subject].known -= 1;
        }
        let subject = self.subject(node);
        self.subjects[subject].died = Some(at);
        self.alive -= 1;
        self.astray.remove(&node);
        for subject in &mut self.subjects {
            subject.settle(at, self.alive);
        }
        self.unknown = self.subjects.iter().filter(|subject| subject.is_news(self.alive)).count();
        [self.nearest_alive(node, self.nodes - 1), self.nearest_alive(node, 1)]
    }

    /// A node alive learns of a death; true if now all know.
    #[inline]
    pub fn learn(&mut self, at: u64, index: usize) -> bool {
        let subject = &mut self.subjects[index];
        let before = subject.is_news(self.alive);
        subject.known += 1;
        subject.settle(at, self.alive);
        let done = before && !subject.is_news(self.alive);
        self.unknown -= usize::from(done);
        done
    }

    /// A node declares a death; true the first time.
    pub fn declare(&mut self, at: u64, index: usize, by: NodeId) -> bool {
        let declared = &mut self.subjects[index].declared;
        let first = declared.is_none();
        declared.get_or_insert((at, by));
        first
    }

    /// Compares the neighbours of a node alive with the nearest nodes alive.
    pub fn check(&mut self, node: NodeId, member: &Member) {
        let alone = |neighbour: NodeId| (neighbour != node).then_some(neighbour);
        let right = member.emitter() == alone(self.nearest_alive(node, self.nodes - 1))
            && member.observer() == alone(self.nearest_alive(node, 1));
        if right {
            self.astray.remove(&node);
        } else {
            self.astray.insert(node);
        }
    }

    /// Whether every node alive is observed by its nearest successor alive.
    pub fn is_closed(&self) -> bool {
        self.astray.is_empty()
    }

    /// Whether all know all deaths and the ring is closed (a stable configuration, section 3.1.3 of the paper).
    pub fn is_stable(&self) -> bool {
        self.unknown == 0 && self.is_closed()
    }

    /// How many nodes are alive.
    pub fn alive(&self) -> u32 {
        self.alive
    }

    /// The nearest node alive in steps of `step` along the ring; the node itself if there is no other.
    fn nearest_alive(&self, node: NodeId, step: u32) -> NodeId {
        let next = |at: NodeId| {
            let place = u64::from(self.order.place(at)) + u64::from(step);
            self.order.node((place % u64::from(self.nodes)) as u32)
        };
        let mut at = next(node);
        while at != node && !self.is_alive(at) {
            at = next(at);
        }
        at
    }
}

impl Subject {
    /// Whether it is dead and somebody does not know.
    fn is_news(&self, alive: u32) -> bool {
        self.died.is_some() && self.known < alive
    }

    fn settle(&mut self, at: u64, alive: u32) {
        if self.died.is_some() && self.known == alive {
            self.known_by_all.get_or_insert(at);
        }
    }
}
