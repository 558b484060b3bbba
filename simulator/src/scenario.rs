//! What is simulated.

use std::time::Duration;

use propagation::{Config, NodeId, RingOrder, Strategy};

use crate::bounds::{self, Times};

/// One run's settings. Times are rounded down to nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The number of nodes, at least 1 (N in the paper).
    pub nodes: u32,
    /// The time between two heartbeats (eta in the paper), above zero.
    pub period: Duration,
    /// The silence after which a node is suspected (delta in the paper), longer than `period`.
    pub timeout: Duration,
    /// The longest time a message takes (tau in the paper), above zero: each takes a time uniform in (0, tau].
    pub tau: Duration,
    /// Who dies when.
    pub failures: Failures,
    /// The order of the nodes on the ring.
    pub order: RingOrder,
    /// How deaths are broadcast.
    pub strategy: Strategy,
    /// Whether node 0 declares all deaths, as in `ringwatchd`; else every observer does, as in the paper.
    pub arbiter: bool,
    /// Whether a node sends at most one message at a time, and receives at most one (section 3.1.2 of the paper).
    pub one_port: bool,
    /// The share of messages that get lost, from 0 up to but not including 1.
    pub loss: f64,
    /// The share of messages that come twice, from 0 to 1.
    pub duplication: f64,
    /// Where every number drawn comes from: equal scenarios with equal seeds run alike, bit for bit.
    pub seed: u64,
    /// What is left out because it has no effect; only where that can be known (see [`Scenario::elision`]).
    pub elision: Elision,
    /// When the run ends at the latest, after the first failure; `None` for long enough for any run within the paper's
    /// bounds.
    pub horizon: Option<Duration>,
}

/// Who dies when. Times count from the steady state that a run begins with.
#[derive(Clone, Debug, PartialEq)]
pub enum Failures {
    /// Exactly these.
    Schedule(Vec<(NodeId, Duration)>),
    /// So many different nodes: the first at 0, the others at times uniform in this span.
    Within {
        /// How many.
        count: u32,
        /// The span.
        span: Duration,
    },
    /// One at 0, then more as each node fails after an exponentially distributed time with this mean, until the state
    /// is stable (mu_ind in the paper).
    Exponential {
        /// The mean time between failures of one node, above zero.
        node_mtbf: Duration,
    },
}

/// What a run leaves out. `docs/simulator.md` says why the result is the same; the tests compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elision {
    /// Heartbeats between nodes that stay alive for the whole run.
    pub heartbeats: bool,
    /// Copies of a broadcast that arrive at a node after another copy. Only in the circulant graph: in the tree no
    /// copy is superfluous.
    pub copies: bool,
    /// The members of nodes whose neighbours on the ring stay alive: what such a node does on a notice is worked out
    /// from the notice alone. Only together with `heartbeats`; in the tree only with a single failure.
    pub members: bool,
}

impl Elision {
    /// Leaves out all that it can.
    pub const ALL: Elision = Elision { heartbeats: true, copies: true, members: true };
    /// Leaves out nothing.
    pub const NONE: Elision = Elision { heartbeats: false, copies: false, members: false };
}

/// What is wrong with a [`Scenario`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// No nodes, or too many to be numbered in memory.
    #[error("the number of nodes is {0}: it must be from 1 to 16777216")]
    Nodes(u32),
    /// A time that must be above zero is not.
    #[error("the {0} is zero: it must be above zero")]
    Zero(&'static str),
    /// The timeout is not longer than the period.
    #[error("the timeout {timeout:?} must be longer than the heartbeat period {period:?}")]
    ShortTimeout {
        /// The timeout.
        timeout: Duration,
        /// The period.
        period: Duration,
    },
    /// A time of the protocol that nobody waits for.
    #[error("the {0} is longer than a year: it must be at most 8766h")]
    Long(&'static str),
    /// More nodes die than there are.
    #[error("{failures} failures were asked for, but there are only {nodes} nodes: at most {nodes} can fail")]
    TooManyFailures {
        /// The failures.
        failures: usize,
        /// The nodes.
        nodes: u32,
    },
    /// More than memory has room for.
    #[error(
        "{failures} failures of {nodes} nodes take {gib} GiB to simulate: at most {most} failures of so many nodes can be"
    )]
    Memory {
        /// The failures.
        failures: usize,
        /// The nodes.
        nodes: u32,
        /// What that takes.
        gib: u64,
        /// How many failures of so many nodes can be simulated.
        most: u64,
    },
    /// More nodes than memory has room for the members of.
    #[error("{nodes} nodes take {gib} GiB to simulate where none is left out: at most {most} can be")]
    Members {
        /// The nodes.
        nodes: u32,
        /// What they take.
        gib: u64,
        /// How many can be simulated.
        most: u64,
    },
    /// A failure of a node that does not exist.
    #[error("node {node} is to fail, but the nodes are 0 to {}", .nodes.saturating_sub(1))]
    UnknownNode {
        /// The node.
        node: NodeId,
        /// The number of nodes.
        nodes: u32,
    },
    /// A node dies twice.
    #[error("node {0} is to fail twice: a node fails once")]
    Twice(NodeId),
    /// The ring order is one of other nodes.
    #[error("the ring order names {named} nodes, but there are {nodes}: they must be the same")]
    RingOrder {
        /// The nodes in the order.
        named: u32,
        /// The nodes.
        nodes: u32,
    },
    /// No failure at all.
    #[error("no failure is given: a run begins with the first one")]
    NoFailure,
    /// Not a probability.
    #[error("the {what} is {value}: it must be from 0 to {most}")]
    Probability {
        /// Which.
        what: &'static str,
        /// The value.
        value: String,
        /// The largest allowed, in words.
        most: &'static str,
    },
}

