//! Replicated ranks: each rank of a program runs in two or three processes, and what these send is compared.
//!
//! The layer of [`virtual_ranks`] makes messages between ranks of all that communicates. The machine of [`replication`]
//! says what goes to which process, and what the program gets.
//!
//! | module | idea |
//! |---|---|
//! | [`start`] | what a job asks for, and how it begins |
//! | [`degree`] | the parameter that says how many replicas which ranks have |
//! | [`places`] | which process is which replica |
//! | `envelope`, `sealed` | messages between processes |
//! | [`files`] | what a rank writes into files appears once |
//! | [`flips`] | bits that are flipped on request |
//! | [`printing`], `output` | what a rank prints is compared, and appears once |
//! | `engine` | the machine of this replica, and what is done for it |
//! | [`tell`] | where the job's tools learn of replicas |
//! | `replicated` | all of that behind the functions of MPI |

pub mod degree;
mod engine;
mod envelope;
pub mod files;
pub mod flips;
mod output;
pub mod places;
pub mod printing;
mod replicated;
mod sealed;
pub mod start;
pub mod tell;
