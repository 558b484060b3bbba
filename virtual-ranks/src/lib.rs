//! Ranks of a program that are not processes: one layer in front of MPI's functions for all protocols that replace or
//! repeat ranks.
//!
//! The layer stands in front of the functions of MPI that communicate. Each is made of messages between ranks of the
//! program, which a [`Protocol`](protocol::Protocol) carries.
//!
//! | module | idea |
//! |---|---|
//! | [`protocol`] | what a protocol does for the layer |
//! | [`start`] | the processes of a job, and how the layer begins |
//! | [`carrier`], [`links`], [`packet`] | messages between processes |
//! | [`spawning`] | processes of the program are started in the job |
//! | [`streams`] | standard output goes through this process |
//! | [`system_clocks`] | clocks of the system show what the protocol says |
//! | [`data`] | the program's buffers |
//! | [`comms`], `topology`, `grid`, [`requests`] | handles of the program |
//! | `schedule`, [`operation`] | collective operations as steps of a member, which are messages |
//! | `progress` | operations go on while the program does |
//! | [`processor_names`] | the nodes of ranks |
//! | `statuses` | what statuses say |
//! | [`stock`] | Open MPI's own functions |
//! | [`layer`] | all of that in this process, and what entries have in common |
//! | [`entries`], `handlers` | the functions of MPI |

pub mod carrier;
pub mod comms;
pub mod data;
pub mod entries;
mod grid;
mod handlers;
pub mod layer;
pub mod links;
pub mod operation;
pub mod packet;
pub mod processor_names;
mod progress;
pub mod protocol;
pub mod requests;
mod schedule;
pub mod spawning;
pub mod start;
mod statuses;
pub mod stock;
pub mod streams;
pub mod system_clocks;
mod topology;
