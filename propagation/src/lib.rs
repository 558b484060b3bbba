//! Implements failure detection and propagation as a state machine without I/O.
//!
//! The nodes of a job form a ring. Each sends heartbeats to its successor, its *observer*, and watches its predecessor,
//! its *emitter*. A node whose emitter is silent for longer than a timeout suspects it. The death is then broadcast
//! over a circulant graph to every survivor, log2 n hops deep, and the ring closes over the gap. This is the detector
//! of Bosilca, Bouteiller, Guermouche, Herault, Robert, Sens and Dongarra, "A failure detector for HPC platforms"
//! (IJHPCA 2018), called *the paper* in these docs.
//!
//! # Additions to the paper
//!
//! - **An arbiter.** With [`Config::arbiter`] set, a suspicion is only a proposal: one node, the launcher's, declares
//!   deaths, after it has probed the suspect. A partitioned network then keeps exactly one side alive, because a node
//!   that loses contact with the arbiter first holds its part of the job, and stops if the contact does not return.
//!   Without an arbiter the machine is the paper's.
//! - **Neighbours that die together.** The nodes behind a silent emitter are asked in parallel, and those that are
//!   silent, too, are suspected with it. Only with an arbiter.
//! - **Loss.** The paper assumes lossless channels. Here every message that matters is repeated until it is answered,
//!   so plain UDP suffices.
//! - **A cheaper broadcast.** [`Strategy::Tree`] costs three messages per node instead of 2 log2 n and tolerates the
//!   same crashes.
//! - **Joining and leaving.** Nodes join ([`Member::grow`]) and leave in order ([`Member::leave`]); neither is a
//!   failure.
//! - **A choice of ring.** [`topology`] keeps nodes of one rack apart, so that a lost rack is detected at once.
//! - **More subjects.** The same broadcast also announces dead ranks, the end of the job, and doubt about the contact
//!   with the arbiter.
//!
//! # Limits of this crate
//!
//! It opens no socket, reads no clock, starts no thread and draws no random number. The caller passes time and messages
//! and carries out the [`Action`]s. So a daemon, a simulator and a fuzzer can run the same code, and a run is a
//! function of its inputs:
//!
//! ```
//! use std::time::Duration;
//! use propagation::{Action, Config, Member, Message};
//!
//! let second = Duration::from_secs(1);
//! let config = Config::new(1, 3, second / 10, second);
//! let mut member = Member::new(config, [], Duration::ZERO);
//! let mut actions = Vec::new();
//! member.tick(Duration::ZERO, &mut actions);
//! // Node 1 of the ring 0, 1, 2 reports to node 2.
//! let heartbeat = Message::Heartbeat { count: 1 };
//! assert_eq!(actions, [Action::Send { to: 2, message: heartbeat }]);
//! assert_eq!(member.next_deadline(), second / 10);
//! ```
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | [`Config`] | the member's identity and the times of the protocol |
//! | [`Message`], [`Subject`] | messages between members |
//! | [`bundle`] | messages that share a datagram |
//! | [`address_runs`] | addresses in few bytes |
//! | [`Action`], [`Fact`] | actions that a member requests of its caller |
//! | [`Member`] | the state machine |
//! | [`graph`] | the graph of a broadcast |
//! | [`RingOrder`], [`topology`] | the order of the ring, and an order that keeps a rack apart |
//! | [`wire`] | bytes: framing, authentication, replay protection |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod action;
pub mod address_runs;
mod broadcast;
pub mod bundle;
mod config;
mod dead;
pub mod graph;
mod member;
mod message;
mod ring;
pub mod topology;
mod units;
pub mod wire;

pub use action::{Action, Fact, StopReason};
pub use config::{Config, ConfigError, Strategy};
pub use dead::Death;
pub use member::Member;
pub use message::{BroadcastId, EndReason, Message, NodeReason, Notice, RankReason, Route, Subject};
pub use ring::RingOrder;
pub use units::{NodeId, Time};