/// Most bytes for a run: for members, who knows of whose death, and when each has its first copies.
const MOST_BYTES: u64 = 6 << 30;
/// Of a node with a member, and what that remembers of a death.
const MEMBER_BYTES: u64 = 3 << 10;
const DEATH_BYTES: u64 = 80;

impl Scenario {
    /// A single failure at time 0 under the paper's protocol on a lossless network with tau = 1 ms.
    pub fn new(nodes: u32, period: Duration, timeout: Duration) -> Scenario {
        Scenario {
            nodes,
            period,
            timeout,
            tau: Duration::from_millis(1),
            failures: Failures::Within { count: 1, span: Duration::ZERO },
            order: RingOrder::default(),
            strategy: Strategy::Circulant,
            arbiter: false,
            one_port: false,
            loss: 0.0,
            duplication: 0.0,
            seed: 1,
            elision: Elision::ALL,
            horizon: None,
        }
    }

    /// Scenario LowNoise of section 4.1 of the paper: period 10 s, timeout 60 s.
    pub fn low_noise(nodes: u32) -> Scenario {
        Scenario::new(nodes, Duration::from_secs(10), Duration::from_secs(60))
    }

    /// Scenario LowLat of section 4.1 of the paper: period 0.1 s, timeout 1 s.
    pub fn low_lat(nodes: u32) -> Scenario {
        Scenario::new(nodes, Duration::from_millis(100), Duration::from_secs(1))
    }

    /// Checks the ranges given at the fields.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        let Scenario { nodes, period, timeout, tau, .. } = *self;
        if nodes == 0 || nodes > 1 << 24 {
            return Err(ScenarioError::Nodes(nodes));
        }
        let times = [("heartbeat period", period), ("timeout", timeout), ("message time tau", tau)];
        for (name, time) in times {
            if time.is_zero() {
                return Err(ScenarioError::Zero(name));
            }
        }
        for (name, time) in times.into_iter().chain(self.horizon.map(|time| ("horizon", time))) {
            if time > Duration::from_secs(8766 * 3600) {
                return Err(ScenarioError::Long(name));
            }
        }
        if timeout <= period {
            return Err(ScenarioError::ShortTimeout { timeout, period });
        }
        if let Some(named) = self.order.named().filter(|&named| named != nodes) {
            return Err(ScenarioError::RingOrder { named, nodes });
        }
        let probability = |what, value: f64, fits: bool, most| {
            let error = ScenarioError::Probability { what, value: value.to_string(), most };
            if fits && value >= 0.0 { Ok(()) } else { Err(error) }
        };
        probability("loss", self.loss, self.loss < 1.0, "less than 1")?;
        probability("duplication", self.duplication, self.duplication <= 1.0, "1")?;
        self.failures.validate(nodes, self)
    }

    /// What this run leaves out of what it was allowed to: nothing if messages get lost, come twice, wait for a port,
    /// or if there is an arbiter, to whom any node may have something to say; nothing if a node could be suspected
    /// while it is alive, or if the ring has another order than that of the ids.
    pub fn elision(&self) -> Elision {
        let plain = self.order.named().is_none()
            && !self.arbiter
            && !self.one_port
            && self.is_lossless()
            && self.duplication == 0.0;
        let perfect = self.timeout > self.period + self.tau;
        if !plain || !perfect {
            return Elision::NONE;
        }
        let Elision { heartbeats, copies, members } = self.elision;
        let circulant = self.strategy == Strategy::Circulant;
        // A tree is repaired, or rescued, where somebody died whom the notice does not name.
        let simple = circulant || matches!(self.failures, Failures::Within { count: 1, .. });
        Elision { heartbeats, copies: copies && circulant, members: members && heartbeats && simple }
    }

    /// Whether every message arrives.
    pub fn is_lossless(&self) -> bool {
        self.loss == 0.0
    }

    /// The settings of one node's member.
    pub fn config(&self, me: NodeId) -> Config {
        let mut config = Config::new(me, self.nodes, self.period, self.timeout);
        config.arbiter = self.arbiter.then_some(0);
        config.lossless = self.is_lossless();
        config.order = self.order.clone();
        config.strategy = self.strategy;
        config.tau = self.tau;
        config
    }

    /// How long a run takes before its first failure: every node has started and every observer has had a heartbeat.
    pub(crate) fn warm_up(&self) -> u64 {
        nanos(self.period) * 2 + nanos(self.tau)
    }

    /// What the paper's bounds are made of.
    #[must_use]
    pub fn times(&self) -> Times {
        Times { timeout: self.timeout, tau: self.tau }
    }

    /// When the run ends at the latest, after the steady state.
    pub(crate) fn horizon(&self) -> u64 {
        let span = match &self.failures {
            Failures::Schedule(list) => list.iter().map(|&(_, at)| at).max().unwrap_or_default(),
            Failures::Within { span, .. } => *span,
            // Stable long before, unless the platform fails faster than it can be repaired.
            Failures::Exponential { .. } => return nanos(self.horizon.unwrap_or(self.timeout * 60)),
        };
        let known = self.failures.known();
        nanos(
            self.horizon.unwrap_or_else(|| {
                span.saturating_add(bounds::stable(known, self.nodes, self.times()).saturating_mul(2))
            }),
        )
    }
}

