//! The dynamic group of recommended processes (Camargo and Duarte, JBCS 24:5, 2018; Camargo, PhD thesis, UFPR 2017,
//! chapter 4) as a state machine without I/O.
//!
//! Processes test each other at intervals. Whoever fails the test of a member leaves the group; whoever passes some
//! tests in a row is voted back. A program runs in rounds, each mapped on the members of a view that all of them agree
//! on. Time and messages come in, [`action::Action`]s come out.
//!
//! | module | idea |
//! |---|---|
//! | [`units`] | how processes, events and time are counted |
//! | [`group`] | a set of processes |
//! | [`counters`] | one counter of events for each process: even is recommended, odd is not; the highest value counts |
//! | [`estimator`] | the threshold of a reply follows the replies |
//! | [`test`](mod@test) | a test has a question whose answer can be checked |
//! | [`cluster`] | the clusters of a virtual hypercube, and who stands in for whom |
//! | [`assignment`] | who tests whom: all each other, or VCube |
//! | [`config`] | parameters |
//! | [`event`] | news for all members, over a graph that survives crashes |
//! | [`trials`] | the tests of one interval, and the verdict of a tester that may be slow itself |
//! | [`ballot`] | the leader counts votes on a return |
//! | [`view`] | the members of a round, on which all of them agree |
//! | [`barrier`] | how they agree |
//! | [`message`] | what processes say to each other |
//! | [`action`] | what the caller does, and is told |
//! | [`member`] | one process |
//! | [`report`] | what it tells those who watch |
#![forbid(unsafe_code)]

pub mod action;
pub mod assignment;
pub mod ballot;
pub mod barrier;
pub mod cluster;
pub mod config;
pub mod counters;
pub mod estimator;
pub mod event;
pub mod group;
pub mod member;
pub mod message;
pub mod report;
pub mod test;
pub mod trials;
pub mod units;
pub mod view;
