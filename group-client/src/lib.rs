//! A process's part in the group of recommended processes ([`recommended_group`]).
//!
//! A thread of the process tests the others and answers their tests, over authenticated datagrams of its own. It needs
//! no MPI: a process that is stopped or slow answers late or not at all, whatever its MPI does, and nobody answers for
//! it.
//!
//! | module | idea |
//! |---|---|
//! | [`parameters`] | what the program may set, as text |
//! | [`packet`] | what processes say to each other |
//! | [`addresses`] | where they are, and which of their addresses work |
//! | [`question`] | the test: the program's function, or primes |
//! | [`process`] | the state of one process, without I/O: rounds, who is lost, the end |
//! | [`watcher`] | who is told of the group without being in it |
//! | [`client`] | the thread, and what the program asks |

#![forbid(unsafe_code)]

pub mod addresses;
pub mod client;
pub mod packet;
pub mod parameters;
pub mod process;
pub mod question;
pub mod watcher;
