//! A rank's connection to the event logger of its node, a part of `ringwatchd`.
//!
//! [`Client::save`] hands determinants over and never waits; [`Client::wait_stable`] waits until enough nodes have
//! them. What is not stable the client keeps: a logger that is started again is told anew.
//!
//! | module | one idea |
//! |---|---|
//! | [`client`] | what a rank calls |
//! | [`connection`] | packets to and from `ringwatchd` |

#![forbid(unsafe_code)]

pub mod client;
pub mod connection;

pub use client::{Client, Error, Taken};
