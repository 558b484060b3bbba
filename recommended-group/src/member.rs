//! One process: messages, time and the program's calls go in, [`Action`](crate::action::Action)s come out.
//!
//! | module | steps | |
//! |---|---|---|
//! | `state` | A1 | what a process knows |
//! | `intervals` | A2, A3 | tests and verdicts |
//! | `news` | A5, A6 | how counters change |
//! | `returns` | A7 | requests, votes, decisions |
//! | `program` | A8 | rounds and barriers |

mod intervals;
mod news;
mod program;
mod returns;
mod state;

pub use state::Member;