impl Failures {
    /// How many there are, as far as that is known beforehand.
    pub fn known(&self) -> u32 {
        match self {
            Failures::Schedule(list) => list.len() as u32,
            Failures::Within { count, .. } => *count,
            Failures::Exponential { .. } => 1,
        }
    }

    /// How many of so many nodes fail before the run ends at the latest; in the mean, where chance decides.
    fn expected(&self, nodes: u32, scenario: &Scenario) -> usize {
        match self {
            Failures::Exponential { node_mtbf } if !node_mtbf.is_zero() => {
                let share = 1.0 - (-(scenario.horizon() as f64) / node_mtbf.as_nanos() as f64).exp();
                (f64::from(nodes) * share) as usize
            }
            others => others.known() as usize,
        }
    }

    fn validate(&self, nodes: u32, scenario: &Scenario) -> Result<(), ScenarioError> {
        let failures = self.known() as usize;
        if failures == 0 {
            return Err(ScenarioError::NoFailure);
        }
        if failures > nodes as usize {
            return Err(ScenarioError::TooManyFailures { failures, nodes });
        }
        let failures = self.expected(nodes, scenario);
        let elision = scenario.elision();
        let (member, memory) = if elision.members { (0, 0) } else { (MEMBER_BYTES, DEATH_BYTES * 8) };
        // For each death a bit, and four bytes where late copies are left out; in bits.
        let death = 1 + memory + if elision.copies { 32 } else { 0 };
        let bytes = u64::from(nodes) * (failures as u64 * death / 8 + member);
        let members = u64::from(nodes) * member;
        if members > MOST_BYTES {
            return Err(ScenarioError::Members { nodes, gib: members >> 30, most: MOST_BYTES / member });
        }
        if bytes > MOST_BYTES {
            let most = (MOST_BYTES / u64::from(nodes) - member) * 8 / death;
            return Err(ScenarioError::Memory { failures, nodes, gib: bytes >> 30, most });
        }
        match self {
            Failures::Schedule(list) => {
                let mut seen = std::collections::BTreeSet::new();
                for &(node, at) in list {
                    if node >= nodes {
                        return Err(ScenarioError::UnknownNode { node, nodes });
                    }
                    if !seen.insert(node) {
                        return Err(ScenarioError::Twice(node));
                    }
                    if at > Duration::from_secs(8766 * 3600) {
                        return Err(ScenarioError::Long("time of a failure"));
                    }
                }
            }
            Failures::Exponential { node_mtbf } if node_mtbf.is_zero() => {
                return Err(ScenarioError::Zero("mean time between failures"));
            }
            Failures::Within { span, .. } if *span > Duration::from_secs(8766 * 3600) => {
                return Err(ScenarioError::Long("span of the failures"));
            }
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}
