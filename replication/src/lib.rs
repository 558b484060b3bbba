//! Replicated ranks whose messages are compared before or after they are used (Ford, *Lazy Fault Detection for
//! Redundant MPI*, Cal Poly 2016), as a state machine without I/O.
//!
//! Calls of a program, messages of other replicas and deaths come in, actions come out. A process, the simulator and
//! the tests run the same code.
//!
//! | module | idea |
//! |---|---|
//! | [`replicas`] | how many replicas each rank has, and which live |
//! | [`method`] | what a sender owes each replica of the receiver |
//! | [`digest`] | the hash of a message |
//! | [`copies`] | the copies of one message at a receiver, and what they say together |
//! | [`inbox`] | messages of a source become ready in the order of sending |
//! | [`matching`] | which message a receive gets, at the replica that decides and at those that follow |
//! | [`outbox`] | what a sender keeps until all receivers have verified it |
//! | [`decisions`] | outcomes that the program does not determine: one replica decides, nobody uses what could be forgotten |
//! | [`call`], [`message`], [`action`] | what goes in and comes out |
//! | [`finding`] | what was found wrong, as a sentence |
//! | [`machine`] | the machine of one replica |
//!
//! # What the caller owes
//!
//! - Messages between two processes arrive in the order of sending, and are lost only with the death of one of the two.
//! - Who is declared dead is dead, and everybody hears of it.
//! - A program depends on its messages and on the outcomes of its calls alone. Calls of a replica come one at a time.
//! - A process leaves when `Finalize` has returned at all living processes.
//! - A replica that is found corrupt is killed, or rebuilt as a new process. This crate does neither.
#![forbid(unsafe_code)]

pub mod action;
pub mod call;
pub mod copies;
pub mod decisions;
pub mod digest;
pub mod finding;
pub mod inbox;
pub mod machine;
pub mod matching;
pub mod message;
pub mod method;
pub mod outbox;
pub mod replicas;
#[doc(hidden)]
pub mod variant;
