//! Configures a member: its identity, and the times of its protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::message::Route;
use crate::ring::RingOrder;
use crate::units::NodeId;

/// The settings of one [`Member`](crate::Member). All but `me` and `incarnation` must be equal in the whole job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// This node: less than `universe`.
    pub me: NodeId,
    /// The number of nodes the job started with (N in the paper), at least 1.
    pub universe: u32,
    /// The time between two heartbeats (eta in the paper), above zero.
    pub period: Duration,
    /// The time between two heartbeats of this node until it is [ready](crate::Member::ready), from `period` to below
    /// `timeout`. The ring then takes less of the processors while the ranks start. The timeout is the same.
    pub launch_period: Duration,
    /// The silence after which an emitter is suspected (delta in the paper), longer than `period`.
    pub timeout: Duration,
    /// Time without a message of the arbiter after which a member stops: above zero, at most `timeout`; an eighth
    /// longer if its emitter reports in the last moment.
    ///
    /// A suspicion takes one `timeout` and its confirmation at most `confirm`, so a part of the network that
    /// was cut off has stopped within 2 x `timeout`. After an eighth of it the member holds its ranks
    /// ([`Action::Hold`](crate::Action::Hold)).
    pub confirm: Duration,
    /// How long the arbiter waits for a suspect's answer before it declares it dead, at most `confirm`; zero declares
    /// at once. It adds to the detection time of a silent death.
    pub trial: Duration,
    /// How many nodes behind a silent emitter are asked at a time whether they live, so that neighbours that die
    /// together are found together; 0 for none, as in the paper, and without effect if suspects are not tried.
    pub candidates: u32,
    /// The time between two copies of a message that was not answered yet, above zero.
    pub resend: Duration,
    /// The order of the nodes on the ring.
    pub order: RingOrder,
    /// The strategy of this node's broadcasts of dead nodes and ranks.
    pub strategy: Strategy,
    /// An upper bound on the time that one message takes (tau in the paper), above zero. Only [`Strategy::Tree`]
    /// depends on it, and only in how fast and how often it falls back on the circulant graph.
    pub tau: Duration,
    /// Whether no message gets lost, as the paper assumes: then nothing is acknowledged or sent again, and `resend`
    /// has no effect. For simulations of the paper, never for a real network.
    pub lossless: bool,
    /// The only node that declares deaths; `None` runs the paper's protocol, where every observer does.
    pub arbiter: Option<NodeId>,
    /// Number of earlier starts of this node's member: distinguishes its broadcasts from those of earlier incarnations.
    /// Must grow with every restart.
    pub incarnation: u32,
}

/// The strategy of a broadcast; see [`graph`](crate::graph) for costs and guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// The paper's double hypercube: each participant forwards to all its neighbours in the circulant graph.
    #[default]
    Circulant,
    /// A binomial tree with a proof of completeness; without the proof the circulant graph rescues the broadcast.
    Tree,
}

impl Config {
    /// Whether a suspect is probed before it is declared dead.
    pub(crate) fn asks_suspects(&self) -> bool {
        self.arbiter.is_some() && !self.trial.is_zero()
    }
}

impl Strategy {
    /// The strategy of this name: `circulant` or `tree`.
    pub fn from_name(name: &str) -> Option<Strategy> {
        [Strategy::Circulant, Strategy::Tree].into_iter().find(|strategy| strategy.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Circulant => "circulant",
            Strategy::Tree => "tree",
        }
    }
}

impl From<Strategy> for Route {
    fn from(strategy: Strategy) -> Route {
        match strategy {
            Strategy::Circulant => Route::Circulant,
            Strategy::Tree => Route::Tree,
        }
    }
}

/// The error in a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// `me` is not below `universe`.
    #[error("node {me} is not one of the {universe} nodes of the job")]
    UnknownMe {
        /// The node named as this one.
        me: NodeId,
        /// The number of nodes.
        universe: u32,
    },
    /// `arbiter` is not below `universe`.
    #[error("the arbiter {arbiter} is not one of the {universe} nodes of the job")]
    UnknownArbiter {
        /// The node named as the arbiter.
        arbiter: NodeId,
        /// The number of nodes.
        universe: u32,
    },
    /// `period` is zero.
    #[error("the heartbeat period must be above zero")]
    NoPeriod,
    /// `timeout` is not longer than `period`.
    #[error("the timeout {timeout:?} must be longer than the heartbeat period {period:?}")]
    ShortTimeout {
        /// The heartbeat period.
        period: Duration,
        /// The suspicion timeout.
        timeout: Duration,
    },
    /// `launch_period` is shorter than `period`, or not shorter than `timeout`.
    #[error("the heartbeat period of the launch {0:?} must be at least the period, and shorter than the timeout")]
    BadLaunchPeriod(Duration),
    /// `confirm` is zero or longer than `timeout`.
    #[error("the time to confirm {confirm:?} must be above zero and at most the timeout {timeout:?}")]
    BadConfirm {
        /// The time to confirm.
        confirm: Duration,
        /// The suspicion timeout.
        timeout: Duration,
    },
    /// `trial` is longer than `confirm`.
    #[error("the trial of a suspect {trial:?} must be at most the time to confirm {confirm:?}")]
    LongTrial {
        /// The time a suspect is given to answer.
        trial: Duration,
        /// The time to confirm.
        confirm: Duration,
    },
    /// `resend` is zero.
    #[error("the time between copies must be above zero")]
    NoResend,
    /// `order` names more nodes than there are.
    #[error("the ring order names {named} nodes, but the job has {universe}")]
    LongOrder {
        /// The number of nodes in the order.
        named: u32,
        /// The number of nodes.
        universe: u32,
    },
    /// `tau` is zero.
    #[error("the time that a message takes must be above zero")]
    NoTau,
}

