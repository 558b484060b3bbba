//! Failure detection and propagation as a state machine without I/O.
//!
//! The nodes of a job form a ring. Each sends heartbeats to its successor, its *observer*, and watches
//! its predecessor, its *emitter*. A node whose emitter falls silent for longer than a timeout suspects it;
//! the death is then broadcast over a circulant graph to every survivor, log2 n hops deep, and the ring
//! closes over the gap. This is the detector of Bosilca, Bouteiller, Guermouche, Herault, Robert, Sens and
//! Dongarra, "A failure detector for HPC platforms" (IJHPCA 2018), called *the paper* in these docs.
//!
//! # What this crate adds to the paper
//!
//! - **An arbiter.** With [`Config::arbiter`] set, a suspicion is only a proposal: one node, the launcher's,
//!   declares deaths, after it has asked the suspect for a sign of life. A network that falls apart then
//!   leaves exactly one side alive, because whoever loses contact with the arbiter first holds what runs on
//!   it, and stops if the contact does not come back. Without an arbiter the machine is the paper's.
//! - **Loss.** The paper assumes lossless channels. Here every message that matters is sent again until it
//!   is answered, so plain UDP will do.
//! - **A leaner broadcast.** [`Strategy::Tree`] costs three messages per node instead of 2 log2 n and bears the same
//!   crashes.
//! - **Coming and going.** Nodes join ([`Member::grow`]) and leave in order ([`Member::leave`]); neither is a failure.
//! - **A choice of ring.** [`topology`] keeps nodes of one rack apart, so that a lost rack is found at once.
//! - **More subjects.** The same broadcast also announces dead ranks, the end of the job, and doubt about
//!   the contact with the arbiter.
//!
//! # What this crate does not do
//!
//! It opens no socket, reads no clock, starts no thread and draws no random number. The caller hands in the
//! time and the messages and carries out the [`Action`]s. A daemon, a simulator and a fuzzer can therefore
//! run the same code, and a run is a function of its inputs:
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
//! | module | one idea |
//! |---|---|
//! | [`Config`] | who I am and the times of the protocol |
//! | [`Message`], [`Subject`] | what members say to each other |
//! | [`bundle`] | which messages travel together |
//! | [`Action`], [`Fact`] | what a member asks of its caller |
//! | [`Member`] | the machine |
//! | [`graph`] | who passes a broadcast on to whom |
//! | [`RingOrder`], [`topology`] | who follows whom on the ring, and how to keep a rack apart |
//! | [`wire`] | bytes: framing, authentication, replay protection |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod action;
mod broadcast;
pub mod bundle;
mod config;
mod dead;
pub mod graph;
mod member;
mod message;
mod ring;
pub mod topology;
pub mod wire;

pub use action::{Action, Fact, StopReason};
pub use broadcast::BroadcastId;
pub use config::{Config, ConfigError, Strategy};
pub use dead::Death;
pub use member::Member;
pub use message::{EndReason, Message, NodeReason, Notice, RankReason, Route, Subject};
pub use ring::RingOrder;

/// A point in time: how long after an arbitrary origin, on a clock that never goes back.
///
/// [`Time::MAX`](std::time::Duration::MAX) stands for "never".
pub type Time = std::time::Duration;

/// A node of the job: 0 to [`Config::universe`] - 1, without holes.
pub type NodeId = u32;
