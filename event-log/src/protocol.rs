//! Message logging at one rank: sender-based, pessimistic, with checkpoints that need no coordination.
//!
//! The algorithm is number 4 of the thesis, corrected and completed; `docs/decisions/message-logging.md` says how and
//! why. A rank keeps the messages that it sends. Outcomes that its program does not determine go to an event logger
//! before anything that depends on them leaves the rank. A dead rank's replacement starts from the last checkpoint, or
//! from the beginning, repeats the recorded outcomes and gets its messages from its peers' memory; nobody else rolls
//! back.
//!
//! ```
//! use event_log::protocol::action::{Action, Input};
//! use event_log::protocol::call::{Call, Outcome};
//! use event_log::protocol::pessimism::Mode;
//! use event_log::protocol::process::{Config, Process};
//! use event_log::protocol::sender_log::Limit;
//! use event_log::protocol::units::Channel;
//!
//! let mut rank: Process = Process::new(Config { rank: 0, ranks: 2, mode: Mode::BeforeNextSend, limit: Limit::NONE });
//! let (channel, payload) = (Channel { communicator: 0, tag: 7 }, b"hello".as_slice());
//! let mut actions = Vec::new();
//! rank.step(Input::Call(Call::Send { to: 1, channel, payload: payload.into() }), &mut actions).unwrap();
//! let message = Action::Transmit { to: 1, channel, number: 1, payload: payload.into() };
//! assert_eq!(actions, [message, Action::Return(Outcome::Done)]);
//! assert_eq!(rank.log_messages(), 1);
//! ```
//!
//! # What the caller owes
//!
//! - The program depends on its messages and on the outcomes of its calls alone: not on the time, not on chance.
//! - A rank's calls come one at a time.
//! - Making a communicator is a collective operation of its parent, then a call
//!   [`AddCommunicator`](call::Call::AddCommunicator). After a repair the caller makes all of them again, in the order
//!   of their numbers.
//! - `MPI_Finalize` is a collective operation that needs all: until it is over a rank's log may be asked for.
//! - Memory into which open receives write belongs to the program's state in a checkpoint.
//!
//! # Steps and modules
//!
//! The labels S1 to S5 (send), Q1 to Q5 (receive), K1 to K4 (checkpoint), G1 and G2 (garbage collection), F1 to F5
//! (failure at a survivor) and X1 to X7 (recovery) name the steps of the algorithm.
//!
//! | module | one idea |
//! |---|---|
//! | [`units`] | which messages are counted together, and why that identifies a message |
//! | [`counters`] | how many messages went each way |
//! | [`sender_log`] | what was sent and may be asked for again, and what happens when it is too much |
//! | [`collective_log`] | what was put into collective operations and came out |
//! | [`pessimism`] | when a rank waits for the event logger |
//! | [`requests`] | in which order messages count |
//! | `replay` | recorded outcomes that a replacement repeats |
//! | [`checkpoint`] | what a rank starts again from, and how a torn file is refused |
//! | [`message`] | what ranks say to each other |
//! | [`call`] | what the program calls, and what its calls return |
//! | [`action`] | what goes into the machine and comes out |
//! | [`process`] | the machine |
//! | [`error`] | what cannot be repaired |

pub mod action;
pub mod call;
pub mod checkpoint;
pub mod collective_log;
pub mod counters;
pub mod error;
pub mod message;
pub mod pessimism;
pub mod process;
mod replay;
pub mod requests;
pub mod sender_log;
pub mod units;
#[doc(hidden)]
pub mod variant;
