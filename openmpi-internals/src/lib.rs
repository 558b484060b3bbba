//! What ringwatch knows of Open MPI's inside: its symbols, its structs, and how a function of ours is put in front of
//! one of its own. It imports nothing of ringwatch.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "handles are passed as to MPI's own functions: callers have them from Open MPI, and they live during the call"
)]

pub mod abi;
pub mod btl;
pub mod calls_by_name;
pub mod classes;
pub mod coll_module;
pub mod comm_api;
pub mod comm_request;
pub mod comm_set;
pub mod communicator;
pub mod epoch_bits;
pub mod error_class;
pub mod group;
pub mod in_front;
pub mod interpose;
pub mod loaded;
pub mod object;
pub mod own_request;
pub mod pml;
pub mod proc;
pub mod process_name;
mod protections;
pub mod release;
pub mod request;
pub mod requests;
pub mod symbol;
pub mod symbol_table;
pub mod sync;
pub mod v5_0;
pub mod wait_sync;

/// Names and structs of the release that this is built for, and whether they are those of the process. Open MPI loads
/// components of its own release alone.
pub use v5_0::{functions, layout, probe, variables};
