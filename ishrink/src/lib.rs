//! Implements nonblocking operations on communicators, and checkpoints of a program, for Open MPI 5.0.
//!
//! Open MPI 5.0 contains a nonblocking shrink, but does not export it, and it has a defect. This library provides the
//! function to C ([`MPIX_Comm_ishrink`](comm_ishrink::MPIX_Comm_ishrink)) and Fortran, and repairs the defect; Python
//! uses it through `ringwatch.py`. Open MPI spawns and connects only in blocking functions: [`fibers`] run them beside
//! the program.
//!
//! [`checkpoint`] saves memory of the program in files, with message logging and without. [`group`] is the group of
//! recommended processes for programs that can be mapped anew while they run.
//!
//! Files `preload_*` contain functions that Open MPI calls in place of its own. No two files import each other.

mod checkpoint;
mod checkpoint_fortran;
mod checkpoint_layer;
mod checkpoint_plain;
mod comm_ishrink;
mod comm_request;
mod dynamic_process;
mod fibers;
mod fortran;
mod fortran_names;
mod generalized_request;
mod group;
mod group_calls;
mod group_fortran;
mod group_watch;
mod inheritance;
mod internals;
mod openmpi;
mod operation_comm;
mod operation_order;
mod pmix_nonblocking;
mod precondition;
mod preload_agreement;
mod preload_comm_request;
mod preload_shrink;
mod shadow_pool;
mod shrink;
mod spawning;
mod votes;
