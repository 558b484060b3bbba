//! Sender-based pessimistic message logging (Camargo, PhD thesis, UFPR 2017, chapter 5) as state machines without I/O.
//!
//! Time, messages and the events of a program come in, actions come out. A rank, the simulator and the tests run the
//! same code.
//!
//! | module | idea |
//! |---|---|
//! | [`determinant`] | the record of one event whose outcome the program does not determine |
//! | [`protocol`] | a rank's part: what it keeps, when it waits, and how it or a peer is replayed |
//! | [`logger`] | where determinants are stable: centralised, classic Paxos, parallel Paxos, one-sided |
#![forbid(unsafe_code)]

pub mod determinant;
pub mod logger;
pub mod protocol;
