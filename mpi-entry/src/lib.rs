//! Each MPI function once: what it means for a layer between the program and Open MPI, and how functions of a layer are
//! called in place of Open MPI's.
//!
//! Calls of the program and of its libraries are caught, also those in Fortran and in mpi4py, which end in the
//! functions of C. Calls that Open MPI makes of its own functions are not.
//!
//! | file | content |
//! |---|---|
//! | `functions.rs` | every function of the installed headers, with its class |
//! | `entries.rs` | functions of a layer are called in place of Open MPI's |
//! | `trampolines.rs` | code that reports the first call of a function that the layer does not cover; `no_trampolines.rs` on processors without |

pub mod entries;
pub mod functions;
#[cfg(target_arch = "x86_64")]
mod trampolines;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_trampolines.rs"]
mod trampolines;
