//! Message logging in a rank: a killed rank is replaced, and nobody rolls back.
//!
//! The layer of [`virtual_ranks`] makes messages between ranks of the program of all that communicates, which the
//! machine of [`event_log::protocol`] logs, suppresses, sends again, and whose order it records. Ranks are not
//! processes: a spare process that waits in `MPI_Init`, or a spawned one, takes the place of a dead one, runs the
//! program from its start, and is fed from the memory of the others.
//!
//! | module | idea |
//! |---|---|
//! | [`start`] | what a job asks for, and how it begins |
//! | `world` | which process is which rank |
//! | `summons` | what a spawned process is told |
//! | `envelope` | what stands before a message between processes |
//! | `matching` | which message a receive gets |
//! | `logger` | where what the program does not determine is stable |
//! | `output` | what ranks print appears once |
//! | `engine` | the machine of this rank, and what is done for it |
//! | `set_up`, `store`, `saved`, [`checkpointing`] | checkpoints of the program |
//! | `copies` | checkpoints in the memory of another rank |
//! | `resent` | what a replacement gets again |
//! | `logged` | all of that behind the functions of MPI |

pub mod checkpointing;
mod copies;
mod engine;
mod envelope;
mod logged;
mod logger;
mod matching;
mod output;
mod resent;
mod saved;
mod set_up;
pub mod start;
mod store;
mod summons;
mod world;