impl Config {
    /// Settings with usual values: `confirm` is `timeout` less two periods but 0.6 to 0.8 `timeout`, `trial` a tenth of
    /// `timeout` within 2 ms to 50 ms but at most `confirm`, 8 `candidates`, `resend` half a `period` within 1 ms to
    /// 50 ms because messages may get lost, `tau` half of that; the launch has no period of its own, ring and
    /// broadcasts are the paper's, the arbiter is node 0, and this is the first incarnation.
    pub fn new(me: NodeId, universe: u32, period: Duration, timeout: Duration) -> Config {
        // A heartbeat that is read on demand, as by RDMA, counts up to a period later than it arrived.
        let confirm = timeout.saturating_sub(period.saturating_mul(2)).clamp(timeout / 5 * 3, timeout / 5 * 4);
        Config {
            me,
            universe,
            period,
            launch_period: period,
            timeout,
            confirm,
            trial: (timeout / 10).clamp(Duration::from_millis(2), Duration::from_millis(50)).min(confirm),
            candidates: 8,
            resend: (period / 2).clamp(Duration::from_millis(1), Duration::from_millis(50)),
            order: RingOrder::default(),
            strategy: Strategy::default(),
            tau: (period / 4).clamp(Duration::from_micros(500), Duration::from_millis(25)),
            lossless: false,
            arbiter: Some(0),
            incarnation: 0,
        }
    }

    /// Time after an unanswered message until the next copy; [`Duration::MAX`] for never.
    pub(crate) fn resend_after(&self) -> Duration {
        if self.lossless { Duration::MAX } else { self.resend }
    }

    /// Checks the ranges of the fields.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Config { me, universe, period, timeout, confirm, .. } = *self;
        if me >= universe {
            return Err(ConfigError::UnknownMe { me, universe });
        }
        match self.arbiter {
            Some(arbiter) if arbiter >= universe => {
                return Err(ConfigError::UnknownArbiter { arbiter, universe });
            }
            _ => {}
        }
        if period.is_zero() {
            return Err(ConfigError::NoPeriod);
        }
        if timeout <= period {
            return Err(ConfigError::ShortTimeout { period, timeout });
        }
        if self.launch_period < period || self.launch_period >= timeout {
            return Err(ConfigError::BadLaunchPeriod(self.launch_period));
        }
        if confirm.is_zero() || confirm > timeout {
            return Err(ConfigError::BadConfirm { confirm, timeout });
        }
        if self.trial > confirm {
            return Err(ConfigError::LongTrial { trial: self.trial, confirm });
        }
        if self.resend.is_zero() {
            return Err(ConfigError::NoResend);
        }
        match self.order.named() {
            Some(named) if named > universe => return Err(ConfigError::LongOrder { named, universe }),
            _ => {}
        }
        if self.tau.is_zero() {
            return Err(ConfigError::NoTau);
        }
        Ok(())
    }

    /// Whether this node is the arbiter.
    pub fn is_arbiter(&self) -> bool {
        self.arbiter == Some(self.me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn usual_settings_are_valid() {
        let config = Config::new(2, 3, 100 * MS, 1000 * MS);
        assert_eq!(config.validate(), Ok(()));
        assert_eq!((config.confirm, config.trial, config.resend), (800 * MS, 50 * MS, 50 * MS));
        let [short, shortest] = [5, 3].map(|periods| Config::new(2, 3, 100 * MS, periods * 100 * MS).confirm);
        assert_eq!((short, shortest), (300 * MS, 180 * MS));
        let quick = Config::new(0, 1, MS, 2 * MS);
        assert_eq!((quick.resend, quick.trial), (MS, quick.confirm));
        assert_eq!(quick.validate(), Ok(()));
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let good = Config::new(2, 3, 100 * MS, 1000 * MS);
        let check = |change: fn(&mut Config)| {
            let mut config = good.clone();
            change(&mut config);
            config.validate().unwrap_err()
        };
        assert!(matches!(check(|c| c.me = 3), ConfigError::UnknownMe { .. }));
        assert!(matches!(check(|c| c.arbiter = Some(3)), ConfigError::UnknownArbiter { .. }));
        assert!(matches!(check(|c| c.period = Duration::ZERO), ConfigError::NoPeriod));
        assert!(matches!(check(|c| c.timeout = c.period), ConfigError::ShortTimeout { .. }));
        assert!(matches!(check(|c| c.launch_period = c.period / 2), ConfigError::BadLaunchPeriod(_)));
        assert!(matches!(check(|c| c.launch_period = c.timeout), ConfigError::BadLaunchPeriod(_)));
        assert!(matches!(check(|c| c.confirm = c.timeout * 2), ConfigError::BadConfirm { .. }));
        assert!(matches!(check(|c| c.confirm = Duration::ZERO), ConfigError::BadConfirm { .. }));
        assert!(matches!(check(|c| c.trial = c.confirm * 2), ConfigError::LongTrial { .. }));
        assert!(matches!(check(|c| c.resend = Duration::ZERO), ConfigError::NoResend));
        assert!(matches!(check(|c| c.tau = Duration::ZERO), ConfigError::NoTau));
        assert!(matches!(
            check(|c| c.order = RingOrder::new(vec![3, 2, 1, 0]).unwrap()),
            ConfigError::LongOrder { named: 4, universe: 3 }
        ));
    }
}
