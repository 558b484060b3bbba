//! Implements `ringwatchd`, the per-node offload daemon, and the transports of the protocol in `propagation`.
//!
//! | module | subject |
//! |---|---|
//! | [`daemon`] | the main loop |
//! | [`detector`] | deaths on this node, and their consequences for the job |
//! | [`ring`] | this node's place in the ring |
//! | [`session`] | connections with nodes, the plugin and tools |
//! | [`transport`] | datagrams and flags between nodes |
//! | [`offload`] | a host whose part in the ring another machine runs |
//! | [`history`] | data of `ringwatch events`: events on every node |
//! | [`report`] | data of `ringwatch status` |
//! | [`groups`] | data of `ringwatch group`: what ranks tell of groups of recommended processes |
//! | [`logger`] | the event logger: stores ranks' events on several nodes |
//! | [`process`] | the process itself |

pub mod daemon;
pub mod detector;
pub mod groups;
pub mod history;
pub mod logger;
pub mod offload;
pub mod process;
pub mod report;
pub mod ring;
pub mod session;
pub mod transport;
