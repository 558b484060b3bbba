//! Runs the event logger of this node: it stores logged events of ranks on enough nodes that a rank's replacement can
//! replay them. Only in a job that requests it (`event_loggers`).
//!
//! A rank connects to the logger of its node ([`ranks`]), which is the proposer of the rank's own sequence of Paxos
//! ([`writer`]). The acceptors are on the nodes of [`node_abi::event_loggers::loggers_of`] ([`store`]); the one on the
//! own node needs no message. The state machines are those of `event-log`.
//!
//! | module | subject |
//! |---|---|
//! | [`service`] | combines the others; called by the daemon |
//! | [`ranks`] | the socket for ranks, and their connections |
//! | [`writer`] | the sequence of one connected rank: no I/O |
//! | [`replacements`] | progress of the replacements of ranks: no I/O |
//! | [`store`] | this node's part of all sequences |
//! | [`journal`] | the file that preserves it when `ringwatchd` ends |
//! | [`words`] | messages between loggers of different nodes: no I/O |

pub mod journal;
pub mod ranks;
pub mod replacements;
pub mod service;
pub mod store;
pub mod words;
pub mod writer;
