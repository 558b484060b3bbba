//! Derives a member's settings from the launch data.

use node_abi::launch::Startup;
use propagation::{Config, RingOrder};

/// The settings of this node's member.
#[must_use]
pub fn config(startup: &Startup) -> Config {
    let parameters = &startup.launch.parameters;
    let config = Config::new(startup.me, startup.launch.universe, parameters.period, parameters.timeout);
    let order = match startup.launch.ring.as_slice() {
        [] => RingOrder::default(),
        // Every node falls back in the same way.
        ring => RingOrder::new(ring.to_vec()).unwrap_or_default(),
    };
    // While the ranks start, four heartbeats in a timeout are enough: a failure ends the job then anyway.
    let launch_period = parameters.period.max(parameters.timeout / 4);
    Config { incarnation: startup.incarnation, order, strategy: parameters.strategy, launch_period, ..config }
}
