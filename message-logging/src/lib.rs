//! Message logging in a rank: a killed rank is replaced, and nobody rolls back.
//!
//! The layer stands in front of the functions of MPI that communicate. Each is made of messages between ranks of the program, which
//! the machine of [`event_log::protocol`] logs, suppresses, sends again, and whose order it records. Ranks are not processes: a
//! spare process that waits in `MPI_Init` takes the place of a dead one, runs the program from its start, and is fed from the
//! memory of the others.
//!
//! | module | idea |
//! |---|---|
//! | [`start`] | what a job asks for, and how it begins |
//! | `world` | which process is which rank |
//! | `carrier`, `envelope`, `packet` | messages between processes |
//! | `matching` | which message a receive gets |
//! | `logger` | where what the program does not determine is stable |
//! | `output` | what ranks print appears once |
//! | `engine` | the machine of this rank, and what is done for it |
//! | `set_up`, `store`, `saved`, [`checkpointing`] | checkpoints of the program |
//! | `resent` | what a replacement gets again |
//! | `data` | the program's buffers |
//! | `comms`, `topology`, `grid`, `requests` | handles of the program |
//! | `schedule`, `operation` | collective operations as steps of a member, which are messages |
//! | `progress` | operations go on while the program does |
//! | `processor_names` | the nodes of ranks |
//! | `statuses` | what statuses say |
//! | `layer` | all of that in this process, and what entries have in common |
//! | `entries`, `handlers` | the functions of MPI |

mod carrier;
pub mod checkpointing;
mod comms;
mod data;
mod engine;
mod entries;
mod envelope;
mod grid;
mod handlers;
mod layer;
mod logger;
mod matching;
mod operation;
mod output;
mod packet;
mod processor_names;
mod progress;
mod requests;
mod resent;
mod saved;
mod schedule;
mod set_up;
pub mod start;
mod statuses;
mod stock;
mod store;
mod topology;
mod world;
