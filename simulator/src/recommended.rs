//! The dynamic group of recommended processes over time: the machines of [`recommended_group`], one process on each
//! host.
//!
//! The simulator owns the time, the network, the load of the hosts, and who is killed or stopped.
//!
//! | module | idea |
//! |---|---|
//! | [`load`] | how long an answer takes on a host with jobs of others |
//! | [`scenario`] | what is simulated |
//! | [`run`] | hands the events to the machines |
//! | [`trace`] | 30,000 intervals as the paper's table 3 and figures 7 to 13 |
//! | [`costs`] | tests, messages and latency by number of processes |
//! | [`total_order`] | the atomic broadcasts of the thesis's annex A |

pub mod costs;
pub mod load;
pub mod run;
pub mod scenario;
pub mod total_order;
pub mod trace;
